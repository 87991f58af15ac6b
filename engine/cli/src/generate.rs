//! `pipezero generate`.

use std::io::{self, IsTerminal, StdoutLock, Write, stdout};
use std::path::{Path, PathBuf};

use clap::Args;
use pipezero_files::input::{read_text, without_mark};
use pipezero_files::printable::PrintableStream;
use pipezero_files::records::is_json_lines;
use pipezero_run::engine::{Engine, Inference};
use pipezero_run::generation::{Generation, Sampling};
use pipezero_tokens::{TextCodec, TextStream};
use pipezero_train::TrainedRunError;

use super::failure::Failure;
use super::loaded_weights;
use super::output::{ProcessOutput, note, print_json};
use super::trained_run::TrainedRunArgs;
use super::whole::{at_least_one, whole};

/// Bytes of the largest file of prompts.
const PROMPTS_BYTES_MAX: u64 = 1 << 30;

/// What `--help` ends with.
pub(super) const EXAMPLES: &str = "\
Examples:
  pipezero generate runs/quickstart --prompt 'fn main'
  pipezero generate runs/quickstart --prompt 'use std::' --temperature 0
  pipezero generate runs/quickstart --prompt 'use std::' --top-k 20 --seed 7
  pipezero generate runs/quickstart --prompts prompts.txt > texts.jsonl

With --temperature 0 the text is always the likeliest one.";

/// Arguments of `generate`.
#[derive(Debug, Args)]
pub(super) struct GenerateArgs {
    #[command(flatten)]
    run: TrainedRunArgs,
    /// The text to continue.
    #[arg(long, allow_hyphen_values = true, value_name = "TEXT", value_parser = prompt, required_unless_present = "prompts")]
    prompt: Option<String>,
    /// Texts to continue together: a line each, or {"prompt": "..."} in a .jsonl file. Prints a line of JSON for each.
    #[arg(long, value_name = "FILE", conflicts_with = "prompt")]
    prompts: Option<PathBuf>,
    /// How many of them go through the pipeline at once.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = at_least_one::<usize>, allow_negative_numbers = true, requires = "prompts")]
    batch: usize,
    /// Tokens to write, unless the end token comes before.
    #[arg(long, value_name = "N", default_value_t = 256, allow_negative_numbers = true, value_parser = whole::<u64>)]
    max_tokens: u64,
    /// Logits are divided by it: below 1 the text is more predictable, above 1 less; 0 takes the likeliest token.
    #[arg(long, value_name = "T", default_value_t = 0.8, allow_negative_numbers = true, value_parser = temperature)]
    temperature: f64,
    /// Draw from this many of the likeliest tokens; 0 = all.
    #[arg(long, value_name = "K", default_value_t = 0, allow_negative_numbers = true, value_parser = top_k)]
    top_k: usize,
    /// Write the text as it is to a terminal too, where control characters are otherwise written as their escapes. Into a pipe or a file it always
    /// goes as it is.
    #[arg(long, conflicts_with = "prompts")]
    raw: bool,
    /// Seed of the draws.
    #[arg(long, value_name = "SEED", default_value_t = 0, allow_negative_numbers = true, value_parser = whole::<u64>)]
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
    let prompts = match &args.prompts {
        Some(path) => prompts_of(path)?,
        None => vec![args.prompt.clone().expect("clap asks for one of the two")],
    };
    let run = args.run.open()?;
    let codec = run.codec()?;
    let mut engine =
        run.text_engine(if args.prompts.is_some() { args.batch.min(prompts.len()) } else { 1 })?;
    note(format_args!("computing in {}", engine.computed_in()));
    loaded_weights::say(ProcessOutput::of_this(), engine.loaded_weights());
    if args.prompts.is_none() {
        return continued(&mut engine, &codec, &prompts[0], args);
    }
    // A run with a schedule of its own takes fewer.
    let at_once = engine.plan().evaluation().num_micro_batches() as usize;
    let mut first = 0;
    for batch in prompts.chunks(at_once) {
        lines(&mut engine, &codec, batch, first, args)?;
        first += batch.len() as u64;
        note(format_args!("{first} of {} prompts", prompts.len()));
    }
    Ok(())
}

impl GenerateArgs {
    fn sampling(&self) -> Sampling {
        Sampling { temperature: self.temperature, top_k: self.top_k, seed: self.seed }
    }
}

