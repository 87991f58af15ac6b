//! The run file as it ran: with its overrides, and with paths that hold wherever the file is moved to. A schedule file,
//! unlike a text, is small and says what the run is, so a copy goes along.

use std::path::Path;

use pipezero_files::json::{Node, Value};
use serde_json::{Map, Number, Value as Json};

use super::extends::ABSOLUTE_IN_RECORDS;
use super::run_file::RunFile;

/// The names of the files that are kept beside a run file as it ran.
#[derive(Clone, Copy, Debug)]
pub struct Copies {
    /// The schedule's.
    pub schedule: &'static str,
    /// The tokenizer's.
    pub tokenizer: &'static str,
}

impl RunFile {
    /// The file as JSON, every `--set` applied and the paths of texts and tokens absolute. A schedule file and a tokenizer are named as
    /// the copies of them that are kept beside this file.
    pub fn effective_json(&self, copies: &Copies) -> String {
        let mut json = to_json(&self.root);
        for key in ABSOLUTE_IN_RECORDS {
            if let Some(paths) = json.pointer_mut(&format!("/{}", key.replace('.', "/"))) {
                make_absolute(paths, &self.folder);
            }
        }
        for (key, copy) in
            [("/parallel/schedule/file", copies.schedule), ("/data/tokenizer", copies.tokenizer)]
        {
            if let Some(path) = json.pointer_mut(key) {
                *path = Json::String(copy.to_owned());
            }
        }
        let mut text =
            serde_json::to_string_pretty(&json).expect("a run file has string keys and finite depth");
        text.push('\n');
        text
    }
}

fn to_json(node: &Node) -> Json {
    match &node.value {
        Value::Null => Json::Null,
        Value::Bool(value) => Json::Bool(*value),
        // A number that f64 cannot hold has been refused when the file was resolved.
        Value::Number => node.span.written().parse::<Number>().map_or(Json::Null, Json::Number),
        Value::String(text) => Json::String(text.clone()),
        Value::Array(items) => items.iter().map(to_json).collect(),
        Value::Object(entries) => Json::Object(
            entries.iter().map(|entry| (entry.key.clone(), to_json(&entry.node))).collect::<Map<_, _>>(),
        ),
    }
}

fn make_absolute(paths: &mut Json, folder: &Path) {
    match paths {
        Json::String(path) => *path = folder.join(&*path).display().to_string(),
        Json::Array(paths) => paths.iter_mut().for_each(|path| make_absolute(path, folder)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_are_applied_and_paths_hold_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.json");
        std::fs::write(&path, r#"{"steps": 3, "data": {"text": ["a.txt", "/b.txt"]}, "parallel": {"schedule": {"file": "c.csv"}}}"#).unwrap();
        let file = RunFile::load(&path).unwrap().set(&["steps=5".to_owned(), "seed=1e3".to_owned()]).unwrap();
        let json: Json = serde_json::from_str(
            &file.effective_json(&Copies { schedule: "copy.csv", tokenizer: "copy.json" }),
        )
        .unwrap();
        assert_eq!(json["steps"], 5);
        assert_eq!(json["seed"], 1000.0);
        assert_eq!(json["data"]["text"][0], folder.path().join("a.txt").display().to_string());
        assert_eq!(json["data"]["text"][1], "/b.txt");
        assert_eq!(json["parallel"]["schedule"]["file"], "copy.csv");
    }
}
