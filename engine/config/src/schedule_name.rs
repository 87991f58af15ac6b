//! The value of `parallel.schedule`: a word, or an object that names a file, `{"file": "..."}`.

use pipezero_files::json::{Node, Span, Value, join, nearest, shorten};
use schemars::{Schema, json_schema};

use super::error::Problem;
use super::kind::Kind;
use super::place::Place;
use super::words::ScheduleWord;

const OBJECT: &str = "{\"file\": \"...\"}";

/// A schedule by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ScheduleName {
    Word(ScheduleWord),
    File(String),
}

impl Kind for ScheduleName {
    fn expected() -> String {
        format!("{} or {OBJECT}", ScheduleWord::expected())
    }

    fn example() -> String {
        ScheduleWord::example()
    }

    fn schema() -> Schema {
        let object = json_schema!({
            "type": "object",
            "properties": { "file": { "type": "string" } },
            "required": ["file"],
            "additionalProperties": false
        });
        json_schema!({ "anyOf": [ScheduleWord::schema(), object] })
    }

    fn read(node: &Node) -> Option<Self> {
        match &node.value {
            Value::Object(entries) => match entries.as_slice() {
                [entry] if entry.key == "file" => String::read(&entry.node).map(Self::File),
                _ => None,
            },
            _ => ScheduleWord::read(node).map(Self::Word),
        }
    }

    fn fault(node: &Node, place: &Place) -> Option<(Place, Problem)> {
        let entries = match &node.value {
            Value::Object(entries) => entries,
            Value::String(word) if word.contains(['.', '/']) => {
                let value = format!("\"{}\"", shorten(word));
                let rule = format!("it must be {}, or an object that names a file", ScheduleWord::expected());
                let repair = format!("write {{\"file\": {value}}}");
                return Some((place.clone(), Problem::Rule { value, rule, repair }));
            }
            _ => return ScheduleWord::fault(node, place),
        };
        let at = |key: &str, span: &Span| Place { path: join(&place.path, key), span: span.clone() };
        if let Some(entry) = entries.iter().find(|entry| entry.key != "file") {
            let nearest = nearest(&entry.key, std::iter::once("file")).map(str::to_owned);
            return Some((
                at(&entry.key, &entry.key_span),
                Problem::UnknownKey { elsewhere: None, nearest, stands_at: None },
            ));
        }
        Some(match entries.first() {
            Some(entry) => {
                let (expected, found) = (String::expected(), entry.node.describe());
                (
                    at("file", &entry.node.span),
                    Problem::WrongType {
                        repair: format!("write {expected}"),
                        expected,
                        found,
                        replacement: None,
                    },
                )
            }
            None => {
                let rule = "an object must name a file here".to_owned();
                (at("file", &node.span), Problem::Missing { rule, repair: format!("write {OBJECT}") })
            }
        })
    }
}
