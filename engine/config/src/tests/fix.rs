//! `check --fix`: what is mended in a text, and what is left.

use super::deepspeed::folder;
use crate::{Fixed, GivenFile, HostGpu, Resources, RunFile, Unfixed};

const RESOURCES: Resources =
    Resources { cores: 2, memory_bytes: None, gpu: HostGpu::Absent, ranks: Some(4), part: None };

fn fixed(text: &str) -> Result<Fixed, Unfixed> {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("run.json");
    std::fs::write(&path, text).unwrap();
    std::fs::write(home.path().join("a.json"), "{}").unwrap();
    GivenFile::fixed(&path, home.path(), RESOURCES, &|_| None)
}

/// A run file that begins with this, which has a comma at its end.
fn with_model(rest: &str) -> String {
    let model = r#""model": {"family": "gpt2", "num_layers": 4, "hidden_size": 64, "num_attention_heads": 4, "seq_length": 16}"#;
    format!("{{ {model}, \"data\": {{\"text\": \"t.txt\"}}, \"steps\": 3,\n{rest}")
}

#[test]
fn what_can_mean_one_thing_alone_is_mended() {
    for (written, mended) in [
        ("\"train_batch_size\": \"8\"}", "\"train_batch_size\": 8}"),
        ("\"train_batch_sise\": 8 // why\n}", "\"train_batch_size\": 8 // why\n}"),
        ("\"train-batch-size\": 8}", "\"train_batch_size\": 8}"),
        ("\"Train_Batch_Size\": 8}", "\"train_batch_size\": 8}"),
        (
            "\"train_batch_size\": 8, \"bf16\": True}",
            "\"train_batch_size\": 8, \"bf16\": {\"enabled\": true}}",
        ),
        (
            "\"train_batch_size\": 8, \"bf16\": {\"enabled\": \"False\"}}",
            "\"train_batch_size\": 8, \"bf16\": {\"enabled\": false}}",
        ),
        (
            "\"train_batch_size\": 8, \"bfloat16\": {\"enabled\": 1}}",
            "\"train_batch_size\": 8, \"bf16\": {\"enabled\": true}}",
        ),
        (
            "\"train_batch_size\": 8, \"zero_optimization\": 3}",
            "\"train_batch_size\": 8, \"zero_optimization\": {\"stage\": 3}}",
        ),
        (
            "\"train_batch_size\": 8, \"zero_optimization\": true}",
            "\"train_batch_size\": 8, \"zero_optimization\": {\"stage\": 1}}",
        ),
        (
            "train_batch_size: 8 # one\n  optimizer: {\n type: AdamW\n params: {\"lr\": 1e-3}}\n}",
            "\"train_batch_size\": 8, # one\n  \"optimizer\": {\n \"type\": \"AdamW\",\n \"params\": {\"lr\": 1e-3}}\n}",
        ),
        (
            "'train_batch_size': 8, 'optimizer': {'type': 'SGD', 'params': {'learning_rate': 0.1}}}",
            "\"train_batch_size\": 8, \"optimizer\": {\"type\": \"SGD\", \"params\": {\"lr\": 0.1}}}",
        ),
        (
            "\"global_batch_size\": 8, \"max_grad_norm\": 1}",
            "\"train_batch_size\": 8, \"gradient_clipping\": 1}",
        ),
        (
            "\"train_batch_size\": 8, \"zero_optimization\": {\"stage\": 3, \"resident_units\": \"2\", \"unit_layers\": \"0.5\"}}",
            "\"train_batch_size\": 8, \"zero_optimization\": {\"stage\": 3, \"resident_units\": 2, \"unit_layers\": 0.5}}",
        ),
        ("/* all */ \"train_batch_size\": 8,}", "/* all */ \"train_batch_size\": 8,}"),
    ] {
        let Fixed { text, changes } =
            fixed(&with_model(written)).unwrap_or_else(|errors| panic!("{written}: {errors}"));
        assert_eq!(text, with_model(mended), "{written}");
        assert_eq!(changes.is_empty(), written == mended, "{changes:?}");
        // Nothing is left to mend, and what it says is a run.
        assert_eq!(fixed(&text).unwrap(), Fixed { text: text.clone(), changes: Vec::new() });
        RunFile::parse("run.json", &text).unwrap().resolve(RESOURCES).unwrap();
    }
}

