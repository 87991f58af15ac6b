//! How well does the simulator predict a step, from costs that `profile` measured?
//!
//! ```text
//! cargo bench -p benches --bench accuracy                 all 28 runs, about twenty minutes
//! cargo bench -p benches --bench accuracy -- cpu          or timed, or level: one part; a number: one run of it
//! ```
//!
//! Twelve runs of GPT-2 on one or two ranks, and twelve of 8 to 64 ranks whose units are timed (they sleep) and whose links
//! are emulated: over schedules, degrees, ZeRO levels, units, residencies and links; and four with links so slow that gathers
//! make steps longer, of which every second has `level` where the one before it has two resident units on each rank. Of each run steps that are recorded and
//! steps that are measured take turns; the recorded ones before and after each measured one make a profile each. Nothing else
//! is known of the run, and nothing is tuned. Where the predictions from both profiles lie more than 2 % apart the machine was
//! not the same for them, and the run is repeated.
//!
//! The run passes if errors are at most 3 % in the mean and 6 % at worst, planned peak memory is off by at most 2 %, and of any
//! two runs of a part whose predictions differ by more than 3 % the one that was predicted to be faster is. The runs of `level`
//! pass if errors are at most 2 % in the mean and 5 % at worst, and steps with `level` are predicted to be shorter and are. The exit
//! status is 1 if they do not, or the profiles of a run never agree.

mod cases;
mod measure;

use std::error::Error;
use std::process::ExitCode;

use cases::{CPU, Case, LEVEL, TIMED};
use measure::Measured;

/// Bounds on the error of a step's time, as shares of it: in the mean and at worst.
const ERROR_MAX: [f64; 2] = [0.03, 0.06];
const LEVEL_ERROR_MAX: [f64; 2] = [0.02, 0.05];

/// Bound on the error of peak memory.
const MEMORY_ERROR_MAX: f64 = 0.02;

/// Of two runs whose predictions differ by more, the faster one is known.
const RANKED_ABOVE: f64 = 0.03;

fn main() -> ExitCode {
    // Cargo adds `--bench`.
    benches::exit_code(measure_all(&benches::arguments()))
}

/// Whether everything that was chosen passes.
fn measure_all(chosen: &[String]) -> Result<bool, Box<dyn Error>> {
    let mut passes = true;
    for (name, cases) in [("cpu", &CPU[..]), ("timed", &TIMED), ("level", &LEVEL)] {
        let chosen = choose(chosen, name, cases)?;
        if chosen.is_empty() {
            continue;
        }
        println!(
            "{name:<58}{:>12}{:>12}{:>9}{:>9}{:>9}{:>14}{:>9}{:>9}",
            "predicted", "measured", "error", "apart", "spread", "peak memory", "error", "repeats"
        );
        let mut measured = Vec::new();
        // A run with `level` and the one that it is compared with are measured in turn.
        for cases in chosen.chunks(if name == "level" { 2 } else { 1 }) {
            for (case, run) in cases.iter().zip(Measured::of(cases)?) {
                print(case, &run);
                measured.push(run);
            }
        }
        let num_misplaced = misplaced(&measured);
        println!("pairs more than 3 % apart that were measured the other way round: {num_misplaced}");
        passes &= num_misplaced == 0;
        if name == "level" {
            let shorter: Vec<bool> = measured.chunks_exact(2).map(is_shorter).collect();
            passes &= !shorter.contains(&false) & verdict(&measured, LEVEL_ERROR_MAX);
        } else {
            passes &= verdict(&measured, ERROR_MAX);
        }
    }
    Ok(passes)
}

/// Whether the second run was predicted to be shorter than the first, and was.
fn is_shorter(pair: &[Measured]) -> bool {
    let shares = [Measured::predicted_s, Measured::step_s].map(|of| 1.0 - of(&pair[1]) / of(&pair[0]));
    let [predicted, measured] = shares.map(|share| 100.0 * share);
    println!(
        "a step with `level` is shorter by {predicted:.1} % as predicted and {measured:.1} % as measured"
    );
    shares.iter().all(|&share| share > 0.0)
}

/// The cases of a part that were asked for: all of them if nothing was.
fn choose(chosen: &[String], name: &str, cases: &[Case]) -> Result<Vec<Case>, Box<dyn Error>> {
    let Some(part) = chosen.first() else { return Ok(cases.to_vec()) };
    if !["cpu", "timed", "level"].contains(&part.as_str()) {
        return Err(format!("`{part}`: name a part, `cpu`, `timed` or `level`, or nothing for all").into());
    }
    if part != name {
        return Ok(Vec::new());
    }
    let Some(number) = chosen.get(1) else { return Ok(cases.to_vec()) };
    let case = number.parse().ok().and_then(|number: usize| cases.get(number.checked_sub(1)?));
    let case = case.ok_or_else(|| format!("`{number}`: runs are numbered from 1 to {}", cases.len()))?;
    Ok(vec![case.clone()])
}

fn print(case: &Case, run: &Measured) {
    println!(
        "{:<58}{:>9.1} ms{:>9.1} ms{:>+7.2} %{:>7.2} %{:>7.2} %{:>10.2} MiB{:>+7.2} %{:>9}",
        case.to_string(),
        1e3 * run.predicted_s(),
        1e3 * run.step_s(),
        100.0 * run.error(),
        100.0 * run.distance(),
        100.0 * run.step.spread(),
        run.peak_bytes[1] as f64 / (1 << 20) as f64,
        100.0 * run.memory_error(),
        run.num_repeats,
    );
}

/// Pairs of which the run that was clearly predicted to be faster is not.
fn misplaced(runs: &[Measured]) -> usize {
    let is_misplaced = |a: &Measured, b: &Measured| {
        a.predicted_s() * (1.0 + RANKED_ABOVE) < b.predicted_s() && a.step_s() >= b.step_s()
    };
    runs.iter().map(|a| runs.iter().filter(|b| is_misplaced(a, b)).count()).sum()
}

/// Whether the bounds are kept.
fn verdict(runs: &[Measured], [mean_max, worst_max]: [f64; 2]) -> bool {
    let errors = runs.iter().map(|run| run.error().abs());
    let mean = errors.clone().sum::<f64>() / runs.len() as f64;
    let worst = errors.fold(0.0, f64::max);
    let memory = runs.iter().map(|run| run.memory_error().abs()).fold(0.0, f64::max);
    let num_apart = runs.iter().filter(|run| !run.agrees()).count();
    println!(
        "{} runs: error {:.2} % in the mean, {:.2} % at worst; peak memory {:.2} % at worst; {num_apart} whose profiles never agreed\n",
        runs.len(),
        100.0 * mean,
        100.0 * worst,
        100.0 * memory,
    );
    mean <= mean_max && worst <= worst_max && memory <= MEMORY_ERROR_MAX && num_apart == 0
}
