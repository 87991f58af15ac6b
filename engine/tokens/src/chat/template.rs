//! A chat template, as transformers' `apply_chat_template` renders it.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Output, State, Value};
use minijinja_contrib::pycompat::unknown_method_callback;
use serde_json::{Map, Value as Json};

use super::bounded_value::{display_of, is_too_long, json_of};
use super::date::Date;
use super::fault::ChatFault;
use super::files::{self, Written};
use super::generation::Marked;
use super::python::{JsonForm, dumps, str_of};
use crate::bounded_time::within;

/// Work of one rendering: an instruction is one, and so are 64 bytes that it makes. What is counted takes about 0.1 s and 130 MB. Published templates need
/// a few thousand.
const FUEL: u64 = 2_000_000;
/// Work of one rendering of a conversation of more than [`LONG_BYTES`]. The longest conversations that are read need a fourth.
const FUEL_OF_LONG: u64 = 20_000_000;
const LONG_BYTES: usize = 1 << 20;
/// Seconds of one rendering. Some work is not counted, such as to compare lists.
const SECONDS_MAX: u64 = 4;

/// How deep templates may nest: macros count ten.
const DEPTH_MAX: usize = 200;

/// A chat template and the special tokens that it may name.
#[derive(Debug)]
pub struct ChatTemplate {
    path: PathBuf,
    /// For conversations of usual length, and for long ones.
    environments: [Arc<Environment<'static>>; 2],
    usual: Marked,
    with_tools: Option<Marked>,
    special_tokens: Map<String, Json>,
    asks_for_date: bool,
}

/// What a template makes of messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rendered {
    pub(super) text: String,
    /// What `{% generation %}` has marked, in bytes, ascending.
    pub(super) marked: Vec<Range<usize>>,
}

/// What is rendered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Messages<'a> {
    pub(super) messages: &'a [Json],
    pub(super) tools: Option<&'a Json>,
    /// Whether the beginning of what the assistant says next stands at the end.
    pub(super) begins_answer: bool,
}

const USUAL: &str = "chat template";
const WITH_TOOLS: &str = "chat template for tools";

impl ChatTemplate {
    /// Reads the template of a tokenizer.json: chat_template.jinja beside it, or `chat_template` of the tokenizer_config.json there. `None` where there is
    /// neither. `now` is what the template gets for the date.
    ///
    /// # Errors
    /// When a file cannot be read, or the template is none.
    pub fn of_tokenizer(tokenizer: &Path, now: Date) -> Result<Option<Self>, ChatFault> {
        files::find(tokenizer)?.map(|written| Self::new(written, now)).transpose()
    }

    fn new(written: Written, now: Date) -> Result<Self, ChatFault> {
        let Written { path, template, with_tools, special_tokens } = written;
        let asks_for_date = [Some(&template), with_tools.as_ref()]
            .into_iter()
            .flatten()
            .any(|template| template.contains("strftime_now"));
        let mut environments = [FUEL, FUEL_OF_LONG].map(|fuel| environment(now, fuel));
        let mut add = |name: &'static str, template: &str| {
            let marked = Marked::new(template);
            let mut all = environments.iter_mut();
            let added = all.try_for_each(|one| one.add_template_owned(name, marked.source.clone()));
            added.map(|()| marked).map_err(|error| fault(&path, &error))
        };
        let usual = add(USUAL, &template)?;
        let with_tools = with_tools.map(|template| add(WITH_TOOLS, &template)).transpose()?;
        let environments = environments.map(Arc::new);
        Ok(Self { path, environments, usual, with_tools, special_tokens, asks_for_date })
    }

    /// The file that it is in.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it asks for the date, so that its text is another one each day.
    pub fn asks_for_date(&self) -> bool {
        self.asks_for_date
    }

    /// The token that ends a text, as templates call it.
    pub(super) fn eos_token(&self) -> Option<&str> {
        self.special_tokens.get("eos_token").and_then(Json::as_str)
    }

    /// Whether it marks what the assistant says.
    pub(super) fn marks(&self, tools: Option<&Json>) -> bool {
        self.of(tools).1.has_blocks()
    }

    fn of(&self, tools: Option<&Json>) -> (&'static str, &Marked) {
        match &self.with_tools {
            Some(with_tools) if tools.is_some() => (WITH_TOOLS, with_tools),
            _ => (USUAL, &self.usual),
        }
    }

    /// The text of messages.
    pub(super) fn render(&self, of: Messages<'_>) -> Result<Rendered, ChatFault> {
        let (name, marked) = self.of(of.tools);
        let mut context: Map<String, Json> = self.special_tokens.clone();
        context.insert("messages".to_owned(), of.messages.into());
        context.insert("tools".to_owned(), of.tools.cloned().unwrap_or_default());
        context.insert("documents".to_owned(), Json::Null);
        context.insert("add_generation_prompt".to_owned(), of.begins_answer.into());
        let is_long = of.messages.iter().chain(of.tools).fold(LONG_BYTES, room_after) == 0;
        let environment = Arc::clone(&self.environments[usize::from(is_long)]);
        let render = move || {
            let template = environment.get_template(name)?;
            template.render_with_spans(Value::from(Serde(&context)))
        };
        let rendered = within(SECONDS_MAX, render).unwrap_or_else(|| Err(ErrorKind::OutOfFuel.into()));
        let (text, spans) = rendered.map_err(|error| fault(&self.path, &error))?;
        let marked = marked.written_by_blocks(&spans);
        Ok(Rendered { text, marked })
    }
}

