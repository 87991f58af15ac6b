//! `pipezero generate`.

use std::io::{Write, stdout};

use clap::Args;

use super::failure::Failure;
use super::output::note;
use super::trained_run::TrainedRunArgs;
use crate::run::generation::{Generation, Sampling};

/// What `--help` ends with.
pub(super) const EXAMPLES: &str = "\
Examples:
  pipezero generate runs/quickstart --prompt 'fn main'
  pipezero generate runs/quickstart --prompt 'use std::' --temperature 0
  pipezero generate runs/quickstart --prompt 'use std::' --top-k 20 --seed 7

With --temperature 0 the text is always the likeliest one.";

/// Arguments of `generate`.
#[derive(Debug, Args)]
pub(super) struct GenerateArgs {
    #[command(flatten)]
    run: TrainedRunArgs,
    /// The text to continue.
    #[arg(long, allow_hyphen_values = true, value_name = "TEXT", value_parser = prompt)]
    prompt: String,
    /// Tokens to write.
    #[arg(long, value_name = "N", default_value_t = 256)]
    max_tokens: u64,
    /// Logits are divided by it: below 1 the text is more predictable, above 1 less; 0 takes the likeliest token.
    #[arg(long, value_name = "T", default_value_t = 0.8, allow_negative_numbers = true, value_parser = temperature)]
    temperature: f64,
    /// Draw from this many of the likeliest tokens; 0 = all.
    #[arg(long, value_name = "K", default_value_t = 0, allow_negative_numbers = true, value_parser = top_k)]
    top_k: usize,
    /// Seed of the draws.
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    seed: u64,
}

fn prompt(text: &str) -> Result<String, String> {
    match text {
        "" => Err("there is nothing to continue; write at least one character".to_owned()),
        text => Ok(text.to_owned()),
    }
}

fn temperature(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value),
        _ => Err("a temperature is a finite number from 0; write for example 0.8".to_owned()),
    }
}

fn top_k(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "a number of tokens is a whole number from 0; write for example 20".to_owned())
}

pub(super) fn run(args: &GenerateArgs) -> Result<(), Failure> {
    let mut engine = args.run.open()?.text_engine()?;
    note(format_args!("computing in {}", engine.computed_in()));
    let prompt = args.prompt.bytes().map(u32::from).collect();
    let sampling = Sampling { temperature: args.temperature, top_k: args.top_k, seed: args.seed };
    let mut out = stdout().lock();
    out.write_all(args.prompt.as_bytes())?;
    let mut generation = Generation::new(&mut engine, prompt, sampling);
    for _ in 0..args.max_tokens {
        let token = generation.next_token()?;
        // A token is a byte; in a vocabulary larger than 256 the other tokens have no text.
        out.write_all(&[u8::try_from(token).unwrap_or(b'?')])?;
        out.flush()?;
    }
    out.write_all(b"\n")?;
    Ok(())
}
