//! From what was read to the parts of a document: text, a line of JSON with text, with a prompt and its completion, or with tokens and a
//! mask.

use serde_json::{Map, Value};

use super::fault::DocumentFault;
use super::options::Form;
use crate::tokens::Tokenizer;

/// Tokens, and whether they carry loss.
pub(super) type Part = (Vec<u32>, bool);

/// The fields of tokens that someone else made.
const TOKENS: &str = "tokens";
const MASK: &str = "mask";

/// What a line of JSON holds: fields that are there, or of a pair one of them at least.
enum Kind<'a> {
    Text(&'a Value),
    Pair(Option<&'a Value>, Option<&'a Value>),
    Tokens,
}

/// What tokens are made with.
#[derive(Debug)]
pub(super) struct Maker {
    pub(super) tokenizer: Tokenizer,
    pub(super) end_token: Option<u32>,
    pub(super) vocab_size: usize,
    pub(super) form: Form,
}

impl Maker {
    /// The document of a piece of text.
    pub(super) fn of_text(&self, text: &str) -> Result<Vec<Part>, DocumentFault> {
        let tokens = self.tokenizer.encode(text)?;
        Ok(self.ended(vec![(tokens, true)]))
    }

    /// The document of a line of JSON.
    pub(super) fn of_line(&self, line: &str) -> Result<Vec<Part>, DocumentFault> {
        let value = serde_json::from_str(line)
            .map_err(|error| DocumentFault::Json { column: error.column(), reason: reason_of(&error) })?;
        let Value::Object(fields) = value else { return Err(DocumentFault::NoObject) };
        let Form { text_field, prompt_field, completion_field, .. } = &self.form;
        match self.kind_of_line(&fields)? {
            Some(Kind::Text(text)) => self.of_text(string(text_field, text)?),
            Some(Kind::Pair(Some(prompt), Some(completion))) => {
                self.of_pair(string(prompt_field, prompt)?, string(completion_field, completion)?)
            }
            Some(Kind::Pair(None, _)) => Err(lone(completion_field, prompt_field)),
            Some(Kind::Pair(_, None)) => Err(lone(prompt_field, completion_field)),
            Some(Kind::Tokens) => self.of_tokens(&fields),
            None => Err(self.no_form(fields)),
        }
    }