/// Continues one prompt, and writes each piece of text as soon as it is there.
fn continued(
    engine: &mut Engine<Inference>,
    codec: &TextCodec,
    prompt: &str,
    args: &GenerateArgs,
) -> Result<(), Failure> {
    let tokens = tokens_of(codec, prompt)?;
    let is_shown = !args.raw && stdout().is_terminal();
    let mut out = Written { out: stdout().lock(), shown: is_shown.then(PrintableStream::default) };
    out.write(prompt.as_bytes())?;
    let mut text = TextStream::after(codec, &tokens).map_err(TrainedRunError::from)?;
    let mut generation = Generation::new(engine, [(0, tokens)], args.sampling(), codec.end_token());
    for _ in 0..args.max_tokens {
        let Some(token) = generation.next_tokens()?[0] else { break };
        out.write(&text.push(token).map_err(TrainedRunError::from)?)?;
    }
    out.write(&text.finish().map_err(TrainedRunError::from)?)?;
    Ok(out.finish()?)
}

/// The output of `generate`, which gets the text piece by piece.
struct Written {
    out: StdoutLock<'static>,
    /// For a terminal: a model may have learned control characters from its texts, which would move the cursor.
    shown: Option<PrintableStream>,
}

impl Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.shown {
            Some(shown) => self.out.write_all(shown.push(bytes).as_bytes())?,
            None => self.out.write_all(bytes)?,
        }
        self.out.flush()
    }

    fn finish(mut self) -> io::Result<()> {
        let rest = self.shown.map(PrintableStream::finish).unwrap_or_default();
        self.out.write_all(rest.as_bytes())?;
        self.out.write_all(b"\n")
    }
}

/// Continues prompts together, and writes a line of JSON for each.
fn lines(
    engine: &mut Engine<Inference>,
    codec: &TextCodec,
    prompts: &[String],
    first: u64,
    args: &GenerateArgs,
) -> Result<(), Failure> {
    let begun = prompts.iter().map(|prompt| tokens_of(codec, prompt)).collect::<Result<Vec<_>, _>>()?;
    let numbered = (first..).zip(begun.iter().cloned());
    let mut generation = Generation::new(engine, numbered, args.sampling(), codec.end_token());
    let mut written: Vec<Vec<u32>> = vec![Vec::new(); prompts.len()];
    for _ in 0..args.max_tokens {
        let next = generation.next_tokens()?;
        if next.iter().all(Option::is_none) {
            break;
        }
        written.iter_mut().zip(next).for_each(|(tokens, token)| tokens.extend(token));
    }
    for ((prompt, begun), written) in prompts.iter().zip(begun).zip(written) {
        let ended = (written.len() as u64) < args.max_tokens;
        let before = text_of(codec, &begun)?;
        let whole = text_of(codec, &[begun, written].concat())?;
        let completion = whole.strip_prefix(&before).unwrap_or(&whole);
        let line = serde_json::json!({ "prompt": prompt, "completion": completion, "ended": ended });
        print_json(format_args!("{line}\n"))?;
    }
    Ok(())
}

fn tokens_of(codec: &TextCodec, prompt: &str) -> Result<Vec<u32>, Failure> {
    let tokens = codec.prompt(prompt).map_err(TrainedRunError::from)?;
    if tokens.is_empty() {
        let error = format!("the tokenizer makes no token of the prompt {prompt:?}; write another one");
        return Err(Failure::Input(error.into()));
    }
    Ok(tokens)
}

fn text_of(codec: &TextCodec, tokens: &[u32]) -> Result<String, Failure> {
    Ok(codec.decode(tokens).map_err(TrainedRunError::from)?)
}

/// Prompts of a file: a line each, or in a .jsonl file the field "prompt" of each.
fn prompts_of(path: &Path) -> Result<Vec<String>, Failure> {
    let mistake = |error: String| Failure::Input(format!("{}{error}", path.display()).into());
    let text = read_text(path, PROMPTS_BYTES_MAX).map_err(|error| mistake(format!(": {error}")))?;
    let is_json = is_json_lines(path);
    let mut prompts = Vec::new();
    let lines = (1..).zip(without_mark(&text).lines());
    for (number, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
        if !is_json {
            prompts.push(line.to_owned());
            continue;
        }
        let fields: serde_json::Value =
            serde_json::from_str(line).map_err(|error| mistake(format!(":{number}: {error}")))?;
        match fields["prompt"].as_str().filter(|prompt| !prompt.is_empty()) {
            Some(prompt) => prompts.push(prompt.to_owned()),
            None => {
                let form = "each line is {\"prompt\": \"...\"}, with at least one character";
                return Err(mistake(format!(":{number}: it has no \"prompt\" with text; {form}")));
            }
        }
    }
    if prompts.is_empty() { Err(mistake(": it holds no prompt".to_owned())) } else { Ok(prompts) }
}
