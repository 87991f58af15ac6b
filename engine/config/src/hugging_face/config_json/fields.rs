//! The fields of an object of config.json, taken one by one.

use std::collections::BTreeSet;

use pipezero_files::json::{Node, Span, Value, join, nearest, shorten};

use super::unused_fields::Purpose;
use crate::hugging_face::error::{ConfigFault, HuggingFaceError};

/// Faults that are reported at most.
const FAULTS_MAX: usize = 100;

/// The fields of an object, which of them were taken, and what is wrong with them.
///
/// What is wrong is noted and the rest still read, so that one reading finds all of it. A value that could not be had is `None`, as one that
/// is absent.
pub(super) struct Fields<'a> {
    node: &'a Node,
    path: String,
    taken: BTreeSet<&'a str>,
    known: BTreeSet<&'static str>,
    /// Each with its place in the text.
    faults: Vec<(usize, ConfigFault)>,
}

impl<'a> Fields<'a> {
    /// Those of the object at `path`.
    pub(super) fn of(node: &'a Node, path: &str) -> Result<Self, ConfigFault> {
        match node.value {
            Value::Object(_) => Ok(Self {
                node,
                path: path.to_owned(),
                taken: BTreeSet::new(),
                known: BTreeSet::new(),
                faults: Vec::new(),
            }),
            _ => {
                let it = if path.is_empty() { "it".to_owned() } else { format!("`{path}`") };
                Err(fault(&node.span, format!("{it} is {}, and must be an object", node.describe())))
            }
        }
    }

    /// Those of an object in this one; `None` where it is none, which is noted.
    pub(super) fn inner(&mut self, node: &'a Node, name: &str) -> Option<Self> {
        let inner = Self::of(node, &join(&self.path, name));
        inner.map_err(|fault| self.faults.push((node.span.start, fault))).ok()
    }

    /// Notes what is wrong with an object in this one.
    pub(super) fn note_faults_of(&mut self, inner: Self) {
        self.faults.extend(inner.faults);
    }

