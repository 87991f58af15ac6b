//! Declares a section of the run file: from one list of keys come the typed raw values, the test for unknown keys, the
//! JSON schema and the table in `docs/run-file.md`, so that none of the four can lag behind the others.

use schemars::Schema;

use super::error::Problem;
use super::findings::Findings;
use super::keys::{self, ForeignKey};
use super::kind::Kind;
use super::place::Place;
use crate::files::json::{Entry, Node, Span, Value, join, nearest};

/// A key of a section as it was written.
#[derive(Debug)]
pub(crate) struct Field<T> {
    pub(crate) place: Place,
    state: State<T>,
}

#[derive(Debug)]
enum State<T> {
    /// Not written.
    Absent,
    /// Written with another type; already reported.
    Invalid,
    /// Written.
    Given(T),
}

impl<T: Clone> Field<T> {
    /// Whether the key stands in the file, rightly or wrongly.
    pub(crate) fn is_written(&self) -> bool {
        !matches!(self.state, State::Absent)
    }

    /// The value as written.
    pub(crate) fn given(&self) -> Option<T> {
        match &self.state {
            State::Given(value) => Some(value.clone()),
            State::Absent | State::Invalid => None,
        }
    }

    /// The value, `default` where none is written, and `None` where it has the wrong type.
    pub(crate) fn or(&self, default: T) -> Option<T> {
        match &self.state {
            State::Given(value) => Some(value.clone()),
            State::Absent => Some(default),
            State::Invalid => None,
        }
    }

    /// The value; where none is written, reports that `rule` needs one.
    pub(crate) fn required(&self, findings: &mut Findings, rule: &str, repair: &str) -> Option<T> {
        if !self.is_written() {
            findings.missing(&self.place, rule, repair);
        }
        self.given()
    }
}

/// A group of keys: the whole file, or an object in it.
pub(crate) trait Section: Sized {
    /// What may stand in it.
    fn spec() -> SectionSpec;

    /// Reads it; reports values of the wrong type and unknown keys.
    fn read(object: &Object<'_>, findings: &mut Findings) -> Self;

    /// Adds its head and those of the sections inside it.
    fn heads<'a>(&'a self, heads: &mut Vec<&'a Head>);
}

/// What may stand in a section.
pub(crate) struct SectionSpec {
    /// Its path, such as `optimizer.params`; empty for the whole file.
    pub(crate) path: &'static str,
    /// What it is about.
    pub(crate) about: String,
    /// The keys that have an effect.
    pub(crate) keys: Vec<KeySpec>,
    /// The sections inside it, each with its key.
    pub(crate) sections: Vec<(&'static str, SectionSpec)>,
}

/// What is known about a key that has an effect.
pub(crate) struct KeySpec {
    /// Its name.
    pub(crate) name: &'static str,
    /// What it means.
    pub(crate) about: String,
    /// Its default as JSON, or how it follows from other keys; empty where the key is needed.
    pub(crate) default: &'static str,
    /// Why that is the default.
    pub(crate) why: &'static str,
    /// Its type in words.
    pub(crate) expected: String,
    /// Its type.
    pub(crate) schema: Schema,
}

/// What is known of a section beside its keys.
#[derive(Debug)]
pub(crate) struct Head {
    /// Where it stands, or the section around it where it is absent.
    pub(crate) place: Place,
    /// Whether it stands in the file, rightly or wrongly.
    pub(crate) is_written: bool,
    /// Its keys that have no effect: hints, and what is not offered.
    pub(crate) foreign: Vec<Foreign>,
}

/// A key that has no effect, as it was written.
#[derive(Clone, Debug)]
pub(crate) struct Foreign {
    pub(crate) key: &'static ForeignKey,
    pub(crate) place: Place,
    pub(crate) node: Node,
}

/// An object of the file that is being read as a section.
pub(crate) struct Object<'a> {
    place: Place,
    entries: Entries<'a>,
}

enum Entries<'a> {
    /// The section is not written: every key is absent.
    Absent,
    /// The section is not an object; that is reported once, so its keys are not reported too.
    Invalid,
    Given(&'a [Entry]),
}

impl<'a> Object<'a> {
    /// The whole file.
    pub(crate) fn root(node: &'a Node, findings: &mut Findings) -> Self {
        let span = Span { end: (node.span.start + 1).min(node.span.end), ..node.span.clone() };
        Self::new(node, Place { path: String::new(), span }, findings)
    }

    /// The section below key `name`.
    pub(crate) fn section(&self, name: &str, findings: &mut Findings) -> Self {
        let path = join(&self.place.path, name);
        match &self.entries {
            Entries::Given(entries) => match entries.iter().find(|entry| entry.key == name) {
                Some(entry) => Self::new(&entry.node, Place { path, span: entry.key_span.clone() }, findings),
                None => Self { place: Place { path, ..self.place.clone() }, entries: Entries::Absent },
            },
            Entries::Absent => Self { place: Place { path, ..self.place.clone() }, entries: Entries::Absent },
            Entries::Invalid => {
                Self { place: Place { path, ..self.place.clone() }, entries: Entries::Invalid }
            }
        }
    }

