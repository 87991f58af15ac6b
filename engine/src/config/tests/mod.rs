//! The whole path from text to run: what a valid file becomes, and the exact words for every mistake.

use super::{RunFile, World};

const WORLD: World = World { cores: 8, ranks: None };

const MINIMAL: &str = r#"{
  "model": { "family": "gpt2", "num_layers": 4, "hidden_size": 32, "num_attention_heads": 4, "seq_length": 16 },
  "data": { "text": "*.md" },
  "train_batch_size": 8,
  "steps": 10
}"#;

#[test]
fn a_minimal_file_resolves() {
    let (run, notices) = RunFile::parse("run.json", MINIMAL).unwrap().resolve(WORLD).unwrap();
    assert_eq!(run.batch.micro_batch_size, 8);
    assert_eq!(run.threads, 8);
    assert!(notices.is_empty());
}
