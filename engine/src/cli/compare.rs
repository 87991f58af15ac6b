//! `pipezero compare`.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::failure::Failure;
use super::output::print;
use super::table::Table;
use super::units::{bytes, counted};
use crate::config::{RunFile, World};
use crate::plan::Plan;
use crate::trace::{Compared, ComparedRank, Comparison, Part, Prediction, Recorded, TraceFolder};
use crate::training::RunDir;

/// What `--help` ends with.
pub(super) const EXAMPLES: &str = "\
Examples:
  pipezero train run.json --out runs/traced --trace
  pipezero compare runs/traced
  pipezero compare runs/traced --json

What was measured is the traced step of middle length. The prediction plays the same program; its costs are those of the traced steps themselves, so that what is wrong with it is its structure alone: what waits for what, what overlaps.";

/// Arguments of `compare`.
#[derive(Debug, Args)]
pub(super) struct CompareArgs {
    /// The run directory that `train --trace` wrote.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Print JSON instead of tables.
    #[arg(long)]
    json: bool,
}

/// What the prediction was made from.
const FROM_TRACE: &str = "the traced steps";

pub(super) fn run(args: &CompareArgs) -> Result<(), Failure> {
    let directory = RunDir::of_run_file(&args.directory)?;
    let peaks = directory.measured_peak_bytes()?;
    let file = RunFile::load(&directory.file(RunDir::RUN_FILE))?;
    let (run, _) = file.resolve(World::this_host())?;
    let plan = Plan::new(run)?;
    let folder = TraceFolder::of_run(directory.path());
    let steps: Vec<Recorded> =
        folder.steps()?.into_iter().map(|step| folder.read(&plan, step)).collect::<Result<_, _>>()?;
    let prediction = Prediction::from_steps(&plan, &steps)?;
    let comparison = Comparison::new(&plan, &steps, &prediction, &peaks);
    if args.json {
        let printed = Printed { costs: FROM_TRACE, comparison: &comparison };
        let text = serde_json::to_string_pretty(&printed);
        print(text.expect("a comparison has string keys and finite depth") + "\n")?;
    } else {
        print(as_text(&comparison))?;
    }
    Ok(())
}

/// What `--json` prints.
#[derive(Serialize)]
struct Printed<'a> {
    costs: &'a str,
    #[serde(flatten)]
    comparison: &'a Comparison,
}

fn as_text(comparison: &Comparison) -> String {
    let steps: Vec<String> = comparison.steps.iter().map(u64::to_string).collect();
    format!(
        "{}\npredicted from {FROM_TRACE}; measured in step {} of {}: {}\n\n{}\n{}\n{}",
        step_table(comparison),
        comparison.typical_step,
        counted(comparison.steps.len(), "traced step"),
        steps.join(", "),
        rank_table(&comparison.ranks),
        kind_table(comparison),
        path_table(comparison),
    )
}

fn step_table(comparison: &Comparison) -> Table {
    let mut table = Table::new(["", "predicted", "measured", "error"]);
    for (name, compared) in
        [("step", comparison.step), ("its program", comparison.program), ("beside it", comparison.outside)]
    {
        table.row(std::iter::once(name.to_owned()).chain(cells(compared)));
    }
    table
}

/// A pipeline rank's data ranks run the same row: what was measured of them is their mean, of memory the most.
fn rank_table(ranks: &[ComparedRank]) -> Table {
    let mut table = Table::new([
        "pipeline rank",
        "computes",
        "waits: dependency",
        "transfer",
        "gather",
        "reduce",
        "overhead",
        "tail",
        "peak memory",
    ]);
    for group in ranks.chunk_by(|one, next| one.pipeline_rank == next.pipeline_rank) {
        let row = |name: String, of: fn(Compared) -> u64, peak: u64| {
            let times = group.iter().map(|rank| {
                let causes = rank.bubble.causes();
                std::iter::once(rank.busy).chain(causes).map(of).collect::<Vec<u64>>()
            });
            let sums =
                times.reduce(|sums, times| sums.iter().zip(times).map(|(sum, time)| sum + time).collect());
            let means = sums.unwrap_or_default().into_iter().map(|sum| time(sum / group.len() as u64));
            std::iter::once(name).chain(means).chain([bytes(peak)]).collect::<Vec<String>>()
        };
        let predicted = group.iter().map(|rank| rank.peak.predicted_bytes).max().unwrap_or(0);
        let measured = group.iter().map(|rank| rank.peak.measured_bytes).max().unwrap_or(0);
        let number = group[0].pipeline_rank.to_string();
        let indent = " ".repeat(number.len());
        table.row(row(format!("{number} predicted"), |of| of.predicted_ns, predicted));
        table.row(row(format!("{indent} measured"), |of| of.measured_ns, measured));
    }
    table
}

fn kind_table(comparison: &Comparison) -> Table {
    let header = ["all ranks", "count", "predicted", "measured", "in all: predicted", "measured", "error"];
    let mut table = Table::new(header);
    for kind in &comparison.kinds {
        let part = match kind.part {
            Part::Whole => "",
            Part::Own => ", issue and landing",
            Part::Way => ", way of those waited for",
        };
        let mean = [kind.mean.predicted_ns, kind.mean.measured_ns].map(time);
        let name = [format!("{}{part}", kind.kind), kind.count.to_string()];
        table.row(name.into_iter().chain(mean).chain(cells(kind.total)));
    }
    table
}

fn path_table(comparison: &Comparison) -> Table {
    let first = format!(
        "{} of {} on the critical path",
        comparison.partings.len(),
        counted(comparison.path_instructions, "instruction"),
    );
    let mut table = Table::new([first.as_str(), "rank", "ended: predicted", "measured", "took longer by"]);
    for parting in &comparison.partings {
        let ends = [parting.predicted_end_ns, parting.measured_end_ns].map(time);
        let later = time(parting.later_ns.unsigned_abs());
        let sign = if parting.later_ns < 0 { "-" } else { "+" };
        let name = [parting.instruction.clone(), parting.rank.to_string()];
        table.row(name.into_iter().chain(ends).chain([format!("{sign}{later}")]));
    }
    table
}

/// Predicted, measured, error.
fn cells(compared: Compared) -> [String; 3] {
    let error = compared.error.map_or_else(|| "-".to_owned(), |error| format!("{:+.1}%", 100.0 * error));
    [time(compared.predicted_ns), time(compared.measured_ns), error]
}

/// Nanoseconds with the largest unit that keeps the figure above one.
fn time(time_ns: u64) -> String {
    let ns = time_ns as f64;
    match time_ns {
        0..1_000 => format!("{time_ns} ns"),
        1_000..1_000_000 => format!("{:.1} µs", ns / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} ms", ns / 1e6),
        _ => format!("{:.3} s", ns / 1e9),
    }
}
