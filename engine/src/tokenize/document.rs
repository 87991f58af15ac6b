//! From what was read to the parts of a document: text, a line of JSON with text, with a prompt and its completion, or with tokens and a
//! mask.

use serde_json::{Map, Value};

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
    pub(super) fn of_text(&self, text: &str) -> Result<Vec<Part>, String> {
        let tokens = self.tokenizer.encode(text).map_err(|error| error.to_string())?;
        Ok(self.ended(vec![(tokens, true)]))
    }

    /// The document of a line of JSON.
    pub(super) fn of_line(&self, line: &str) -> Result<Vec<Part>, String> {
        let value = serde_json::from_str(line).map_err(|error| {
            format!("column {}: {}; a line holds one JSON object", error.column(), reason_of(&error))
        })?;
        let Value::Object(fields) = value else {
            return Err("it is JSON, but no object; write for example {\"text\": \"...\"}".to_owned());
        };
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
        let found: Vec<String> = fields.keys().take(6).map(|name| format!("\"{name}\"")).collect();
        Err(format!(
            "it has neither \"{text_field}\", nor \"{prompt_field}\" and \"{completion_field}\", nor \"tokens\", but {}; name the field of \
             the text with --text-field",
            if found.is_empty() { "no field".to_owned() } else { found.join(", ") }
        ))
    }

    fn of_pair(&self, prompt: &str, completion: &str) -> Result<Vec<Part>, String> {
        // A post-processor may end each text; this one goes on.
        let before = self.tokenizer.encode_beginning(prompt).map_err(|error| error.to_string())?;
        let after = self.tokenizer.encode_rest(completion).map_err(|error| error.to_string())?;
        Ok(self.ended(vec![(before, false), (after, true)]))
    }

    /// Tokens that someone else made are taken as they are.
    fn of_tokens(&self, fields: &Map<String, Value>) -> Result<Vec<Part>, String> {
        let list = |name: &str| match &fields[name] {
            Value::Array(list) => Ok(list),
            other => Err(format!("\"{name}\" is {}, and must be a list", kind_of(other))),
        };
        let tokens = list("tokens")?;
        let mask = if fields.contains_key("mask") { Some(list("mask")?) } else { None };
        if let Some(mask) = mask.filter(|mask| mask.len() != tokens.len()) {
            return Err(format!(
                "\"mask\" has {} entries, and \"tokens\" has {}: each token has one, 1 where it carries loss and 0 where it does not",
                mask.len(),
                tokens.len()
            ));
        }
        let mut parts: Vec<Part> = Vec::new();
        for (position, token) in tokens.iter().enumerate() {
            let known = token.as_u64().filter(|&token| token < self.vocab_size as u64);
            let known = known.ok_or_else(|| {
                format!(
                    "\"tokens\" has {token} at {position}, and the tokenizer has whole numbers below {}",
                    self.vocab_size
                )
            })?;
            let has_loss = match mask.map(|mask| &mask[position]) {
                None => true,
                Some(Value::Bool(has_loss)) => *has_loss,
                Some(entry) => match entry.as_u64() {
                    Some(entry @ 0..=1) => entry == 1,
                    _ => return Err(format!("\"mask\" has {entry} at {position}, and must have 0 or 1")),
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
fn string<'a>(fields: &'a Map<String, Value>, name: &str) -> Result<Option<&'a str>, String> {
    match fields.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(format!("\"{name}\" is {}, and must be a string", kind_of(other))),
    }
}

fn lone(there: &str, missing: &str) -> String {
    format!("it has \"{there}\" and no \"{missing}\"; a pair has both")
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