/// How many bytes of texts a value may still have, of so many.
fn room_after(room: usize, value: &Json) -> usize {
    match value {
        Json::String(text) => room.saturating_sub(text.len()),
        Json::Array(values) => values.iter().fold(room, room_after),
        Json::Object(fields) => fields.values().fold(room, room_after),
        _ => room.saturating_sub(1),
    }
}

fn fault(path: &Path, error: &Error) -> ChatFault {
    let reason = match (error.kind(), error.detail()) {
        (ErrorKind::OutOfFuel, _) => format!(
            "it takes more than its {FUEL} units of work, or {SECONDS_MAX} s, for this conversation, or writes a list of more than 8 MiB; use another template"
        ),
        (_, Some(detail)) => detail.to_owned(),
        (kind, None) => kind.to_string(),
    };
    ChatFault::Template { path: path.to_owned(), line: error.line(), reason }
}

/// Jinja as transformers sets it up.
fn environment(now: Date, fuel: u64) -> Environment<'static> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(syntax.expect("the usual tags do not overlap"));
    environment.set_fuel(Some(fuel));
    environment.set_recursion_limit(DEPTH_MAX);
    environment.set_unknown_method_callback(unknown_method_callback);
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.set_formatter(format);
    environment.add_filter("tojson", to_json);
    environment.add_filter("string", text_of);
    environment.add_test("iterable", is_iterable);
    environment.add_function("raise_exception", raise);
    environment.add_function("strftime_now", move |wanted: String| -> Result<String, Error> {
        now.format(&wanted).map_err(|directive| {
            let reason = format!("strftime_now: %{directive} is not known here");
            Error::new(ErrorKind::InvalidOperation, reason)
        })
    });
    environment
}

/// As in Jinja, where `none` is not: minijinja goes over it as over an empty list.
fn is_iterable(value: &Value) -> bool {
    !value.is_none() && (value.is_undefined() || value.try_iter().is_ok())
}

fn raise(message: &Value) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, text_of(message)?))
}

/// Writes a value as Python does: minijinja writes `none` and `true`.
fn format(out: &mut Output<'_>, _: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    out.write_str(&text_of(value)?).map_err(Error::from)
}

fn text_of(value: &Value) -> Result<String, Error> {
    match value.kind() {
        ValueKind::Undefined => Ok(String::new()),
        ValueKind::String => Ok(value.as_str().map_or_else(|| value.to_string(), str::to_owned)),
        ValueKind::None | ValueKind::Bool | ValueKind::Number | ValueKind::Seq | ValueKind::Map => {
            match json_of(value) {
                Ok(json) => Ok(str_of(&json)),
                Err(error) if is_too_long(&error) => Err(error),
                Err(_) => display_of(value),
            }
        }
        _ => display_of(value),
    }
}

/// The filter `tojson` of transformers, which has the arguments of Python's `json.dumps`.
fn to_json(
    value: &Value,
    ensure_ascii: Option<Value>,
    indent: Option<Value>,
    separators: Option<Value>,
    named: Kwargs,
) -> Result<String, Error> {
    let argument = |name: &str, by_place: Option<Value>| -> Result<Value, Error> {
        let by_name: Option<Value> = named.get(name)?;
        Ok(by_place.or(by_name).unwrap_or(Value::UNDEFINED))
    };
    let ensure_ascii = argument("ensure_ascii", ensure_ascii)?.is_true();
    let indent = argument("indent", indent)?;
    let indent = match (indent.as_str(), indent.is_none() || indent.is_undefined()) {
        (Some(text), _) => Some(text.to_owned()),
        (None, true) => None,
        (None, false) => Some(" ".repeat(usize::try_from(indent)?.min(64))),
    };
    let separators = argument("separators", separators)?;
    let separators = if separators.is_none() || separators.is_undefined() {
        None
    } else {
        let text = |place: usize| -> Result<String, Error> {
            let part = separators.get_item_by_index(place)?;
            let wrong = || Error::new(ErrorKind::InvalidOperation, "tojson: separators are two strings");
            part.as_str().map(str::to_owned).ok_or_else(wrong)
        };
        Some((text(0)?, text(1)?))
    };
    let sort_keys = argument("sort_keys", None)?.is_true();
    named.assert_all_used()?;
    let json = json_of(value)?;
    Ok(dumps(&json, &JsonForm { ensure_ascii, indent, separators, sort_keys }))
}