    /// What a line holds: one document, in one form. A null is as good as no field: tables whose rows have several forms are written so.
    fn kind_of_line<'a>(&self, fields: &'a Map<String, Value>) -> Result<Option<Kind<'a>>, DocumentFault> {
        let Form { text_field, prompt_field, completion_field, .. } = &self.form;
        let value = |name: &str| fields.get(name).filter(|value| !value.is_null());
        let text = value(text_field).map(|text| (Kind::Text(text), text_field.as_str()));
        // Whoever names a half of a pair as the text means that alone.
        let has_pairs = text_field != prompt_field && text_field != completion_field;
        let halves = [prompt_field, completion_field].map(|name| value(name).filter(|_| has_pairs));
        let pair = match halves {
            [None, None] => None,
            [None, completion] => Some((Kind::Pair(None, completion), completion_field.as_str())),
            [prompt, completion] => Some((Kind::Pair(prompt, completion), prompt_field.as_str())),
        };
        let has_other = text.is_some() || pair.is_some();
        let is_named = |name| [text_field, prompt_field, completion_field].iter().any(|named| *named == name);
        let own = |name| value(name).filter(|_| !is_named(name));
        // Beside a text it may be a number of them, which is no document.
        let tokens = own(TOKENS).filter(|tokens| tokens.is_array() || !has_other);
        if tokens.is_none() && own(MASK).is_some() {
            return Err(DocumentFault::LoneMask);
        }
        let tokens = tokens.map(|_| (Kind::Tokens, TOKENS));
        let mut kinds = [text, pair, tokens].into_iter().flatten();
        match (kinds.next(), kinds.next()) {
            (Some((_, first)), Some((_, second))) => {
                Err(DocumentFault::TwoForms { first: first.to_owned(), second: second.to_owned() })
            }
            (first, _) => Ok(first.map(|(kind, _)| kind)),
        }
    }

    /// What is wrong with a line that holds no document.
    fn no_form(&self, fields: Map<String, Value>) -> DocumentFault {
        let Form { text_field, prompt_field, completion_field, .. } = &self.form;
        let names = [text_field.as_str(), prompt_field, completion_field, TOKENS];
        match names.into_iter().find(|&name| fields.get(name).is_some_and(Value::is_null)) {
            Some(name) => DocumentFault::Null { name: name.to_owned() },
            None => DocumentFault::NoForm {
                text: text_field.clone(),
                prompt: prompt_field.clone(),
                completion: completion_field.clone(),
                found: fields.into_iter().map(|(name, _)| name).collect(),
            },
        }
    }

    fn of_pair(&self, prompt: &str, completion: &str) -> Result<Vec<Part>, DocumentFault> {
        // A post-processor may end each text; this one goes on.
        let before = self.tokenizer.encode_beginning(prompt)?;
        let after = self.tokenizer.encode_rest(completion)?;
        Ok(self.ended(vec![(before, false), (after, true)]))
    }

    /// Tokens that someone else made are taken as they are.
    fn of_tokens(&self, fields: &Map<String, Value>) -> Result<Vec<Part>, DocumentFault> {
        let list = |name: &str| match &fields[name] {
            Value::Array(list) => Ok(list),
            other => Err(DocumentFault::NoList { name: name.to_owned(), kind: kind_of(other) }),
        };
        let tokens = list(TOKENS)?;
        let has_mask = fields.get(MASK).is_some_and(|mask| !mask.is_null());
        let mask = if has_mask { Some(list(MASK)?) } else { None };
        if let Some(mask) = mask.filter(|mask| mask.len() != tokens.len()) {
            let (num_entries, num_tokens) = (mask.len(), tokens.len());
            return Err(DocumentFault::MaskLength { num_entries, num_tokens });
        }
        let mut parts: Vec<Part> = Vec::new();
        for (position, token) in tokens.iter().enumerate() {
            let known = token.as_u64().filter(|&token| token < self.vocab_size as u64);
            let known = known.ok_or_else(|| DocumentFault::UnknownToken {
                entry: token.to_string(),
                position,
                vocab_size: self.vocab_size,
            })?;
            let has_loss = match mask.map(|mask| &mask[position]) {
                None => true,
                Some(Value::Bool(has_loss)) => *has_loss,
                Some(entry) => match entry.as_u64() {
                    Some(entry @ 0..=1) => entry == 1,
                    _ => return Err(DocumentFault::MaskEntry { entry: entry.to_string(), position }),
                },
            };
            match parts.last_mut().filter(|(_, last)| *last == has_loss) {
                Some((tokens, _)) => tokens.push(known as u32),
                None => parts.push((vec![known as u32], has_loss)),
            }
        }
        Ok(parts)
    }

    /// The parts with the token that ends a document, unless they end with it.
    fn ended(&self, mut parts: Vec<Part>) -> Vec<Part> {
        let is_empty = parts.iter().all(|(tokens, _)| tokens.is_empty());
        if let (Some(end), Some((tokens, _)), false) = (self.end_token, parts.last_mut(), is_empty)
            && tokens.last() != Some(&end)
        {
            tokens.push(end);
        }
        parts
    }
}

/// A field that must be a string.
fn string<'a>(name: &str, value: &'a Value) -> Result<&'a str, DocumentFault> {
    let fault = || DocumentFault::NoString { name: name.to_owned(), kind: kind_of(value) };
    value.as_str().ok_or_else(fault)
}

fn lone(there: &str, missing: &str) -> DocumentFault {
    DocumentFault::LoneField { there: there.to_owned(), missing: missing.to_owned() }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// What serde_json says, without the place, which is said beside the file's name.
fn reason_of(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.clone(), |(reason, _)| reason.to_owned())
}