    fn new(node: &'a Node, place: Place, findings: &mut Findings) -> Self {
        let entries = match &node.value {
            Value::Object(entries) => Entries::Given(entries.as_slice()),
            _ => {
                let place = Place { span: node.span.clone(), ..place.clone() };
                findings.error(&place, wrong_type("an object", node));
                Entries::Invalid
            }
        };
        Self { place, entries }
    }

    /// What is known of the section itself; reports keys that are neither `own` nor known otherwise.
    pub(crate) fn head(&self, own: &[&str], findings: &mut Findings) -> Head {
        Head {
            place: self.place.clone(),
            is_written: !matches!(self.entries, Entries::Absent),
            foreign: self.foreign(own, findings),
        }
    }

    /// The key `name` as type `T`.
    pub(crate) fn field<T: Kind>(&self, name: &str, findings: &mut Findings) -> Field<T> {
        let path = join(&self.place.path, name);
        let entries = match self.entries {
            Entries::Given(entries) => entries,
            Entries::Absent => &[],
            Entries::Invalid => {
                return Field { place: Place { path, ..self.place.clone() }, state: State::Invalid };
            }
        };
        let Some(entry) = entries.iter().find(|entry| entry.key == name) else {
            return Field { place: Place { path, ..self.place.clone() }, state: State::Absent };
        };
        let place = Place { path, span: entry.node.span.clone() };
        let state = match T::read(&entry.node) {
            Some(value) => State::Given(value),
            None => {
                let fault = T::fault(&entry.node, &place);
                let (at, problem) =
                    fault.unwrap_or_else(|| (place.clone(), wrong_type(&T::expected(), &entry.node)));
                findings.error(&at, problem);
                State::Invalid
            }
        };
        Field { place, state }
    }

    fn foreign(&self, own: &[&str], findings: &mut Findings) -> Vec<Foreign> {
        let Entries::Given(entries) = self.entries else { return Vec::new() };
        let known = keys::foreign(&self.place.path);
        let mut foreign = Vec::new();
        for entry in entries.iter().filter(|entry| !own.contains(&entry.key.as_str())) {
            let path = join(&self.place.path, &entry.key);
            if let Some(key) = known.iter().find(|key| key.name == entry.key) {
                let place = Place { path, span: entry.node.span.clone() };
                foreign.push(Foreign { key, place, node: entry.node.clone() });
            } else {
                let names = own.iter().copied().chain(known.iter().map(|key| key.name));
                let nearest = nearest(&entry.key, names).map(str::to_owned);
                let place = Place { path, span: entry.key_span.clone() };
                findings.error(&place, Problem::UnknownKey { nearest });
            }
        }
        foreign
    }
}

fn wrong_type(expected: &str, node: &Node) -> Problem {
    Problem::WrongType { expected: expected.to_owned(), found: node.describe() }
}

/// Declares a section: its keys, each with documentation, type, default and the reason for the default, and the
/// sections inside it.
macro_rules! section {
    (
        $(#[doc = $about:literal])+
        $name:ident at $path:literal {
            $( $(#[doc = $doc:literal])+ $key:ident: $kind:ty = $default:literal, $why:literal; )*
        }
        $( sections { $( $inner:ident: $inner_type:ident; )+ } )?
    ) => {
        $(#[doc = $about])+
        #[derive(Debug)]
        pub(crate) struct $name {
            /// The section itself.
            pub(crate) head: $crate::config::section::Head,
            $( $(#[doc = $doc])+ pub(crate) $key: $crate::config::section::Field<$kind>, )*
            $( $( pub(crate) $inner: $inner_type, )+ )?
        }

        impl $crate::config::section::Section for $name {
            fn spec() -> $crate::config::section::SectionSpec {
                $crate::config::section::SectionSpec {
                    path: $path,
                    about: concat!($($about),+).trim().to_owned(),
                    keys: vec![$(
                        $crate::config::section::KeySpec {
                            name: $crate::config::section::plain(stringify!($key)),
                            about: concat!($($doc),+).trim().to_owned(),
                            default: $default,
                            why: $why,
                            expected: <$kind as $crate::config::kind::Kind>::expected(),
                            schema: <$kind as $crate::config::kind::Kind>::schema(),
                        },
                    )*],
                    sections: vec![$( $( (stringify!($inner), $inner_type::spec()), )+ )?],
                }
            }

            fn read(
                object: &$crate::config::section::Object<'_>,
                findings: &mut $crate::config::findings::Findings,
            ) -> Self {
                let own = [
                    $( $crate::config::section::plain(stringify!($key)), )*
                    $( $( stringify!($inner), )+ )?
                ];
                Self {
                    head: object.head(&own, findings),
                    $( $key: object.field($crate::config::section::plain(stringify!($key)), findings), )*
                    $( $( $inner: $inner_type::read(&object.section(stringify!($inner), findings), findings), )+ )?
                }
            }

            fn heads<'a>(&'a self, heads: &mut Vec<&'a $crate::config::section::Head>) {
                heads.push(&self.head);
                $( $( self.$inner.heads(heads); )+ )?
            }
        }
    };
}

pub(crate) use section;

/// An identifier without Rust's mark for names that are keywords, as in `r#type`.
pub(crate) fn plain(identifier: &'static str) -> &'static str {
    identifier.strip_prefix("r#").unwrap_or(identifier)
}
