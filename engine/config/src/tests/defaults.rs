//! The defaults that the documentation states are those that the resolver applies.

use serde_json::Value;

use super::{BASE, RESOURCES, file};
use crate::RunFile;
use crate::raw::RawRun;
use crate::resolved::Run;
use crate::section::Section;

/// Files that between them let every key stand.
const FILES: &[&[(&str, &str)]] = &[
    &[],
    &[("optimizer", r#"{"type": "SGD"}"#)],
    &[("scheduler", r#"{"type": "WarmupLR"}"#)],
    &[("scheduler", r#"{"type": "WarmupCosineLR"}"#)],
    &[("zero_optimization", r#"{"stage": 3}"#), ("parallel", r#"{"data": 2}"#)],
    &[("comm", r#"{"links": {"near": {"gb_per_s": 25}}}"#)],
    &[("model", LLAMA)],
    &[("model", LLAMA3)],
    &[("model", YARN)],
];

const LLAMA: &str =
    r#"{"family": "llama", "num_layers": 4, "hidden_size": 32, "num_attention_heads": 4, "seq_length": 16}"#;

const LLAMA3: &str = r#"{"family": "llama", "num_layers": 4, "hidden_size": 32, "num_attention_heads": 4, "seq_length": 16,
    "rope_scaling": {"rope_type": "llama3", "factor": 8, "original_max_position_embeddings": 8}}"#;

const YARN: &str = r#"{"family": "llama", "num_layers": 4, "hidden_size": 32, "num_attention_heads": 4, "seq_length": 16,
    "rope_scaling": {"rope_type": "yarn", "factor": 8, "original_max_position_embeddings": 8}}"#;

fn resolve(changes: &[(&str, &str)], arguments: &[String]) -> Option<Run> {
    let file = RunFile::parse("run.json", &file(changes)).unwrap().set(arguments).unwrap();
    file.resolve(RESOURCES).ok().map(|(run, _)| run)
}

#[test]
fn writing_a_default_changes_nothing() {
    let mut count = 0;
    let run = RawRun::spec();
    let keys = run.all().into_iter().flat_map(|section| section.keys.iter().map(|key| (section.path, key)));
    // Defaults that are formulas are no JSON; the tests of their sections hold them.
    for (section, key) in keys.filter(|(_, key)| serde_json::from_str::<Value>(key.default).is_ok()) {
        let path = pipezero_files::json::join(section, key.name);
        let argument = [format!("{path}={}", key.default)];
        let allowed: Vec<_> =
            FILES.iter().filter_map(|base| Some((base, resolve(base, &argument)?))).collect();
        assert!(!allowed.is_empty(), "no file lets {path} stand");
        for (base, run) in allowed {
            // A file that chooses another value than the default does not leave the key out.
            let leaves_out = !base.iter().any(|(_, text)| text.contains(&format!("\"{}\"", key.name)));
            if leaves_out {
                assert_eq!(Some(run), resolve(base, &[]), "{path}");
                count += 1;
            }
        }
    }
    assert!(count > 50, "enough keys have a default: {count}");
}

#[test]
fn needed_keys_are_needed() {
    for (name, _) in BASE {
        let errors =
            RunFile::parse("run.json", &file(&[(name, "")])).unwrap().resolve(RESOURCES).unwrap_err();
        let paths: Vec<&str> = errors.iter().map(|error| error.path()).collect();
        assert_eq!(paths, [*name]);
    }
}
