//! Finds the chat template beside a tokenizer.json, and the special tokens that it may name.

use std::fs;
use std::path::{Path, PathBuf};

use pipezero_files::input::read_text;
use serde_json::{Map, Value};

use super::fault::ChatFault;

/// Bytes of the largest file that is read: published ones have less than one MB.
const BYTES_MAX: u64 = 64 << 20;

/// A template, as it is written.
#[derive(Debug)]
pub(super) struct Written {
    /// The file that it is in.
    pub(super) path: PathBuf,
    pub(super) template: String,
    /// The one for conversations with tools, where that is another.
    pub(super) with_tools: Option<String>,
    /// Names such as `bos_token`, and what they stand for.
    pub(super) special_tokens: Map<String, Value>,
}

const TEMPLATE: &str = "chat_template.jinja";
const CONFIG: &str = "tokenizer_config.json";
const SPECIAL_TOKENS: &str = "special_tokens_map.json";

/// The special tokens that transformers knows by name.
const NAMES: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// The template of a tokenizer.json: of the file beside it, or of its configuration; `None` where it has none.
pub(super) fn find(tokenizer: &Path) -> Result<Option<Written>, ChatFault> {
    let beside = |name: &str| tokenizer.with_file_name(name);
    let read = |path: &Path| match fs::metadata(path) {
        Ok(_) => read_text(path, BYTES_MAX).map(Some).map_err(|error| fault(path, error)),
        Err(_) => Ok(None),
    };
    let json = |name: &str| -> Result<Option<Value>, ChatFault> {
        let path = beside(name);
        let text = read(&path)?;
        text.map(|text| serde_json::from_str(&text).map_err(|error| fault(&path, error))).transpose()
    };
    let file = read(&beside(TEMPLATE))?;
    let config = json(CONFIG)?.unwrap_or_default();
    let (path, template, with_tools) = match (file, &config["chat_template"]) {
        (Some(template), _) => (beside(TEMPLATE), template, None),
        (None, Value::Null) => return Ok(None),
        (None, Value::String(template)) => (beside(CONFIG), template.clone(), None),
        (None, Value::Array(named)) => {
            let of_name = |wanted: &str| {
                let entry = named.iter().find(|entry| entry["name"] == wanted)?;
                entry["template"].as_str().map(str::to_owned)
            };
            let default = of_name("default");
            let reason = "of its list `chat_template` none has the name \"default\"";
            let default = default.ok_or_else(|| fault(&beside(CONFIG), reason))?;
            (beside(CONFIG), default, of_name("tool_use"))
        }
        (None, _) => return Err(fault(&beside(CONFIG), "`chat_template` is neither a string nor a list")),
    };
    let listed = json(SPECIAL_TOKENS)?.unwrap_or_default();
    let token = |name: &str| content(&config[name]).or_else(|| content(&listed[name]));
    let special_tokens = NAMES.iter().filter_map(|name| Some(((*name).to_owned(), token(name)?.into())));
    Ok(Some(Written { path, template, with_tools, special_tokens: special_tokens.collect() }))
}

/// A special token, which may be written with how it is found in text.
fn content(token: &Value) -> Option<&str> {
    token.as_str().or_else(|| token["content"].as_str())
}

fn fault(path: &Path, reason: impl ToString) -> ChatFault {
    ChatFault::File { path: path.to_owned(), reason: reason.to_string() }
}
