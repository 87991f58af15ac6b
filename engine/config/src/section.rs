//! Declares a section of the run file: from one list of keys come the typed raw values, the test for unknown keys, the
//! JSON schema and the table in `docs/run-file.md`, so that none of the four can lag behind the others.

use pipezero_files::json::{Entry, Node, Span, Value, is_slip, join, nearest, shorten};
use schemars::Schema;
use serde::Serialize;

use super::auto_section;
use super::elsewhere::{self, Elsewhere};
use super::error::Problem;
use super::findings::{Findings, Site};
use super::keys::{self, ForeignKey};
use super::kind::{Auto, Kind, wrong_type};
use super::place::Place;

/// A key of a section as it was written.
#[derive(Debug)]
pub(crate) struct Field<T> {
    pub(crate) site: Site,
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
        if self.is_written() { self.given() } else { Some(default) }
    }

    /// The value; where none is written, reports that `rule` needs one.
    pub(crate) fn required(&self, rule: &str, repair: &str) -> Option<T> {
        if self.is_written() { self.given() } else { self.site.missing(rule, repair) }
    }

    /// Reports that this key is `value`, which breaks `rule`.
    pub(crate) fn broken<U>(
        &self,
        value: impl ToString,
        rule: impl Into<String>,
        repair: impl Into<String>,
    ) -> Option<U> {
        self.site.broken(value, rule, repair)
    }

    /// The value of this key if `holds` is true of it; otherwise reports that it breaks `rule`.
    pub(crate) fn keep<U: Copy + ToString>(
        &self,
        value: Option<U>,
        holds: impl Fn(U) -> bool,
        rule: &str,
        repair: &str,
    ) -> Option<U> {
        let value = value?;
        if holds(value) { Some(value) } else { self.broken(value, rule, repair) }
    }

    /// The value of this key, if it is at least 1.
    pub(crate) fn at_least_one<U: Copy + ToString + PartialOrd + From<u8>>(
        &self,
        value: Option<U>,
    ) -> Option<U> {
        self.keep(value, |value| value >= U::from(1), "it must be at least 1", "use 1 or more")
    }

    /// The value of this key, if it is 0 or more.
    pub(crate) fn not_negative(&self, value: Option<f64>) -> Option<f64> {
        self.keep(value, |value| value >= 0.0, "it must not be negative", "use 0 or more")
    }

    /// The value of this key, if it is at least 0 and below 1, as `example` is.
    pub(crate) fn below_one(&self, value: Option<f64>, example: f64) -> Option<f64> {
        let repair = format!("use a value such as {example}");
        let holds = |value| (0.0..1.0).contains(&value);
        self.keep(value, holds, "it must be at least 0 and below 1", &repair)
    }

    /// Reports this key if it is written although it has no meaning here: `None` if it is.
    pub(crate) fn absent(&self, value: impl FnOnce(T) -> String, rule: &str) -> Option<()> {
        if let Some(written) = self.given() {
            return self.broken(value(written), rule, "remove it");
        }
        (!self.is_written()).then_some(())
    }
}

impl<T: Clone> Field<Auto<T>> {
    /// The value, and `default` where none is written or it is `"auto"`.
    pub(crate) fn auto_or(&self, default: T) -> Option<T>
    where
        T: Serialize,
    {
        self.auto_or_else(|| default)
    }

    /// The same with a default that is worked out only where it is needed.
    pub(crate) fn auto_or_else(&self, default: impl FnOnce() -> T) -> Option<T>
    where
        T: Serialize,
    {
        Some(self.or(Auto::Auto)?.value().unwrap_or_else(|| self.became(default())))
    }

    /// Says what became of `"auto"` and why, if that is written.
    pub(crate) fn became_because(&self, value: impl Serialize, why: &str) {
        if matches!(self.state, State::Given(Auto::Auto)) {
            let value = serde_json::to_string(&value).expect("a number, a word or a list of them");
            self.site.auto(format!("{value}: {why}"));
        }
    }

    /// Says what became of `"auto"`, if that is written.
    pub(crate) fn became<U: Serialize>(&self, value: U) -> U {
        if matches!(self.state, State::Given(Auto::Auto)) {
            self.site.auto(serde_json::to_string(&value).expect("a number, a word or a list of them"));
        }
        value
    }
}

/// A group of keys: the whole file, or an object in it.
pub(crate) trait Section: Sized {
    /// What may stand in it.
    fn spec() -> SectionSpec;

