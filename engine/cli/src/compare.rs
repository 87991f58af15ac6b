//! `pipezero compare`.

use std::path::PathBuf;

use clap::Args;
use pipezero_config::{Resources, RunFile};
use pipezero_measure::compare::{
    Compared, ComparedGroup, ComparedRank, Comparison, Part, Prediction, median_step,
};
use pipezero_measure::recording::Recording;
use pipezero_measure::trace::{TraceFolder, picture};
use pipezero_plan::Plan;
use pipezero_plan::costs::{CostsFile, PredictError, Source, for_plan};
use pipezero_schedule::simulate::IdleCause;
use pipezero_train::RunDir;
use serde::Serialize;

use super::failure::{Failure, OfCostsFile};
use super::figures::{bytes, counted, nanoseconds};
use super::output::{note, print, print_json};
use super::table::Table;
use super::terminal;

/// What `--help` ends with.
pub(super) const EXAMPLES: &str = "\
Examples:
  pipezero train run.json --out runs/traced --trace
  pipezero compare runs/traced
  pipezero compare runs/traced --costs costs.json     # as `profile` measured
  pipezero compare runs/traced --json

What was measured is the traced step of middle length. The prediction plays the same program; without --costs its times are read off the traced steps themselves, so that what is wrong with it is its structure alone: what waits for what, what overlaps. Both go to compare.json in DIR, to be laid over each other in ui.perfetto.dev or chrome://tracing.";

/// Arguments of `compare`.
#[derive(Debug, Args)]
pub(super) struct CompareArgs {
    /// The run directory that `train --trace` wrote.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Predict with times that `pipezero profile` measured.
    #[arg(long, value_name = "COSTS.json")]
    costs: Option<PathBuf>,
    /// Print JSON instead of tables.
    #[arg(long)]
    json: bool,
}

/// What a prediction is made from unless the arguments say what else.
const FROM_TRACE: &str = "times of the traced steps themselves";

pub(super) fn run(args: &CompareArgs) -> Result<(), Failure> {
    let directory = RunDir::of_run_file(&args.directory)?;
    let measured = directory.measured()?;
    let file = RunFile::load(&directory.file(RunDir::RUN_FILE))?;
    let (mut run, _) = file.resolve(Resources::this_host())?;
    // What the job had, where the run file leaves it to that.
    run.comm.ranks_per_node = run.comm.ranks_per_node.or(measured.ranks_per_node);
    let plan = Plan::new(run)?;
    let folder = TraceFolder::of_run(directory.path());
    let steps: Vec<Recording<'_>> =
        folder.steps()?.into_iter().map(|step| folder.read(&plan, step)).collect::<Result<_, _>>()?;
    let (prediction, costs) = args.predict(&plan, &steps)?;
    let comparison = Comparison::new(&steps, &prediction, &measured.peak_bytes());
    let picture = picture(median_step(&steps), Some(&prediction.timeline));
    directory.write(RunDir::COMPARISON, &picture)?;
    if args.json {
        let printed = Printed { costs: &costs, comparison: &comparison };
        let text = serde_json::to_string_pretty(&printed);
        print_json(text.expect("a comparison has string keys and finite depth") + "\n")?;
    } else {
        print(as_text(&comparison, &costs, terminal::width()))?;
        note(format_args!("\nto look at: {}", directory.file(RunDir::COMPARISON).display()));
    }
    if measured.had_teacher() {
        note(terminal::wrapped(
            "the run learned from a teacher, of which its run file does not know: the prediction leaves out the teacher's logits, which the \
             ranks with the head hold, and the time in which they are computed, before each step",
            terminal::width(),
        ));
    }
    Ok(())
}