    /// Takes a field; one that is null is absent.
    pub(super) fn take(&mut self, name: &'static str) -> Option<&'a Node> {
        self.known.insert(name);
        let Value::Object(entries) = &self.node.value else { return None };
        let entry = entries.iter().find(|entry| entry.key == name)?;
        self.taken.insert(&entry.key);
        (!matches!(entry.node.value, Value::Null)).then_some(&entry.node)
    }

    /// Whether a field is written, be it as null.
    pub(super) fn has(&self, name: &str) -> bool {
        let Value::Object(entries) = &self.node.value else { return false };
        entries.iter().any(|entry| entry.key == name)
    }

    /// Takes a whole number of at least 1.
    pub(super) fn size(&mut self, name: &'static str) -> Option<usize> {
        let node = self.take(name)?;
        let size = node.number().and_then(|number| number.parse().ok()).filter(|&size| size > 0);
        if size.is_none() {
            self.refuse(name, node, "it must be a whole number of at least 1");
        }
        size
    }

    /// As [`Fields::size`], of a field that a model cannot do without.
    pub(super) fn needed(&mut self, name: &'static str) -> Option<usize> {
        if self.take(name).is_none() {
            self.wrong(format!("`{}` is missing: it is a size of the model", join(&self.path, name)));
        }
        self.size(name)
    }

    /// Takes a finite number.
    pub(super) fn number(&mut self, name: &'static str) -> Option<f64> {
        let node = self.take(name)?;
        let number = node.number().and_then(|number| number.parse().ok());
        let number = number.filter(|number: &f64| number.is_finite());
        if number.is_none() {
            self.refuse(name, node, "it must be a number");
        }
        number
    }

    /// Takes `true` or `false`.
    pub(super) fn flag(&mut self, name: &'static str, default: bool) -> bool {
        match self.take(name) {
            None => default,
            Some(Node { value: Value::Bool(flag), .. }) => *flag,
            Some(node) => {
                self.refuse(name, node, "it must be true or false");
                default
            }
        }
    }

    /// Takes one of these words, by its place in the list; the field must be there.
    pub(super) fn word(&mut self, name: &'static str, words: &[&str]) -> Option<usize> {
        let rule = format!("it must be one of {}", words.join(", "));
        let Some(node) = self.take(name) else {
            self.wrong(format!("`{}` is missing: {rule}", join(&self.path, name)));
            return None;
        };
        let found = match &node.value {
            Value::String(word) => words.iter().position(|known| known == word),
            _ => None,
        };
        if found.is_none() {
            self.refuse(name, node, &rule);
        }
        found
    }

    /// Takes a word that must be one of these where it is there.
    pub(super) fn only(&mut self, name: &'static str, words: &[&str]) {
        match self.take(name) {
            Some(Node { value: Value::String(word), .. }) if words.contains(&word.as_str()) => {}
            Some(node) => self.refuse(name, node, &format!("only \"{}\" is offered", words[0])),
            None => {}
        }
    }

    /// Takes a number that must be this one where it is there.
    pub(super) fn only_number(&mut self, name: &'static str, number: f64) {
        let Some(node) = self.take(name) else { return };
        if node.number().and_then(|found| found.parse().ok()) != Some(number) {
            self.refuse(name, node, &format!("only {number} is offered"));
        }
    }

    /// Takes a flag that must be this one where it is there.
    pub(super) fn only_flag(&mut self, name: &'static str, flag: bool) {
        match self.take(name) {
            Some(node) if !matches!(node.value, Value::Bool(found) if found == flag) => {
                self.refuse(name, node, &format!("only {flag} is offered"));
            }
            _ => {}
        }
    }

    /// Takes a token or a list of tokens, which training does not use: with anything else transformers would not read the exported file.
    pub(super) fn tokens(&mut self, name: &'static str) {
        let is_token = |node: &Node| node.number().is_some_and(|number| number.parse::<i64>().is_ok());
        match self.take(name) {
            Some(Node { value: Value::Array(tokens), .. }) if tokens.iter().all(is_token) => {}
            Some(node) if !is_token(node) => {
                self.refuse(name, node, "it must be the number of a token, or a list of such");
            }
            _ => {}
        }
    }

    /// Refuses a field that must not be there, or be an object without fields.
    pub(super) fn absent(&mut self, name: &'static str, rule: &str) {
        match self.take(name) {
            Some(Node { value: Value::Object(entries), .. }) if entries.is_empty() => {}
            Some(node) => self.refuse(name, node, rule),
            None => {}
        }
    }

    /// Refuses what is left.
    pub(super) fn finish(&mut self) {
        let Value::Object(entries) = &self.node.value else { return };
        let has_no_part = |key: &str| Purpose::of(key).is_some();
        let may_stay = |key: &str| self.taken.contains(key) || (self.path.is_empty() && has_no_part(key));
        let unknown = entries.iter().filter(|entry| !may_stay(&entry.key)).take(FAULTS_MAX);
        let faults: Vec<_> = unknown
            .map(|entry| {
                let nearest = nearest(&entry.key, self.known.iter().copied());
                let repair = nearest.map_or_else(
                    || "remove it if it has no part in training".to_owned(),
                    |nearest| format!("did you mean `{nearest}`?"),
                );
                let key = join(&self.path, &shorten(&entry.key));
                let message = format!("`{key}` is not known, and may change what the model computes");
                let fault = ConfigFault { repair: Some(repair), ..fault(&entry.key_span, message) };
                (entry.key_span.start, fault)
            })
            .collect();
        self.faults.extend(faults);
    }

    /// Whether nothing is wrong so far.
    pub(super) fn is_sound(&self) -> bool {
        self.faults.is_empty()
    }

    /// What was read, unless something is wrong: then all of that, in the order of the file.
    ///
    /// # Panics
    /// If nothing was read although nothing is wrong.
    pub(super) fn conclude<T>(mut self, read: Option<T>) -> Result<T, HuggingFaceError> {
        if self.faults.is_empty() {
            return Ok(read.expect("what is missing is noted"));
        }
        self.faults.sort_by_key(|(start, _)| *start);
        let faults = self.faults.into_iter().map(|(_, fault)| fault).take(FAULTS_MAX);
        Err(HuggingFaceError::Config { faults: faults.collect() })
    }

    /// Notes what is wrong with a field's value.
    pub(super) fn refuse(&mut self, name: &str, node: &Node, rule: &str) {
        let message = format!("`{}` is {}: {rule}", join(&self.path, name), node.describe());
        self.faults.push((node.span.start, fault(&node.span, message)));
    }

    /// Something about a field, or the whole object if the field is not there.
    pub(super) fn fault_at(&self, node: Option<&Node>, message: String) -> ConfigFault {
        fault(&node.unwrap_or(self.node).span, message)
    }

    /// Notes what is wrong with the whole object.
    pub(super) fn wrong(&mut self, message: impl Into<String>) {
        self.faults.push((self.node.span.start, fault(&self.node.span, message.into())));
    }
}

fn fault(span: &Span, message: String) -> ConfigFault {
    ConfigFault { place: span.to_string(), message, repair: None }
}