    /// Reads it; reports values of the wrong type and unknown keys.
    fn read(object: &Object<'_>) -> Self;

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

impl SectionSpec {
    /// The key of a name, where one section alone has it that is not the one at `path`.
    pub(crate) fn key_elsewhere(&self, path: &str, name: &str) -> Option<String> {
        let name = &*name.replace('-', "_");
        let sections = self.all();
        let mut found = sections
            .into_iter()
            .filter(|section| section.path != path && section.keys.iter().any(|key| key.name == name));
        let section = found.next()?;
        found.next().is_none().then(|| join(section.path, name))
    }

    /// This section and all sections inside it.
    pub(crate) fn all(&self) -> Vec<&Self> {
        let inner = self.sections.iter().flat_map(|(_, inner)| inner.all());
        std::iter::once(self).chain(inner).collect()
    }
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
    pub(crate) site: Site,
    /// Whether it stands in the file, rightly or wrongly.
    pub(crate) is_written: bool,
    /// Its keys that have no effect: hints, and what is not offered.
    pub(crate) foreign: Vec<Foreign>,
}

/// A key that has no effect, as it was written.
#[derive(Clone, Debug)]
pub(crate) struct Foreign {
    pub(crate) key: &'static ForeignKey,
    pub(crate) site: Site,
    pub(crate) node: Node,
}

/// An object of the file that is being read as a section.
pub(crate) struct Object<'a> {
    site: Site,
    entries: Entries<'a>,
}

#[derive(Clone, Copy)]
enum Entries<'a> {
    /// The section is not written: every key is absent.
    Absent,
    /// The section is not an object; that is reported once, so its keys are not reported too.
    Invalid,
    Given(&'a [Entry]),
}

impl<'a> Object<'a> {
    /// The whole file.
    pub(crate) fn root(node: &'a Node, findings: &Findings) -> Self {
        let span = Span { end: (node.span.start + 1).min(node.span.end), ..node.span.clone() };
        let place = Place { path: String::new(), span };
        Self::new(node, Site { place, findings: findings.clone() })
    }

    /// The section below key `name`.
    pub(crate) fn section(&self, name: &str) -> Self {
        match self.entry(name) {
            Some(entry) => Self::new(&entry.node, self.site_of(name, &entry.key_span)),
            None => {
                let absent = if self.is_invalid() { Entries::Invalid } else { Entries::Absent };
                Self { site: self.site_of(name, &self.site.place.span), entries: absent }
            }
        }
    }

    fn new(node: &'a Node, site: Site) -> Self {
        if let Value::Object(entries) = &node.value {
            return Self { site, entries: Entries::Given(entries) };
        }
        let value = Site { place: Place { span: node.span.clone(), ..site.place.clone() }, ..site.clone() };
        let (repair, replacement) = section_instead(&site.place.path, node);
        value.error::<()>(Problem::WrongType {
            expected: if auto_section::is_one(&site.place.path) {
                "an object or \"auto\"".to_owned()
            } else {
                "an object".to_owned()
            },
            found: node.describe(),
            repair,
            replacement,
        });
        Self { site, entries: Entries::Invalid }
    }

    fn is_invalid(&self) -> bool {
        matches!(self.entries, Entries::Invalid)
    }

    fn entries(&self) -> &'a [Entry] {
        if let Entries::Given(entries) = self.entries { entries } else { &[] }
    }

