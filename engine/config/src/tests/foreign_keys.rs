//! Keys and values as users of other systems write them: each is answered with what to write here (`engine/config/tests/foreign_keys.json`).

use expect_test::expect_file;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{RESOURCES, file, said};
use crate::RunFile;

#[derive(Deserialize)]
struct Row {
    /// Where users write it.
    section: String,
    /// `"key": value`
    json: String,
    /// The key of the run file that says the same; none where nothing does.
    write: Option<String>,
    /// Whether it is accepted as it is.
    #[serde(default)]
    loads: bool,
}

/// The valid file with the row's key in its section.
fn with(row: &Row) -> String {
    let mut root: Value = serde_json::from_str(&file(&[])).unwrap();
    let added: Map<String, Value> = serde_json::from_str(&format!("{{{}}}", row.json)).unwrap();
    let mut section = &mut root;
    for name in row.section.split('.').filter(|name| !name.is_empty()) {
        section = section.as_object_mut().unwrap().entry(name).or_insert_with(|| json!({}));
    }
    section.as_object_mut().unwrap().extend(added);
    serde_json::to_string(&root).unwrap()
}

#[test]
fn what_other_systems_call_a_key_is_answered_with_what_to_write() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/foreign_keys.json");
    let rows: Vec<Row> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert!(rows.len() >= 60, "{}", rows.len());
    let (mut answers, mut unhelpful) = (String::new(), Vec::new());
    for row in &rows {
        let resolved = RunFile::parse("run.json", &with(row)).and_then(|file| file.resolve(RESOURCES));
        let is_accepted = resolved.is_ok();
        let said = said(resolved);
        answers += &format!("{} {}\n", row.section, row.json);
        said.lines().for_each(|line| answers += &format!("  {line}\n"));
        let helps = match &row.write {
            _ if row.loads => is_accepted,
            Some(key) => !is_accepted && said.contains(key.rsplit('.').next().unwrap_or(key)),
            None => true,
        };
        if !helps {
            unhelpful.push(format!("{} {} -> {:?}: {}", row.section, row.json, row.write, said.trim_end()));
        }
    }
    expect_file!["../../tests/foreign_keys.txt"].assert_eq(&answers);
    assert!(unhelpful.is_empty(), "{} of {}:\n{}", unhelpful.len(), rows.len(), unhelpful.join("\n"));
}
