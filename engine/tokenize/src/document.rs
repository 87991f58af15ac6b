//! From what was read to the parts of a document: text, a line of JSON with text, with a prompt and its completion, or with tokens and a
//! mask.

use pipezero_tokens::Tokenizer;
use serde_json::{Map, Value};

use super::fault::DocumentFault;
use super::options::Form;

/// Tokens, and whether they carry loss.
pub(super) type Part = (Vec<u32>, bool);

/// The fields of tokens that someone else made.
const TOKENS: &str = "tokens";
const MASK: &str = "mask";

/// What a line of JSON holds.
enum LineForm<'a> {
    Text(&'a Value),
    Pair { prompt: &'a Value, completion: &'a Value },
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
        match self.form_of_line(&fields)? {
            Some(LineForm::Text(text)) => self.of_text(string(text_field, text)?),
            Some(LineForm::Pair { prompt, completion }) => {
                self.of_pair(string(prompt_field, prompt)?, string(completion_field, completion)?)
            }
            Some(LineForm::Tokens) => self.of_tokens(&fields),
            None => Err(self.no_form(fields)),
        }
    }

    /// What a line holds: one document, in one form. A null is as good as no field: tables whose rows have several forms are written so.
    fn form_of_line<'a>(
        &self,
        fields: &'a Map<String, Value>,
    ) -> Result<Option<LineForm<'a>>, DocumentFault> {
        let Form { text_field, prompt_field, completion_field, .. } = &self.form;
        let value = |name: &str| fields.get(name).filter(|value| !value.is_null());
        let text = value(text_field);
        // A field that the user named as the text is no half of a pair.
        let has_pairs = text_field != prompt_field && text_field != completion_field;
        let [prompt, completion] =
            [prompt_field, completion_field].map(|name| value(name).filter(|_| has_pairs));
        let half = prompt.map(|_| prompt_field).or(completion.map(|_| completion_field));
        let is_named = |name| [text_field, prompt_field, completion_field].iter().any(|named| *named == name);
        let own = |name| value(name).filter(|_| !is_named(name));
        // Beside a text or a pair, `"tokens": 12` is how many tokens that has.
        let has_other = text.is_some() || half.is_some();
        let tokens = own(TOKENS).filter(|tokens| tokens.is_array() || !has_other);
        if tokens.is_none() && own(MASK).is_some() {
            return Err(DocumentFault::LoneMask);
        }
        let found = [text.map(|_| text_field.as_str()), half.map(String::as_str), tokens.map(|_| TOKENS)];
        let mut found = found.into_iter().flatten();
        if let (Some(first), Some(second)) = (found.next(), found.next()) {
            return Err(DocumentFault::TwoForms { first: first.to_owned(), second: second.to_owned() });
        }
        Ok(match (text, prompt, completion) {
            (Some(text), ..) => Some(LineForm::Text(text)),
            (None, Some(prompt), Some(completion)) => Some(LineForm::Pair { prompt, completion }),
            (None, Some(_), None) => return Err(lone(prompt_field, completion_field)),
            (None, None, Some(_)) => return Err(lone(completion_field, prompt_field)),
            (None, None, None) => tokens.map(|_| LineForm::Tokens),
        })
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
            other => Err(DocumentFault::NoList { name: name.to_owned(), kind: type_of(other) }),
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
    let fault = || DocumentFault::NoString { name: name.to_owned(), kind: type_of(value) };
    value.as_str().ok_or_else(fault)
}

fn lone(there: &str, missing: &str) -> DocumentFault {
    DocumentFault::LoneField { there: there.to_owned(), missing: missing.to_owned() }
}

fn type_of(value: &Value) -> &'static str {
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
