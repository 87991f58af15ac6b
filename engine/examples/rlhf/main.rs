//! Reinforcement learning from feedback with four engines, each with its own grid, ZeRO level, precision and optimizer: an actor writes texts, a critic
//! predicts how good they will be, a reward scores them, and a reference shows how far the actor has moved from where it began.
//!
//! ```text
//! cargo run --release --example rlhf                       # writes runs/rlhf
//! cargo run --release --example rlhf -- --resume           # resumes from its newest checkpoints
//! cargo run --release --example rlhf -- --set actor.parallel.pipeline=1 --set reference.parallel.data=1
//! ```

mod batches;
mod engines;
mod judgement;
mod language;
mod losses;
mod rounds;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use pipezero::Engine;
use pipezero::run::engine::EngineKind;

use self::engines::Name;
use self::rounds::{Four, Plans};

/// Tokens of a text. The first is given, and the actor writes the others.
const TOKENS: usize = 12;
const WRITTEN: usize = TOKENS - 1;
/// The first tokens of the vocabulary are the words of the language.
const NUM_WORDS: u32 = 16;
/// Texts of a round, and how many of them begin with the same token.
const TEXTS: usize = 32;
const GROUP: usize = 8;
const ROUNDS: u64 = 20;
/// Rounds between checkpoints.
const CHECKPOINT_EVERY: u64 = 5;

/// Trains a model on the language, with which the actor and the reference begin, and the reward on the rule. Weights that are there already are kept.
fn fit(language: &Path, reward: &Path, changes: &[String]) -> Result<(), Box<dyn Error>> {
    if !language.exists() {
        let plan = engines::language(changes)?;
        let source = batches::of_language(&plan);
        let loss = engines::fitted(plan, source, language)?;
        println!("the language is learned: loss {loss:.3}, where ln 2 = 0.693 is the best possible");
    }
    if !reward.exists() {
        let plan = engines::values(Name::Reward, true, changes)?;
        let source = batches::of_goodness(&plan);
        let loss = engines::fitted(plan, source, reward)?;
        println!("the reward is learned: its error is {:.3}", (2.0 * loss).sqrt());
    }
    Ok(())
}

/// The most that a rank of an engine holds, in KiB: as planned, and as measured.
fn memory<K: EngineKind>(engine: &Engine<K>) -> [f64; 2] {
    let ranks = 0..engine.plan().grid().world_size();
    let measured = ranks.map(|rank| engine.ledger(rank).total_peak_bytes()).max().unwrap_or(0);
    [engine.plan().needs().rank_bytes, measured].map(|bytes| bytes as f64 / 1024.0)
}

fn print_memory(four: &Four) {
    let held = [memory(&four.actor), memory(&four.critic), memory(&four.reward), memory(&four.reference)];
    println!("\nengine     KiB of a rank at most: planned   measured");
    for (name, [planned, measured]) in Name::ALL.into_iter().zip(held) {
        println!("{:<10} {planned:>30.1} {measured:>10.1}", name.word());
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let (mut resumes, mut changes) = (false, Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--help" => {
                println!(
                    "rlhf [--resume] [--set ENGINE.KEY=VALUE]...: writes runs/rlhf, see docs/several-models.md"
                );
                return Ok(());
            }
            "--resume" => resumes = true,
            "--set" => changes.push(arguments.next().ok_or("--set needs ENGINE.KEY=VALUE")?),
            other => return Err(format!("`{other}` is neither --resume nor --set ENGINE.KEY=VALUE").into()),
        }
    }
    if let Some(change) =
        changes.iter().find(|change| !Name::ALL.iter().any(|name| name.own(change).is_some()))
    {
        return Err(
            format!("--set {change}: begin it with `actor.`, `critic.`, `reward.` or `reference.`").into()
        );
    }
    // In a run file, paths start at the folder of the file.
    let folder = &std::path::absolute("runs/rlhf")?;
    let [language, reward] = ["language.safetensors", "reward.safetensors"].map(|file| folder.join(file));
    // Mistakes in any of them are found before anything is trained.
    let plans = Plans::new(&language, &changes)?;
    if resumes && !folder.is_dir() {
        return Err(format!("{} is not there: leave --resume out", folder.display()).into());
    }
    if !resumes {
        std::fs::create_dir_all("runs")?;
        let made = std::fs::create_dir(folder);
        made.map_err(|error| format!("{}: {error}; --resume continues with it", folder.display()))?;
    }
    fit(&language, &reward, &changes)?;
    let mut four = Four::start(plans, [&language, &reward], folder)?;
    while four.num_rounds() < ROUNDS {
        let round = four.round()?;
        println!("{round}");
        if round.number.is_multiple_of(CHECKPOINT_EVERY) {
            four.write_checkpoint()?;
        }
    }
    print_memory(&four);
    Ok(())
}