    fn entry(&self, name: &str) -> Option<&'a Entry> {
        self.entries().iter().find(|entry| entry.key == name)
    }

    /// The key `name` of this section, which stands at `span`.
    fn site_of(&self, name: &str, span: &Span) -> Site {
        let path = join(&self.site.place.path, name);
        Site { place: Place { path, span: span.clone() }, ..self.site.clone() }
    }

    /// What is known of the section itself; reports keys that are neither `own` nor known otherwise.
    pub(crate) fn head(&self, own: &[&str]) -> Head {
        let is_written = !matches!(self.entries, Entries::Absent);
        Head { site: self.site.clone(), is_written, foreign: self.foreign(own) }
    }

    /// The key `name` as type `T`, for which `default` is written where none is.
    pub(crate) fn field<T: Kind>(&self, name: &str, default: &str) -> Field<T> {
        let Some(entry) = self.entry(name) else {
            let state = if self.is_invalid() { State::Invalid } else { State::Absent };
            return Field { site: self.site_of(name, &self.site.place.span), state };
        };
        let site = self.site_of(name, &entry.node.span);
        let state = match T::read(&entry.node) {
            Some(value) => State::Given(value),
            None => {
                let (place, problem) = T::fault(&entry.node, &site.place)
                    .unwrap_or_else(|| (site.place.clone(), wrong_type::<T>(&entry.node, default)));
                Site { place, ..site.clone() }.error::<()>(problem);
                State::Invalid
            }
        };
        Field { site, state }
    }

    fn foreign(&self, own: &[&str]) -> Vec<Foreign> {
        let known = keys::foreign(&self.site.place.path);
        let mut foreign: Vec<_> = self.entries().iter().flat_map(|entry| self.inside(entry)).collect();
        for entry in self.entries().iter().filter(|entry| !own.contains(&entry.key.as_str())) {
            if let Some(key) = known.iter().find(|key| key.name == entry.key) {
                let site = self.site_of(&entry.key, &entry.node.span);
                foreign.push(Foreign { key, site, node: entry.node.clone() });
                continue;
            }
            if entry.key.starts_with('_') {
                let site = self.site_of(&entry.key, &entry.key_span);
                site.hint("no effect here: keys that begin with `_` are comments");
                continue;
            }
            if self.site.findings.has_many_errors() {
                let site = self.site_of(&entry.key, &entry.key_span);
                site.error::<()>(Problem::UnknownKey { elsewhere: None, nearest: None, stands_at: None });
                continue;
            }
            let names = own.iter().copied().chain(known.iter().map(|key| key.name));
            let nearest = nearest(&entry.key, names).map(str::to_owned);
            let is_slip = nearest.as_deref().is_some_and(|nearest| is_slip(&entry.key, nearest));
            if is_slip || !self.is_section_of_another_system(entry) {
                let elsewhere = self.usual(entry);
                let site = self.site_of(&entry.key, &entry.key_span);
                site.error::<()>(Problem::UnknownKey { elsewhere, nearest, stands_at: None });
            }
        }
        foreign
    }

    /// What says the same here as a key that this section does not have.
    fn usual(&self, entry: &Entry) -> Option<Elsewhere> {
        elsewhere::usual(&self.site.place.path, &entry.key, entry.node.span.written())
    }

    /// Whether an unknown section holds keys that another system has; reports each of its keys with what says the same here.
    fn is_section_of_another_system(&self, entry: &'a Entry) -> bool {
        let Value::Object(inner) = &entry.node.value else { return false };
        let usual = |inner: &Entry| elsewhere::usual(&entry.key, &inner.key, inner.node.span.written());
        // One answer speaks for all that stands in it.
        if matches!(self.usual(entry), Some(Elsewhere::None(_))) {
            return false;
        }
        if !elsewhere::is_section(&entry.key) && !inner.iter().any(|inner| usual(inner).is_some()) {
            return false;
        }
        let section = Self::new(&entry.node, self.site_of(&entry.key, &entry.key_span));
        for inner in inner {
            let site = section.site_of(&inner.key, &inner.key_span);
            site.error::<()>(Problem::UnknownKey { elsewhere: usual(inner), nearest: None, stands_at: None });
        }
        true
    }

    /// The keys without effect inside `entry`, a section without effect; reports those that DeepSpeed does not know there.
    fn inside(&self, entry: &'a Entry) -> Vec<Foreign> {
        let site = self.site_of(&entry.key, &entry.key_span);
        match (keys::inner(&site.place.path), &entry.node.value) {
            (Some(own), Value::Object(_)) => Self::new(&entry.node, site).foreign(own),
            _ => Vec::new(),
        }
    }
}

/// What to write in place of a value that stands where a section belongs, and that section itself where it can be nothing else.
fn section_instead(path: &str, node: &Node) -> (String, Option<String>) {
    let name = path.rsplit('.').next().unwrap_or(path);
    let key = match (name, &node.value) {
        ("zero_optimization", Value::Number) => "stage",
        ("data", Value::String(_) | Value::Array(_)) => "text",
        ("bf16" | "fp16" | "activation_checkpointing", Value::Bool(_)) => "enabled",
        ("optimizer" | "scheduler", Value::String(_)) => "type",
        _ => return (other_than_section(name, node), None),
    };
    let section = format!("{{\"{key}\": {}}}", node.span.written());
    (format!("write {section}"), Some(section))
}

/// What to write in place of a value that shows of no key of the section.
fn other_than_section(name: &str, node: &Node) -> String {
    match (name, &node.value) {
        ("model", Value::String(family)) => {
            format!("write {{\"family\": \"{}\", ...}}", shorten(family))
        }
        ("", _) => "begin the file with `{` and end it with `}`".to_owned(),
        (_, Value::Null | Value::Bool(false)) => "remove it".to_owned(),
        _ => format!("write an object with the keys of `{name}`: {{...}}"),
    }
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
            pub(crate) head: $crate::section::Head,
            $( $(#[doc = $doc])+ pub(crate) $key: $crate::section::Field<$kind>, )*
            $( $( pub(crate) $inner: $inner_type, )+ )?
        }

        impl $crate::section::Section for $name {
            fn spec() -> $crate::section::SectionSpec {
                $crate::section::SectionSpec {
                    path: $path,
                    about: concat!($($about),+).trim().to_owned(),
                    keys: vec![$(
                        $crate::section::KeySpec {
                            name: $crate::section::plain(stringify!($key)),
                            about: concat!($($doc),+).trim().to_owned(),
                            default: $default,
                            why: $why,
                            expected: <$kind as $crate::kind::Kind>::expected(),
                            schema: <$kind as $crate::kind::Kind>::schema(),
                        },
                    )*],
                    sections: vec![$( $( (stringify!($inner), $inner_type::spec()), )+ )?],
                }
            }

            fn read(object: &$crate::section::Object<'_>) -> Self {
                let own = [
                    $( $crate::section::plain(stringify!($key)), )*
                    $( $( stringify!($inner), )+ )?
                ];
                Self {
                    head: object.head(&own),
                    $( $key: object.field($crate::section::plain(stringify!($key)), $default), )*
                    $( $( $inner: $inner_type::read(&object.section(stringify!($inner))), )+ )?
                }
            }

            fn heads<'a>(&'a self, heads: &mut Vec<&'a $crate::section::Head>) {
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
