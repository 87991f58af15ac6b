//! `pipezero simulate RUN.json`: a step of the run's own program, with measured or calculated times.

use std::path::Path;

use pipezero_schedule::PipelineRank;
use serde_json::{Value, json};

use super::SimulateError;
use super::picture::{Format, trace};
use crate::cli::describe::print_remarks;
use crate::cli::failure::Failure;
use crate::cli::output::note;
use crate::cli::run_args::{RunArgs, print_notices};
use crate::cli::table::Table;
use crate::cli::units::{bytes, nanoseconds, percent};
use crate::costs::{CostsFile, Device, Predicted, RankStep, Source, Step, for_plan};
use crate::plan::Plan;

/// A run, and where its times come from.
#[derive(Debug)]
pub(super) struct StepRequest<'a> {
    pub(super) run: RunArgs,
    pub(super) costs: Option<&'a Path>,
    /// A device's name; this host's CPU where there is neither a name nor a file.
    pub(super) device: Option<&'a str>,
    pub(super) format: Format,
}

/// Plays the run's program and says what came out.
pub(super) fn run(request: &StepRequest<'_>) -> Result<String, Failure> {
    let device = match request.device {
        None => Device::this_cpu(),
        Some(name) => Device::by_name(name).ok_or_else(|| SimulateError::Device { name: name.to_owned() })?,
    };
    let file = request.costs.map(CostsFile::load).transpose()?;
    let (run, notices) = request.run.resolve()?;
    print_notices(&notices);
    let plan = Plan::new(run)?;
    print_remarks(&plan);
    let source = file.as_ref().map_or(Source::Analytic(&device), Source::Measured);
    let predicted = for_plan(&plan, source)?;
    let step = Step::new(&plan, &predicted)?;
    if request.format != Format::Json {
        for assumption in &predicted.assumptions {
            note(format_args!("assumed: {assumption}"));
        }
    }
    Ok(match request.format {
        Format::Text => as_text(&predicted, &step),
        Format::Json => format!("{:#}\n", as_json(&plan, &predicted, &step)),
        Format::Chrome => trace(&plan, &step),
    })
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn as_json(plan: &Plan, predicted: &Predicted, step: &Step) -> Value {
    let assumptions: Vec<String> = predicted.assumptions.iter().map(ToString::to_string).collect();
    let virtual_stages = plan.run().parallel.virtual_stages as f64;
    let in_flight =
        |rank: usize| plan.order().in_flight_until_input(PipelineRank(rank as u32)) as f64 / virtual_stages;
    json!({
        "unit": "s",
        "makespan": seconds(step.makespan_ns),
        "longest_rank_span": seconds(step.longest_rank_span_ns),
        "bubble_rate": step.bubble_rate(),
        "bubble_rate_longest_rank": step.bubble_rate_longest_rank(),
        "peak_in_flight": (0..step.ranks.len()).map(in_flight).collect::<Vec<_>>(),
        "step_overhead": seconds(step.overhead_ns),
        "step_s": step.step_s(),
        "tokens_per_s": step.tokens_per_s(),
        "costs": predicted.description,
        "assumptions": assumptions,
        "ranks": step.ranks.iter().enumerate().map(|(index, rank)| rank_json(index, rank)).collect::<Vec<_>>(),
    })
}

fn rank_json(index: usize, rank: &RankStep) -> Value {
    let bubble = rank.bubble;
    json!({
        "pipeline_rank": index,
        "span": seconds(rank.span_ns),
        "busy": seconds(rank.busy_ns),
        "bubble": {
            "dependency": seconds(bubble.dependency),
            "transfer": seconds(bubble.transfer),
            "gather": seconds(bubble.gather),
            "reduce": seconds(bubble.reduce),
            "overhead": seconds(bubble.overhead),
            "tail": seconds(bubble.tail),
        },
        "exposed_comm": seconds(rank.exposed_comm_ns()),
        "peak_bytes": rank.peak_bytes,
    })
}

fn as_text(predicted: &Predicted, step: &Step) -> String {
    let mut times = Table::new(["", "time", "bubble"]);
    times.row(["all ranks".to_owned(), nanoseconds(step.makespan_ns), percent(step.bubble_rate())]);
    times.row([
        "the longest rank alone".to_owned(),
        nanoseconds(step.longest_rank_span_ns),
        percent(step.bubble_rate_longest_rank()),
    ]);
    let total_ns = step.makespan_ns.saturating_add(step.overhead_ns);
    format!(
        "{times}\npredicted step {}, {:.0} tokens/s\ntimes: {}\n\n{}",
        nanoseconds(total_ns),
        step.tokens_per_s(),
        predicted.description,
        ranks(step)
    )
}

/// What each rank does: computing and the causes of its bubble add up to the makespan.
fn ranks(step: &Step) -> Table {
    let header = [
        "pipeline rank",
        "computes",
        "other stages",
        "transfers",
        "gathers",
        "reductions",
        "issue, landing",
        "end of step",
        "exposed",
        "peak memory",
    ];
    let mut table = Table::new(header);
    for (index, rank) in step.ranks.iter().enumerate() {
        let bubble = rank.bubble;
        let times = [
            rank.busy_ns,
            bubble.dependency,
            bubble.transfer,
            bubble.gather,
            bubble.reduce,
            bubble.overhead,
            bubble.tail,
            rank.exposed_comm_ns(),
        ];
        let cells = std::iter::once(index.to_string()).chain(times.map(nanoseconds));
        table.row(cells.chain([bytes(rank.peak_bytes)]));
    }
    table
}
