//! What is generated is up to date, and what is shipped loads. `UPDATE_EXPECT=1` writes the generated files anew.

use std::path::Path;

use expect_test::expect_file;

use crate::config::{NoticeKind, RunFile, World, reference, schema};

#[test]
fn the_schema_is_up_to_date() {
    let text = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
    expect_file!["../../../../docs/run.schema.json"].assert_eq(&text);
}

#[test]
fn the_key_tables_are_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/run-file.md");
    let text = std::fs::read_to_string(path).unwrap();
    let marker = text.find("<!-- Generated").expect("the tables follow their marker");
    let end = text[marker..].find("-->").expect("a comment ends") + marker + 3;
    expect_file!["../../../../docs/run-file.md"].assert_eq(&format!("{}\n\n{}", &text[..end], reference()));
}

/// Every example is valid, and only the DeepSpeed file has keys without effect.
#[test]
fn every_example_loads() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let file = RunFile::load(&path).unwrap_or_else(|errors| panic!("{errors}"));
        let world = World { cores: 2, ranks: None };
        let (run, notices) = file.resolve(world).unwrap_or_else(|errors| panic!("{errors}"));
        assert!(run.data.text.iter().all(|path| path.is_absolute()), "{name}");
        let expected = if name == "deepspeed-zero1.json" { 10 } else { 0 };
        assert_eq!(notices.len(), expected, "{name}: {notices:#?}");
        let warnings = notices.iter().filter(|notice| notice.kind() == NoticeKind::Warning);
        assert_eq!(warnings.count(), usize::from(expected > 0), "{name}");
        names.push(name);
    }
    names.sort();
    let expected = [
        "deepspeed-zero1.json",
        "gpt2-124m.json",
        "quickstart.json",
        "seed-48-layers.json",
        "zero1-pipeline.json",
        "zero2-data.json",
    ];
    assert_eq!(names, expected);
}
