//! Text that is not JSON, keys that are not known, and `--set`.

use expect_test::{Expect, expect};

use super::{BASE, RESOURCES, check, file, listed, outcome};
use crate::{Copies, RunFile};

const NO_COPIES: Copies = Copies { schedule: "", tokenizer: "" };

fn check_texts(texts: &[&str], expected: Expect) {
    expected.assert_eq(&listed(texts.iter().map(|text| outcome(text, &[], RESOURCES))));
}

/// Compares the outcomes of the valid file with each of several lists of `--set` arguments.
fn check_sets(cases: &[&[&str]], expected: Expect) {
    expected.assert_eq(&listed(cases.iter().map(|arguments| outcome(&file(&[]), arguments, RESOURCES))));
}

#[test]
fn the_base_is_valid() {
    check(
        &[],
        expect![[r#"
            valid
        "#]],
    );
}

#[test]
fn truncated_and_malformed_json() {
    check_texts(
        &[
            "",
            "{\n  \"model\": {\n    \"family\": \"gpt2\"",
            "{\"steps\": [1, 2",
            "{\"steps\": \"1",
            "{\"steps\": }",
            "{\"steps\": 1,}",
            "{\"steps\": 1 // comment\n}",
            "{\"steps\": 1 \"seed\": 2}",
            "{\"steps\": NaN}",
            "{\"steps\": 01}",
            "{} {}",
            "[1]",
        ],
        expect![[r#"
            run.json:1:1: the file is empty; it must hold one JSON object
            run.json:2:12: this object is never closed: the text ends before its `}`
            run.json:1:11: this list is never closed: the text ends before its `]`
            run.json:1:11: this string is never closed: the text ends before its `"`
            run.json:1:11: this is not JSON: a value belongs here, but `}` stands there
            run.json:1:1: `model` is missing: there is nothing to train; add one, such as "model": {"family": "gpt2", "num_layers": 12, "hidden_size": 768, "num_attention_heads": 12, "seq_length": 1024}
              run.json:1:1: `train_batch_size` is missing: one of the two batch sizes is needed; add `train_batch_size` or `train_micro_batch_size_per_gpu`
              run.json:1:1: `data` is missing: there is nothing to train on; add it with files, folders or globs, such as "data": {"text": "texts/*.txt"}
            run.json:1:1: `model` is missing: there is nothing to train; add one, such as "model": {"family": "gpt2", "num_layers": 12, "hidden_size": 768, "num_attention_heads": 12, "seq_length": 1024}
              run.json:1:1: `train_batch_size` is missing: one of the two batch sizes is needed; add `train_batch_size` or `train_micro_batch_size_per_gpu`
              run.json:1:1: `data` is missing: there is nothing to train on; add it with files, folders or globs, such as "data": {"text": "texts/*.txt"}
            run.json:1:13: this is not JSON: `,` or `}` belongs here, but `"` stands there; `pipezero check --fix` writes the file with this mended
            run.json:1:11: JSON knows no `NaN`; write a number
            run.json:1:12: a number of JSON has no leading zeros; remove them
            run.json:1:4: this is not JSON: the end of the file belongs here, but `{` stands there
            run.json:1:1: the run file must be an object: it does not begin with `{`; begin the file with `{` and end it with `}`
        "#]],
    );
}

/// No prefix of a valid file is one, and each has an error with a place.
#[test]
fn every_truncation_is_an_error_with_a_place() {
    let text = file(&[("zero_optimization", r#"{"stage": 3, "offload_param": {"device": "none"}}"#)]);
    for end in 0..text.len() {
        let errors = RunFile::parse("run.json", &text[..end]).unwrap_err();
        let places: Vec<_> = errors.iter().map(|error| error.line_column()).collect();
        assert!(matches!(places[..], [Some(_)]), "{end}: {errors}");
    }
}

#[test]
fn columns_count_characters_and_lines_end_with_newlines() {
    check_texts(
        &["{\"größe\": 1,\r\n  \"ß\": 1, \"steps\": 1,,}"],
        expect![[r#"
            run.json:2:22: this is not JSON: a key in quotes belongs here, but `,` stands there
        "#]],
    );
}

#[test]
fn a_key_that_stands_twice() {
    check_texts(
        &["{\n  \"steps\": 1,\n  \"model\": {\"family\": \"gpt2\", \"family\": \"mlp\"},\n  \"steps\": 2\n}"],
        expect![[r#"
            run.json:3:31: `model.family` stands twice, first at 3:13; keep one of the two
              run.json:4:3: `steps` stands twice, first at 2:3; keep one of the two
        "#]],
    );
}

#[test]
fn unknown_keys_name_the_nearest_at_every_level() {
    let changes = [
        ("modle", "{}"),
        ("parallel", r#"{"pipelines": 2}"#),
        (
            "zero_optimization",
            r#"{"unit_layer": 1, "overlap": true, "stage_3_max_live_parameters": 1, "shards": 2}"#,
        ),
        ("optimizer", r#"{"typ": "AdamW", "params": {"learning_rate": 1, "beta": 2}}"#),
        ("scheduler", r#"{"type": "WarmupLR", "params": {"warmup_steps": 5, "warmup_num_step": 5}}"#),
        ("comm", r#"{"timeout": 3}"#),
    ];
    check(
        &changes,
        expect![[r#"
            run.json:6:3: unknown key `modle`; did you mean `model`? that stands at 2:12 already
            run.json:7:16: unknown key `parallel.pipelines`; did you mean `pipeline`?
            run.json:8:25: unknown key `zero_optimization.unit_layer`; did you mean `unit_layers`?
            run.json:8:42: unknown key `zero_optimization.overlap`; did you mean `overlap_comm`?
            run.json:8:59: unknown key `zero_optimization.stage_3_max_live_parameters`; did you mean `stage3_max_live_parameters`?
            run.json:8:93: unknown key `zero_optimization.shards`; remove it; docs/run-file.md lists every key
            run.json:9:17: unknown key `optimizer.typ`; did you mean `type`?
            run.json:9:44: unknown key `optimizer.params.learning_rate`; write `optimizer.params.lr`
            run.json:9:64: unknown key `optimizer.params.beta`; did you mean `betas`?
            run.json:10:48: unknown key `scheduler.params.warmup_steps`; write `scheduler.params.warmup_num_steps`
            run.json:10:67: unknown key `scheduler.params.warmup_num_step`; did you mean `warmup_num_steps`?
            run.json:11:12: unknown key `comm.timeout`; write `comm.timeout_s`
        "#]],
    );
}

#[test]
fn a_key_of_any_length_and_content_stays_readable() {
    let key = format!("{}\\n\\u0000", "k".repeat(100));
    check(
        &[(&key, "1")],
        expect![[r#"
            run.json:6:3: unknown key `kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk...`; remove it; docs/run-file.md lists every key
        "#]],
    );
}

#[test]
fn several_mistakes_are_reported_at_once_in_the_files_order() {
    let changes = [
        ("seed", "-1"),
        ("model", r#"{"family": "gpt3", "num_layers": "four", "hidden_size": 30, "num_attention_heads": 4}"#),
        ("data", r#"{"text": [], "validation": 0.9}"#),
        ("steps", "0"),
        ("parallel", r#"{"pipeline": 0, "schedule": "1F1B"}"#),
        ("extra", "true"),
    ];
    check(
        &changes,
        expect![[r#"
            run.json:2:3: `model.seq_length` is missing: the model's size is yours to choose; add it
            run.json:2:23: `model.family` is "gpt3", but it must be "gpt2", "llama", "mlp" or "timed"; did you mean "gpt2"?
            run.json:2:45: `model.num_layers` must be a whole number, but is the string "four"; write a value such as 8
            run.json:2:95: `model.num_attention_heads` is 4, but `model.hidden_size` is 30, which 4 does not divide: every head has the same width; use a divisor such as 3
            run.json:3:20: `data.text` is empty, but it must name at least one file, folder or glob, and none may be empty; add one
            run.json:3:38: `data.validation` is 0.9, but it is a share of the data, from 0 to 0.5; use a value such as 0.05
            run.json:5:12: `steps` is 0, but a run has at least one step; use 1 or more
            run.json:6:11: `seed` is -1, but it must not be negative; use a positive number
            run.json:7:28: `parallel.pipeline` is 0, but it must be at least 1; use 1 or more
            run.json:7:43: `parallel.schedule` is "1F1B", but it must be "gpipe", "1f1b", "eager-1f1b", "interleaved", "bfs", "zb-h1", "zb-h2" or "zb-v"; did you mean "1f1b"?
            run.json:8:3: unknown key `extra`; remove it; docs/run-file.md lists every key
        "#]],
    );
}

#[test]
fn set_overrides_creates_sections_and_points_at_the_argument() {
    check_sets(
        &[
            &["parallel.pipeline=2", "zero_optimization.stage=1", "parallel.data=2"],
            &["parallel.pipeline=5"],
            &["parallel.pipeline=5", "parallel.pipeline=4"],
            &["model.family=gpt3"],
            &["model.familiy=gpt2"],
            &["steps=[1"],
            &["steps"],
            &[".steps=1", "a..b=1", "=1"],
            &["steps.more=1"],
            &["model=3", "steps=\"9\""],
            &["data.text=[\"a\", \"b\"]"],
        ],
        expect![[r#"
            valid
            --set parallel.pipeline=5: `parallel.pipeline` is 5, but the model has 4 layers: every stage needs at least one; use at most 4
            valid
            --set model.family=gpt3: `model.family` is "gpt3", but it must be "gpt2", "llama", "mlp" or "timed"; did you mean "gpt2"?
            --set model.familiy=gpt2: unknown key `model.familiy`; did you mean `family`? that stands at run.json:2:23 already
            --set steps=[1: `steps` must be a whole number, but is the string "[1"; write a value such as 8
            --set steps: a key without a value; write --set steps=VALUE
            --set .steps=1: a part of its key is empty; write --set key.path=value
              --set a..b=1: a part of its key is empty; write --set key.path=value
              --set =1: a part of its key is empty; write --set key.path=value
            --set steps.more=1: `steps` is 10, but only a section has keys; set that key itself
            --set steps="9": `steps` must be a whole number, but is the string "9"; write 9, without quotes
              --set model=3: `model` must be an object, but is 3; write an object with the keys of `model`: {...}
            valid
        "#]],
    );
}

#[test]
fn set_to_null_takes_a_key_away() {
    let set = |text: &str, arguments: &[&str]| {
        let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        RunFile::parse("run.json", text).unwrap().set(&arguments).unwrap()
    };
    let seeded = file(&[("seed", "7"), ("optimizer", r#"{"params": {"lr": 0.5}}"#)]);
    let seed = |arguments: &[&str]| set(&seeded, arguments).resolve(RESOURCES).unwrap().0.seed;
    assert_eq!((seed(&[]), seed(&["seed=null"]), seed(&["seed=null", "seed=3"])), (7, 0, 3));
    let without = set(&seeded, &["optimizer=null", "seed=null", "comm.links.near=null", "fp16.enabled=null"]);
    assert_eq!(without.effective_json(&NO_COPIES), set(&file(&[]), &[]).effective_json(&NO_COPIES));
    let inner = set(&seeded, &["optimizer.params.lr=null", "seed=null"]).effective_json(&NO_COPIES);
    assert_eq!(inner, set(&file(&[("optimizer", r#"{"params": {}}"#)]), &[]).effective_json(&NO_COPIES));
    check_sets(
        &[&["steps=null"], &["steps.more=null"]],
        expect![[r#"
            run.json:1:1: `steps` is missing: it says when the run ends; add the number of optimizer steps, such as "steps": 1000
            --set steps.more=null: `steps` is 10, but only a section has keys; set that key itself
        "#]],
    );
}

#[test]
fn auto_and_sizes_say_what_to_write_instead() {
    check_sets(
        &[&["seed=auto", "steps=auto", "memory=99999999999999TiB"], &["memory=80G"]],
        expect![[r#"
            --set seed=auto: `seed` must be a whole number, but is the string "auto"; this key has no "auto": write a value, or leave it out if it has a default
              --set steps=auto: `steps` must be a whole number, but is the string "auto"; this key has no "auto": write a value, or leave it out if it has a default
              --set memory=99999999999999TiB: `memory` is "99999999999999TiB", but sizes end at 2^64 - 1 bytes; use a smaller one
            --set memory=80G: `memory` is "80G", but a size is a number and a unit; write one such as "80GiB" (of 1024) or "80GB" (of 1000), or bytes as a number
        "#]],
    );
}

#[test]
fn set_takes_effect() {
    let arguments = ["optimizer.params.lr=0.5", "data.text=b = c.txt", "seed=7", "seed=8"].map(str::to_owned);
    let file = RunFile::parse("run.json", &file(&[])).unwrap().set(&arguments).unwrap();
    let (run, _) = file.resolve(RESOURCES).unwrap();
    assert_eq!(run.seed, 8);
    assert_eq!(run.data.text, [std::path::PathBuf::from("b = c.txt")]);
    assert!(matches!(run.optimizer, crate::resolved::OptimizerConfig::AdamW { lr: 0.5, .. }));
}

#[test]
fn an_error_is_drawn_below_its_line() {
    let text = file(&[("parallel", r#"{"pipeline": 5}"#)]);
    let errors = RunFile::parse("run.json", &text).unwrap().resolve(RESOURCES).unwrap_err();
    let theme = miette::GraphicalTheme::unicode_nocolor();
    let handler = miette::GraphicalReportHandler::new_themed(theme).with_width(100);
    expect![[r#"
        drawn:
          × `parallel.pipeline` is 5, but the model has 4 layers: every stage needs at least one
           ╭─[run.json:6:28]
         5 │   "steps": 10,
         6 │   "parallel": {"pipeline": 5}
           ·                            ─
         7 │ }
           ╰────
          help: use at most 4
    "#]]
    .assert_eq(&format!("drawn:\n{}", errors.render(&handler)));
    assert_eq!(errors.iter().map(|error| error.path()).collect::<Vec<_>>(), ["parallel.pipeline"]);
    assert_eq!(BASE.len(), 4, "the line number above counts them");
}

/// Of a long line what is around the mistake is drawn, and of many mistakes the first; no line is too long, and no file has too many.
#[test]
fn long_lines_and_many_mistakes_are_drawn_in_part() {
    let handler = miette::GraphicalReportHandler::new_themed(miette::GraphicalTheme::none()).with_width(100);
    let drawn = |text: &str| {
        let file = RunFile::parse("run.json", text);
        file.and_then(|file| file.resolve(RESOURCES)).unwrap_err().render(&handler)
    };
    for column in [1, 1000, 65_530, 65_536, 300_000] {
        let far = format!("{{\"steps\": {}\"many\"}}", " ".repeat(column));
        let text = drawn(&far);
        assert!(text.contains("[run.json:1:") && text.contains("help: write "), "{text}");
        assert!(text.lines().all(|line| line.len() < 3000), "{column}");
    }
    let keys: String = (0..20_000).map(|key| format!(", \"k{key}\": 1")).collect();
    let text = drawn(&format!("{{\"steps\": 1{keys}}}"));
    assert!(text.len() < 100_000 && text.ends_with("and more; mend these first\n"), "{} bytes", text.len());
    let twice = ", \"seed\": 1".repeat(20_000);
    assert!(drawn(&format!("{{\"seed\": 1{twice}}}")).ends_with("and more; mend these first\n"));
}

#[test]
fn files_that_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let missing = RunFile::load(&folder.path().join("run.json")).unwrap_err().to_string();
    assert!(missing.contains("run.json: cannot read the run file: "), "{missing}");
    let path = folder.path().join("bytes.json");
    std::fs::write(&path, b"{\"steps\": \"\xff\"}").unwrap();
    let bytes = RunFile::load(&path).unwrap_err().to_string();
    assert!(bytes.ends_with("cannot read the run file: it is not UTF-8 from byte 11 on"), "{bytes}");
}

#[test]
fn paths_start_at_the_files_folder() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.json");
    std::fs::write(&path, file(&[("data", r#"{"text": ["a.md", "/b.md"]}"#)])).unwrap();
    let (run, _) = RunFile::load(&path).unwrap().resolve(RESOURCES).unwrap();
    assert_eq!(run.data.text, [folder.path().join("a.md"), "/b.md".into()]);
}