impl CompareArgs {
    /// The prediction, and where its costs come from.
    fn predict(&self, plan: &Plan, steps: &[Recording<'_>]) -> Result<(Prediction, String), Failure> {
        let Some(path) = &self.costs else {
            let prediction = Prediction::from_steps(plan, steps).map_err(PredictError::from)?;
            return Ok((prediction, FROM_TRACE.to_owned()));
        };
        let predicted = for_plan(plan, Source::Measured(&CostsFile::load(path)?))
            .map_err(|source| OfCostsFile { path: path.clone(), source })?;
        for assumption in &predicted.assumptions {
            note(format_args!("assumed: {assumption}"));
        }
        let description = format!("times {}", predicted.description);
        Ok((Prediction::from_costs(plan, predicted)?, description))
    }
}

/// What `--json` prints.
#[derive(Serialize)]
struct Printed<'a> {
    costs: &'a str,
    #[serde(flatten)]
    comparison: &'a Comparison,
}

fn as_text(comparison: &Comparison, costs: &str, width: usize) -> String {
    let steps: Vec<String> = comparison.steps.iter().map(u64::to_string).collect();
    format!(
        "{:width$}\npredicted from {costs}; measured in step {} of {}: {}\n\n{:width$}\n{:width$}\n{:width$}",
        step_table(comparison),
        comparison.median_step,
        counted(comparison.steps.len(), "traced step"),
        steps.join(", "),
        rank_table(&comparison.ranks),
        kind_table(comparison),
        path_table(comparison),
    )
}

fn step_table(comparison: &Comparison) -> Table {
    let mut table = Table::new(["", "predicted", "measured", "error"]);
    table.row("step", cells(comparison.step));
    let program = cells(comparison.program);
    if comparison.straggling_ns == 0 {
        table.row("its program", program);
    } else {
        let [_, measured, error] = cells(comparison.program_with_waits());
        let [predicted, ..] = program;
        table.row("its program", [predicted, measured, "-".to_owned()]);
        let straggling = nanoseconds(comparison.straggling_ns);
        table.row("waits for slow ranks", [straggling, "in the program".to_owned(), error]);
    }
    table.row("beside it", cells(comparison.step_overhead));
    table
}

fn rank_table(ranks: &[ComparedRank]) -> Table {
    let causes = IdleCause::ALL.map(IdleCause::name);
    let mut table =
        Table::new(["pipeline rank", "computes"].into_iter().chain(causes).chain(["peak memory"]));
    for ComparedGroup { pipeline_rank, times, peak } in ComparedGroup::of_ranks(ranks) {
        let mut row = |name: String, times: [u64; 7], peak: u64| {
            table.row(name, times.map(nanoseconds).into_iter().chain([bytes(peak)]));
        };
        let number = pipeline_rank.to_string();
        let indent = " ".repeat(number.len());
        row(format!("{number} predicted"), times.map(|of| of.predicted_ns), peak.predicted_bytes);
        row(format!("{indent} measured"), times.map(|of| of.measured_ns), peak.measured_bytes);
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
        let mean = [kind.mean.predicted_ns, kind.mean.measured_ns].map(nanoseconds);
        let cells = mean.into_iter().chain(cells(kind.total));
        table.row(format!("{}{part}", kind.kind), std::iter::once(kind.count.to_string()).chain(cells));
    }
    table
}

fn path_table(comparison: &Comparison) -> Table {
    let first = format!(
        "{} of {} on the critical path",
        comparison.partings.len(),
        counted(comparison.path_parts, "part"),
    );
    let mut table =
        Table::new([first.as_str(), "world rank", "ended: predicted", "measured", "measured longer by"]);
    for parting in &comparison.partings {
        let ends = [parting.predicted_end_ns, parting.measured_end_ns].map(nanoseconds);
        let later = nanoseconds(parting.later_ns.unsigned_abs());
        let sign = if parting.later_ns < 0 { "-" } else { "+" };
        let cells = ends.into_iter().chain([format!("{sign}{later}")]);
        table.row(&parting.instruction, std::iter::once(parting.rank.to_string()).chain(cells));
    }
    table
}

/// Predicted, measured, error.
fn cells(compared: Compared) -> [String; 3] {
    let error = compared.error.map_or_else(|| "-".to_owned(), |error| format!("{:+.1}%", 100.0 * error));
    [nanoseconds(compared.predicted_ns), nanoseconds(compared.measured_ns), error]
}
