//! Which objects are conversations, by the names that data sets give to their fields.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::iterate::Records;
use super::layout::is_json;

/// Fields with a list of messages.
pub const MESSAGES: [&str; 2] = ["messages", "conversations"];

/// Alpaca's fields of what is asked for and of the answer.
pub const INSTRUCTION: &str = "instruction";
/// See [`INSTRUCTION`].
pub const OUTPUT: &str = "output";

/// Fields of a prompt and of its completion, where the user names no others.
pub const PROMPT: &str = "prompt";
/// See [`PROMPT`].
pub const COMPLETION: &str = "completion";

/// The first of these files whose first object is a conversation, or a prompt with its completion. A file that cannot be read is passed over: whoever reads
/// it says so.
pub fn first_with_conversations(files: &[PathBuf]) -> Option<&Path> {
    files.iter().map(PathBuf::as_path).filter(|path| is_json(path)).find(|path| {
        let first = Records::open(path).ok().and_then(|mut records| records.next());
        let Some((_, Ok(text))) = first else { return false };
        serde_json::from_str::<Map<String, Value>>(&text).is_ok_and(|fields| is_conversation(&fields))
    })
}

fn is_conversation(fields: &Map<String, Value>) -> bool {
    let has = |name: &str| fields.get(name).is_some_and(|value| !value.is_null());
    let has_messages = MESSAGES.iter().any(|name| fields.get(*name).is_some_and(Value::is_array));
    has_messages || has(INSTRUCTION) && has(OUTPUT) || has(PROMPT) && has(COMPLETION)
}
