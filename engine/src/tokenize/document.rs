//! From what was read to the parts of a document: text, a line of JSON with text, with a prompt and its completion, or with tokens and a
//! mask.

use serde_json::{Map, Value};

use super::fault::DocumentFault;
use super::options::Form;
use crate::tokens::Tokenizer;

/// Tokens, and whether they carry loss.
pub(super) type Part = (Vec<u32>, bool);

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
        if let Some(text) = string(&fields, text_field)? {
            return self.of_text(text);
        }
        let prompt = string(&fields, prompt_field)?;
        match (prompt, string(&fields, completion_field)?) {
            (Some(prompt), Some(completion)) => return self.of_pair(prompt, completion),
            (Some(_), None) => return Err(lone(prompt_field, completion_field)),
            (None, Some(_)) => return Err(lone(completion_field, prompt_field)),
            (None, None) => {}
        }
        if fields.contains_key("tokens") {
            return self.of_tokens(&fields);
        }
        Err(DocumentFault::NoForm {
            text: text_field.clone(),
            prompt: prompt_field.clone(),
            completion: completion_field.clone(),
            found: fields.into_iter().map(|(name, _)| name).collect(),
        })
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
        let tokens = list("tokens")?;
        let mask = if fields.contains_key("mask") { Some(list("mask")?) } else { None };
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

/// A field that must be a string, if it is there.
fn string<'a>(fields: &'a Map<String, Value>, name: &str) -> Result<Option<&'a str>, DocumentFault> {
    match fields.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(DocumentFault::NoString { name: name.to_owned(), kind: kind_of(other) }),
    }
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
