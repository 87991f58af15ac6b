//! Messages out of the forms in which data sets have them.

use serde_json::{Map, Value, json};

use super::fault::ChatFault;

/// The role whose messages are learned.
pub const ASSISTANT: &str = "assistant";

/// Messages of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Conversation {
    pub(super) messages: Vec<Value>,
    /// How many of the first are given, and not learned even where the assistant says them.
    pub(super) num_given: usize,
    /// What the assistant may call, as the template gets it.
    pub(super) tools: Option<Value>,
}

/// The names that transformers takes for what a model says to itself before it answers.
const REASONING: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];

/// ShareGPT's names of roles.
const ROLES: [(&str, &str); 8] = [
    ("human", "user"),
    ("user", "user"),
    ("gpt", ASSISTANT),
    ("assistant", ASSISTANT),
    ("model", ASSISTANT),
    ("system", "system"),
    ("tool", "tool"),
    ("observation", "tool"),
];

impl Conversation {
    /// Messages in a list: with `role` and `content` each, or with `from` and `value` as ShareGPT has them.
    ///
    /// # Errors
    /// When it is no such list.
    pub fn of_messages(field: &str, messages: &Value, tools: Option<&Value>) -> Result<Self, ChatFault> {
        let messages = messages_of(field, messages)?;
        if !messages.iter().any(is_of_assistant) {
            return Err(ChatFault::NoAssistant);
        }
        Ok(Self { messages, num_given: 0, tools: tools.cloned() })
    }

    /// A prompt, which is given, and what is learned of its completion: lists of messages, or the texts of one message each.
    ///
    /// # Errors
    /// When a list is none.
    pub fn of_pair(
        [prompt_field, completion_field]: [&str; 2],
        prompt: &Value,
        completion: &Value,
        tools: Option<&Value>,
    ) -> Result<Self, ChatFault> {
        let of = |field: &str, value: &Value, role: &str| match value {
            Value::String(text) => Ok(vec![json!({ "role": role, "content": text })]),
            list => messages_of(field, list),
        };
        let mut messages = of(prompt_field, prompt, "user")?;
        let num_given = messages.len();
        messages.extend(of(completion_field, completion, ASSISTANT)?);
        if !messages[num_given..].iter().any(is_of_assistant) {
            return Err(ChatFault::NoAssistant);
        }
        Ok(Self { messages, num_given, tools: tools.cloned() })
    }

    /// Alpaca's form: what the user asks for, on the next line what it is about, if anything, and what the assistant says.
    pub fn of_instruction(
        system: Option<&str>,
        instruction: &str,
        input: Option<&str>,
        output: &str,
    ) -> Self {
        let asked = [Some(instruction), input.filter(|input| !input.is_empty())];
        let asked = asked.into_iter().flatten().collect::<Vec<_>>().join("\n");
        let mut messages = Vec::new();
        if let Some(system) = system.filter(|system| !system.is_empty()) {
            messages.push(json!({ "role": "system", "content": system }));
        }
        messages.push(json!({ "role": "user", "content": asked }));
        messages.push(json!({ "role": ASSISTANT, "content": output }));
        Self { messages, num_given: 0, tools: None }
    }
}

pub(super) fn is_of_assistant(message: &Value) -> bool {
    message["role"] == ASSISTANT
}

fn messages_of(field: &str, list: &Value) -> Result<Vec<Value>, ChatFault> {
    let wrong = |what| ChatFault::Messages { field: field.to_owned(), what };
    let list = list.as_array().ok_or_else(|| wrong("is no list"))?;
    if list.is_empty() {
        return Err(wrong("is empty"));
    }
    let numbered = (1..).zip(list);
    numbered
        .map(|(number, message)| {
            message_of(message).map_err(|what| ChatFault::Message { number, field: field.to_owned(), what })
        })
        .collect()
}

/// A message as transformers hands it to a template: without fields that are null, and with its reasoning under every name for it.
fn message_of(message: &Value) -> Result<Value, String> {
    let fields = message.as_object().ok_or("is no object")?;
    let mut fields: Map<String, Value> = fields
        .iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    if let (None, Some(from), Some(value)) = (fields.get("role"), fields.get("from"), fields.get("value")) {
        let known = ROLES.iter().find(|(name, _)| from == name);
        let known = known.ok_or_else(|| {
            let names: Vec<&str> = ROLES.iter().map(|(name, _)| *name).collect();
            format!("is from {from}, and is to be from one of {}", names.join(", "))
        })?;
        return Ok(json!({ "role": known.1, "content": value }));
    }
    match fields.get("role") {
        Some(Value::String(_)) => {}
        Some(_) => return Err("has a \"role\" that is no string".to_owned()),
        None => return Err("has no \"role\"".to_owned()),
    }
    if let Some(reasoning) = REASONING.iter().find_map(|name| fields.get(*name)).cloned() {
        fields.entry("thinking").or_insert_with(|| reasoning.clone());
        fields.insert("reasoning_content".to_owned(), reasoning);
    }
    Ok(Value::Object(fields))
}
