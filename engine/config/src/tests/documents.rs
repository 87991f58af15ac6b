//! What is generated is up to date, and what is shipped loads. `UPDATE_EXPECT=1` writes the generated files anew.

use std::path::Path;

use expect_test::expect_file;

use crate::{GivenFile, HostGpu, NoticeKind, Resources, RunFile, master_schema, reference, schema};

#[test]
fn the_schemas_are_up_to_date() {
    let text = |schema| serde_json::to_string_pretty(&schema).unwrap() + "\n";
    expect_file!["../../../../docs/run.schema.json"].assert_eq(&text(schema()));
    expect_file!["../../../../docs/master.schema.json"].assert_eq(&text(master_schema()));
}

#[test]
fn the_key_tables_are_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/run-file.md");
    let text = std::fs::read_to_string(path).unwrap();
    let marker = text.find("<!-- Generated").expect("the tables follow their marker");
    let end = text[marker..].find("-->").expect("a comment ends") + marker + 3;
    expect_file!["../../../../docs/run-file.md"].assert_eq(&format!("{}\n\n{}", &text[..end], reference()));
}

/// A run file, or those of the engines of a master file, with names.
fn run_files(path: &Path, name: String) -> Vec<(String, RunFile)> {
    match GivenFile::load(path).unwrap_or_else(|errors| panic!("{errors}")) {
        GivenFile::Run(file) => vec![(name, file)],
        GivenFile::Master(master) => {
            let file = |engine: &str| master.engine(engine).unwrap_or_else(|errors| panic!("{errors}")).file;
            master.engines().map(|engine| (format!("{name}: {engine}"), file(engine))).collect()
        }
    }
}

/// Every example is valid, and only DeepSpeed files have keys without effect.
#[test]
fn every_example_loads() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        for (name, file) in run_files(&path, name) {
            let resources =
                Resources { cores: 2, memory_bytes: None, gpu: HostGpu::Absent, ranks: None, part: None };
            let (run, notices) = file.resolve(resources).unwrap_or_else(|errors| panic!("{errors}"));
            assert!(run.data.text.iter().all(|path| path.is_absolute()), "{name}");
            let num_of =
                |kinds: &[NoticeKind]| notices.iter().filter(|notice| kinds.contains(&notice.kind())).count();
            let num_hints = num_of(&[NoticeKind::Auto, NoticeKind::Hint]);
            found.push((name, num_hints, num_of(&[NoticeKind::Warning])));
        }
    }
    found.sort();
    // Hints and warnings of each.
    let expected = [
        ("bf16.json", 0, 0),
        ("checkpointing.json", 0, 0),
        ("deepspeed-zero1.json", 7, 1),
        ("deepspeed-zero3-auto.json", 19, 0),
        ("distill.json: large", 0, 0),
        ("distill.json: small", 0, 0),
        ("fp16.json", 0, 0),
        ("gpt2-124m.json", 1, 0),
        ("interleaved.json", 0, 0),
        ("llama-bpe.json", 1, 0),
        ("pair.json: deep", 0, 0),
        ("pair.json: wide", 0, 0),
        ("quickstart.json", 1, 0),
        ("seed-48-layers.json", 0, 0),
        ("timed-64.json", 0, 0),
        ("timed-overlap.json", 0, 0),
        ("zero-2.json", 0, 0),
        ("zero-3.json", 0, 0),
        ("zero-base.json", 0, 0),
        ("zero1-pipeline.json", 0, 0),
        ("zero2-data.json", 0, 0),
    ];
    assert_eq!(found, expected.map(|(name, hints, warnings)| (name.to_owned(), hints, warnings)));
}
