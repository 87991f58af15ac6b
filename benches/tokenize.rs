//! How fast `tokenize` is beside the tokenizers library alone, and how much memory it takes: on a text of `PIPEZERO_BENCH_BYTES` bytes
//! (1 GB), none of which is repeated.
//!
//! ```text
//! cargo bench -p benches --bench tokenize
//! ```
//!
//! The text is drawn from the words of this repository with a seed, each after one that it follows there. The library alone does the same
//! work on the same cores: it reads the documents, encodes them in batches on all threads, and keeps nothing.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;
use std::time::Instant;

use pipezero_run::data::read_text;
use pipezero_tokenize::{End, Finished, Form, Job, Options, Start, Watch};
use pipezero_tokens::{Tokenizer, Written, train_tokenizer};

/// Documents of the library's batches.
const BATCH: usize = 1000;

/// Where the text comes from, seen from the bench's folder.
const TEXTS: [&str; 4] = ["../*/src/**/*.rs", "../engine/*/src/**/*.rs", "../docs/*.md", "../*.md"];

fn main() -> Result<(), Box<dyn Error>> {
    let num_bytes: u64 = match std::env::var("PIPEZERO_BENCH_BYTES") {
        Ok(bytes) => bytes.parse()?,
        Err(_) => 1_000_000_000,
    };
    let folder = tempfile::tempdir()?;
    let (text, tokenizer) = (folder.path().join("text.jsonl"), folder.path().join(Tokenizer::FILE));
    let files = read_text(&TEXTS.map(PathBuf::from))?;
    train_tokenizer(files.iter().map(|file| &file.text), 8192, &tokenizer)?;
    let words: Vec<&str> = files.iter().flat_map(|file| file.text.split(' ')).collect();
    write_text(&text, &words, num_bytes)?;
    drop(words);
    drop(files);
    // Twice in turn: a shared machine is not equally fast all the time.
    let mut ratios = Vec::new();
    for turn in 1..=2 {
        let (own_s, finished) = tokenized(&text, &tokenizer, &folder.path().join(format!("turn-{turn}")))?;
        let peak = peak_resident();
        let (library_s, num_tokens) = by_library(&text, &tokenizer)?;
        assert_eq!(finished.written.num_tokens, num_tokens, "the same tokens, and the end tokens");
        let rate = |seconds: f64| num_bytes as f64 / seconds / 1e6;
        ratios.push(library_s / own_s);
        println!(
            "{num_tokens} tokens: tokenize {:.2} MB/s, the library alone {:.2} MB/s, ratio {:.3}; peak of resident memory so far {} MiB",
            rate(own_s),
            rate(library_s),
            library_s / own_s,
            peak.map_or_else(|| "?".to_owned(), |kib| (kib / 1024).to_string()),
        );
    }
    println!("ratio {:.3}", ratios.iter().sum::<f64>() / ratios.len() as f64);
    Ok(())
}

/// Lines of JSON with documents of about two thousand bytes.
fn write_text(path: &Path, words: &[&str], num_bytes: u64) -> Result<(), Box<dyn Error>> {
    let mut after: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for (index, word) in words.iter().enumerate().take(words.len() - 1) {
        after.entry(word).or_default().push(index as u32 + 1);
    }
    let mut to = BufWriter::new(File::create(path)?);
    let (mut state, mut index, mut written) = (1_u64, 0_usize, 0_u64);
    let mut text = String::new();
    while written < num_bytes {
        text.clear();
        while text.len() < 2000 {
            // SplitMix64.
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let next = &after.get(words[index]).filter(|next| !next.is_empty());
            index = next.map_or(0, |next| next[(mixed >> 33) as usize % next.len()] as usize);
            text.push_str(words[index]);
            text.push(' ');
        }
        let line = serde_json::json!({ "text": text }).to_string();
        written += line.len() as u64 + 1;
        writeln!(to, "{line}")?;
    }
    to.flush()?;
    Ok(())
}

struct Silent;

impl Watch for Silent {
    fn progress(&mut self, _: u64, _: Written) {}
}

fn tokenized(text: &Path, tokenizer: &Path, prefix: &Path) -> Result<(f64, Finished), Box<dyn Error>> {
    let options = Options {
        inputs: vec![text.to_owned()],
        tokenizer: tokenizer.to_owned(),
        end: End::Known,
        prefix: prefix.to_owned(),
        form: Form::default(),
        num_threads: available_parallelism()?.get(),
        save_every: 64 << 20,
        start: Start::New,
    };
    let begun = Instant::now();
    let finished = Job::new(options)?.run(&mut Silent)?;
    let seconds = begun.elapsed().as_secs_f64();
    fs::remove_file(&finished.bin)?;
    fs::remove_file(&finished.idx)?;
    Ok((seconds, finished))
}

/// Seconds of the library alone, and how many tokens there are with one more for each document.
fn by_library(text: &Path, tokenizer: &Path) -> Result<(f64, u64), Box<dyn Error>> {
    let begun = Instant::now();
    let tokenizer = tokenizers::Tokenizer::from_file(tokenizer).map_err(|error| error.to_string())?;
    let mut lines = BufReader::new(File::open(text)?).lines();
    let mut num_tokens = 0;
    loop {
        let mut batch = Vec::with_capacity(BATCH);
        for line in lines.by_ref().take(BATCH) {
            let value: serde_json::Value = serde_json::from_str(&line?)?;
            batch.push(value["text"].as_str().expect("a text").to_owned());
        }
        if batch.is_empty() {
            return Ok((begun.elapsed().as_secs_f64(), num_tokens));
        }
        let encoded = tokenizer.encode_batch_fast(batch, true).map_err(|error| error.to_string())?;
        num_tokens += encoded.iter().map(|encoding| encoding.len() as u64 + 1).sum::<u64>();
    }
}

/// The largest resident memory of this process so far, in KiB.
fn peak_resident() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.split_whitespace().next()?.parse().ok()
}
