//! Values as Python writes them: `str`, and `json.dumps`, which transformers has as the filter `tojson`.

use std::fmt::Write;

use serde_json::{Map, Number, Value};

/// How `json.dumps` writes.
#[derive(Clone, Debug, Default)]
pub(super) struct JsonForm {
    pub(super) ensure_ascii: bool,
    /// What each level is indented by.
    pub(super) indent: Option<String>,
    /// The text between items, and the text after a key.
    pub(super) separators: Option<(String, String)>,
    pub(super) sort_keys: bool,
}

/// A value as `json.dumps` writes it.
pub(super) fn dumps(value: &Value, form: &JsonForm) -> String {
    let mut text = String::new();
    dump(value, form, 0, &mut text);
    text
}

fn dump(value: &Value, form: &JsonForm, depth: usize, text: &mut String) {
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
        Value::Number(number) => text.push_str(&number_text(number)),
        Value::String(value) => quote_json(value, form.ensure_ascii, text),
        Value::Array(values) => {
            text.push('[');
            for (place, value) in values.iter().enumerate() {
                begin_item(place, form, depth + 1, text);
                dump(value, form, depth + 1, text);
            }
            end_items(values.is_empty(), form, depth, text);
            text.push(']');
        }
        Value::Object(entries) => {
            text.push('{');
            for (place, (key, value)) in in_order(entries, form.sort_keys).into_iter().enumerate() {
                begin_item(place, form, depth + 1, text);
                quote_json(key, form.ensure_ascii, text);
                text.push_str(form.separators.as_ref().map_or(": ", |(_, behind_key)| behind_key));
                dump(value, form, depth + 1, text);
            }
            end_items(entries.is_empty(), form, depth, text);
            text.push('}');
        }
    }
}

fn in_order(entries: &Map<String, Value>, is_sorted: bool) -> Vec<(&String, &Value)> {
    let mut entries: Vec<_> = entries.iter().collect();
    if is_sorted {
        entries.sort_unstable_by_key(|(key, _)| *key);
    }
    entries
}

fn begin_item(place: usize, form: &JsonForm, depth: usize, text: &mut String) {
    let usual = if form.indent.is_some() { "," } else { ", " };
    if place > 0 {
        text.push_str(form.separators.as_ref().map_or(usual, |(between, _)| between));
    }
    break_line(form, depth, text);
}

fn end_items(is_empty: bool, form: &JsonForm, depth: usize, text: &mut String) {
    if !is_empty {
        break_line(form, depth, text);
    }
}

fn break_line(form: &JsonForm, depth: usize, text: &mut String) {
    if let Some(indent) = &form.indent {
        text.push('\n');
        (0..depth).for_each(|_| text.push_str(indent));
    }
}

fn quote_json(value: &str, ensure_ascii: bool, text: &mut String) {
    text.push('"');
    for letter in value.chars() {
        match letter {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\u{8}' => text.push_str("\\b"),
            '\u{c}' => text.push_str("\\f"),
            letter
                if letter < ' '
                    || (ensure_ascii && !letter.is_ascii())
                    || (ensure_ascii && letter == '\u{7f}') =>
            {
                let mut units = [0; 2];
                for unit in letter.encode_utf16(&mut units) {
                    write!(text, "\\u{unit:04x}").expect("a string takes all");
                }
            }
            letter => text.push(letter),
        }
    }
    text.push('"');
}

/// A value as `str` writes it, and as a template's output has it.
pub(super) fn str_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => {
            let mut text = String::new();
            repr(other, &mut text);
            text
        }
    }
}

fn repr(value: &Value, text: &mut String) {
    match value {
        Value::Null => text.push_str("None"),
        Value::Bool(value) => text.push_str(if *value { "True" } else { "False" }),
        Value::Number(number) => text.push_str(&number_text(number)),
        Value::String(value) => quote_python(value, text),
        Value::Array(values) => {
            text.push('[');
            for (place, value) in values.iter().enumerate() {
                text.push_str(if place > 0 { ", " } else { "" });
                repr(value, text);
            }
            text.push(']');
        }
        Value::Object(entries) => {
            text.push('{');
            for (place, (key, value)) in entries.iter().enumerate() {
                text.push_str(if place > 0 { ", " } else { "" });
                quote_python(key, text);
                text.push_str(": ");
                repr(value, text);
            }
            text.push('}');
        }
    }
}

fn quote_python(value: &str, text: &mut String) {
    let quote = if value.contains('\'') && !value.contains('"') { '"' } else { '\'' };
    text.push(quote);
    for letter in value.chars() {
        match letter {
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            letter if letter == quote => text.extend(['\\', quote]),
            letter if letter.is_control() => {
                write!(text, "\\x{:02x}", u32::from(letter)).expect("a string takes all");
            }
            letter => text.push(letter),
        }
    }
    text.push(quote);
}

/// A number as `repr` writes it: whole ones as they are, others with the fewest digits that tell them apart, and with an exponent below 1e-4 and from
/// 1e16 on.
fn number_text(number: &Number) -> String {
    if number.is_i64() || number.is_u64() {
        return number.to_string();
    }
    let Some(value) = number.as_f64() else { return number.to_string() };
    let scientific = format!("{value:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if value != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    // `{:?}` writes a fraction in any case, as Python does, and takes exponents from 1e16 on too.
    let plain = format!("{value}");
    if plain.contains('.') { plain } else { plain + ".0" }
}
