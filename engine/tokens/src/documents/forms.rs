//! In which form an object of JSON holds a document, if in one.

use pipezero_files::records::{INSTRUCTION, MESSAGES, OUTPUT};
use serde_json::{Map, Value};

use super::fault::DocumentFault;
use super::fields::Fields;

/// The fields of tokens that someone else made.
pub(super) const TOKENS: &str = "tokens";
pub(super) const MASK: &str = "mask";

/// What data sets that are one object call the list inside of it.
const AROUND: [&str; 4] = ["data", "examples", "instances", "rows"];

/// What an object holds.
pub(super) enum ObjectForm<'a> {
    Text(&'a Value),
    Pair { prompt: &'a Value, completion: &'a Value },
    Messages { field: &'static str, messages: &'a Value },
    Instruction { instruction: &'a Value, output: &'a Value },
    Tokens,
}

impl Fields {
    /// What an object holds: one document, in one form. A null is as good as no field: tables whose rows have several forms are written so.
    pub(super) fn form_of<'a>(
        &self,
        fields: &'a Map<String, Value>,
    ) -> Result<Option<ObjectForm<'a>>, DocumentFault> {
        let Fields { text: text_field, prompt: prompt_field, completion: completion_field } = self;
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
        let messages =
            MESSAGES.into_iter().find_map(|name| Some((name, own(name).filter(|list| list.is_array())?)));
        let asked = own(INSTRUCTION).zip(own(OUTPUT));
        let has_other = has_other || messages.is_some() || asked.is_some();
        let tokens = own(TOKENS).filter(|tokens| tokens.is_array() || !has_other);
        if tokens.is_none() && own(MASK).is_some() {
            return Err(DocumentFault::LoneMask);
        }
        // Data sets repeat the first message of a conversation beside it as its prompt.
        let half = half.filter(|_| messages.is_none() || completion.is_some());
        let (prompt, completion) = if half.is_some() { (prompt, completion) } else { (None, None) };
        let found = [
            text.map(|_| text_field.as_str()),
            half.map(String::as_str),
            messages.map(|(name, _)| name),
            asked.map(|_| INSTRUCTION),
            tokens.map(|_| TOKENS),
        ];
        let mut found = found.into_iter().flatten();
        if let (Some(first), Some(second)) = (found.next(), found.next()) {
            return Err(DocumentFault::TwoForms { first: first.to_owned(), second: second.to_owned() });
        }
        Ok(match (text, prompt, completion) {
            (Some(text), ..) => Some(ObjectForm::Text(text)),
            (None, Some(prompt), Some(completion)) => Some(ObjectForm::Pair { prompt, completion }),
            (None, Some(_), None) => return Err(lone(prompt_field, completion_field)),
            (None, None, Some(_)) => return Err(lone(completion_field, prompt_field)),
            (None, None, None) => messages
                .map(|(field, messages)| ObjectForm::Messages { field, messages })
                .or(asked.map(|(instruction, output)| ObjectForm::Instruction { instruction, output }))
                .or(tokens.map(|_| ObjectForm::Tokens)),
        })
    }

    /// What is wrong with an object that holds no document.
    pub(super) fn no_form(&self, fields: &Map<String, Value>) -> DocumentFault {
        let Fields { text, prompt, completion } = self;
        let mut names = [text.as_str(), prompt, completion, TOKENS].into_iter().chain(MESSAGES);
        if let Some(name) = names.find(|&name| fields.get(name).is_some_and(Value::is_null)) {
            return DocumentFault::Null { name: name.to_owned() };
        }
        let no_list = |name: &&str| fields.get(*name).is_some_and(|value| !value.is_null());
        if let Some(name) = MESSAGES.into_iter().find(no_list) {
            return DocumentFault::NoList { name: name.to_owned(), kind: type_of(&fields[name]) };
        }
        let is_list = |(name, value): &(&String, &Value)| {
            let has_objects = value.as_array().and_then(|list| list.first()).is_some_and(Value::is_object);
            has_objects && (fields.len() == 1 || AROUND.contains(&name.as_str()))
        };
        if let Some((name, _)) = fields.iter().find(is_list) {
            return DocumentFault::InnerList { name: name.clone() };
        }
        DocumentFault::NoForm { fields: self.clone(), found: fields.keys().cloned().collect() }
    }
}

fn lone(there: &str, missing: &str) -> DocumentFault {
    DocumentFault::LoneField { there: there.to_owned(), missing: missing.to_owned() }
}

/// What a value is, in words.
pub(super) fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
