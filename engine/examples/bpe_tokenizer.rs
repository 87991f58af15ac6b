//! Trains a byte-level BPE on texts and writes it as a tokenizer.json:
//!
//! ```text
//! cargo run --release --example bpe_tokenizer -- VOCAB_SIZE tokenizer.json TEXT...
//! ```
//!
//! A TEXT is a file, a folder or a glob, as in `data.text` of a run file.

use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};

use pipezero::run::data::read_text;
use pipezero::tokens::{Tokenizer, train_tokenizer};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [vocab_size, path, texts @ ..] = &arguments[..] else {
        return Err("usage: bpe_tokenizer VOCAB_SIZE tokenizer.json TEXT...".into());
    };
    let texts: Vec<PathBuf> = texts.iter().map(PathBuf::from).collect();
    let files = read_text(&texts)?;
    train_tokenizer(
        files.iter().map(|file| &file.text),
        vocab_size
            .parse()
            .map_err(|_| format!("VOCAB_SIZE is `{vocab_size}`; write a whole number such as 1024"))?,
        Path::new(path),
    )?;
    let tokenizer = Tokenizer::load(Path::new(path), None)?;
    println!("{path}: {} tokens from {} files", tokenizer.vocab_size(), files.len());
    Ok(())
}