#[test]
fn slips_in_a_master_file_are_mended_too() {
    let written = r#"{"engines": {"small": {"steps": 1}, "large": {"model": 1}} // both
 "task": {"learn": {"Train": ["small", "large"], init: {"large": "runs/l"}}}}"#;
    let mended = r#"{"engines": {"small": {"steps": 1}, "large": {"model": 1}}, // both
 "tasks": {"learn": {"train": ["small", "large"], "init": {"large": "runs/l"}}}}"#;
    assert_eq!(fixed(written).unwrap().text, mended);
    for (written, expected) in [
        // Which of the others is meant is not known, be they ever so alike.
        (
            r#"{"engines": {"net1": "a.json"}, "tasks": {"t": {"train": ["net3"]}}}"#,
            "there is no such engine",
        ),
        (
            r#"{"engines": {"net1": "a.json", "net2": "a.json"}, "tasks": {"t": {"train": ["net1"], "init": {"net2": "x"}}}}"#,
            "the task has no engine `net2`",
        ),
        (r#"{"engines": {"a": "a.json"}, "tasks": {}}"#, "names no task"),
        (
            r#"{"engines": {"a": "b.json"}, "tasks": {"t": {"train": ["a"]}}}"#,
            "b.json: cannot read the run file",
        ),
    ] {
        let errors = fixed(written).unwrap_err().to_string();
        assert!(errors.contains(expected), "{written}: {errors}");
    }
}

#[test]
fn what_needs_a_decision_is_left_and_named() {
    for (written, expected) in [
        ("\"train_batch_size\": 8.5}", "`train_batch_size` must be a whole number"),
        ("\"train_batch_size\": 8, \"optimiser_of_mine\": {}}", "unknown key `optimiser_of_mine`"),
        (
            "\"train_batch_size\": 8, \"zero_optimization\": {\"stage\": 3, \"offload_param\": {\"device\": \"cpu\"}}}",
            "offload of parameters is not offered",
        ),
        ("\"train_batch_size\": 8, \"tie_word_embeddings\": true}", "unknown key `tie_word_embeddings`"),
        ("\"train_batch_size\": 8, \"train_batch_sise\": 4}", "unknown key `train_batch_sise`"),
        ("\"train_batch_size\": 8, \"seed\": nan}", "JSON knows no `nan`"),
        ("\"train_batch_size\": 8, note: many words\n}", "a string of JSON is in quotes"),
    ] {
        let errors = fixed(&with_model(written)).unwrap_err().to_string();
        assert!(errors.contains(expected), "{written}: {errors}");
    }
}

/// DeepSpeed's files, with a model: what is mended is a run, and keeps its comments; what is not has nothing left to mend.
#[test]
fn the_corpus_is_mended_or_left_with_decisions() {
    let mut num_mended = 0;
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let is_run_file = path.extension().is_some_and(|of| of == "json" || of == "hjson");
        if !is_run_file || path.ends_with("fields.json") {
            continue;
        }
        let name = path.display();
        let text = std::fs::read_to_string(&path).unwrap();
        let Some((before, rest)) = text.split_once('{') else { panic!("{name} has an object") };
        let text = format!("{before}{}", with_model(rest));
        let Ok(Fixed { text: mended, changes }) = fixed(&text) else { continue };
        num_mended += usize::from(!changes.is_empty());
        RunFile::parse("run.json", &mended)
            .unwrap()
            .resolve(RESOURCES)
            .unwrap_or_else(|errors| panic!("{name}: {errors}"));
        assert_eq!(text.lines().count(), mended.lines().count(), "{name}");
        for comment in text.lines().filter_map(|line| line.split_once('#').map(|(_, comment)| comment)) {
            assert!(mended.contains(comment), "{name}: {comment}");
        }
    }
    assert!(num_mended >= 8, "{num_mended}");
}
