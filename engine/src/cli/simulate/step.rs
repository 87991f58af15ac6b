//! `pipezero simulate RUN.json`: a step of the run's own program, with measured or calculated times.

use std::path::Path;

use pipezero_schedule::PipelineRank;
use pipezero_schedule::render::{TimeScale, explain, time_grid};
use pipezero_schedule::simulate::{CriticalPath, MemoryCurve, MemoryError, PathStep, Why, critical_path};
use serde_json::{Value, json};

use super::SimulateError;
use super::picture::{Format, curves, picture, trace};
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
    /// Whether to say what the step's time is made of.
    pub(super) explain: Explain,
    /// Columns that the grid may take.
    pub(super) width: usize,
}

/// Whether the critical path is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Explain {
    /// It is.
    CriticalPath,
    /// It is not.
    Nothing,
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
    let found = Found { plan: &plan, predicted: &predicted, step: &step };
    Ok(match request.format {
        Format::Text => found.as_text(request),
        Format::Json => format!("{:#}\n", found.as_json(request.explain)?),
        Format::Svg => {
            let title = request.run.run.display().to_string();
            picture(&plan, &step, &title)?
        }
        Format::Chrome => trace(&plan, &step),
    })
}

/// What came out, and of what.
struct Found<'a> {
    plan: &'a Plan,
    predicted: &'a Predicted,
    step: &'a Step,
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

impl Found<'_> {
    fn critical_path(&self) -> CriticalPath {
        critical_path(self.plan.training(), &self.predicted.costs, &self.step.timeline)
    }

    fn as_json(&self, explain: Explain) -> Result<Value, MemoryError> {
        let &Self { plan, predicted, step } = self;
        let assumptions: Vec<String> = predicted.assumptions.iter().map(ToString::to_string).collect();
        let virtual_stages = plan.run().parallel.virtual_stages as f64;
        let in_flight = |rank: usize| {
            plan.order().in_flight_until_input(PipelineRank(rank as u32)) as f64 / virtual_stages
        };
        let curves = curves(plan, step)?;
        let ranks = step.ranks.iter().zip(&curves).enumerate();
        let mut found = json!({
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
            "ranks": ranks.map(|(index, (rank, curve))| rank_json(index, rank, curve)).collect::<Vec<_>>(),
        });
        if explain == Explain::CriticalPath {
            found["critical_path"] = self.path_json();
        }
        Ok(found)
    }

    /// What the makespan is made of: parts end to end.
    fn path_json(&self) -> Value {
        let program = self.plan.training();
        let part = |step: &PathStep| {
            json!({
                "pipeline_rank": step.rank.index(),
                "index": step.index,
                "instruction": program.row(step.rank)[step.index].to_string(),
                "start": seconds(step.start),
                "end": seconds(step.end),
                "waited_for": waited_for(step.why),
            })
        };
        self.critical_path().steps().iter().map(part).collect()
    }

    fn as_text(&self, request: &StepRequest<'_>) -> String {
        let &Self { plan, predicted, step } = self;
        let mut times = Table::new(["", "time", "bubble"]);
        times.row(["all ranks".to_owned(), nanoseconds(step.makespan_ns), percent(step.bubble_rate())]);
        times.row([
            "the longest rank alone".to_owned(),
            nanoseconds(step.longest_rank_span_ns),
            percent(step.bubble_rate_longest_rank()),
        ]);
        let (program, scale) = (plan.training(), TimeScale::nanoseconds(step.makespan_ns));
        let mut text = format!(
            "{times}\npredicted step {}, {:.0} tokens/s\ntimes: {}\n\n{}\n{}",
            nanoseconds(step.makespan_ns.saturating_add(step.overhead_ns)),
            step.tokens_per_s(),
            predicted.description,
            ranks(step),
            time_grid(program, &step.timeline, request.width, scale),
        );
        if request.explain == Explain::CriticalPath {
            text += &format!("\n{}", explain(program, &self.critical_path(), scale));
        }
        text
    }
}

/// What a part of the critical path waited for, in a word.
fn waited_for(why: Why) -> &'static str {
    match why {
        Why::Beginning => "nothing",
        Why::ComputeLane => "compute lane",
        Why::Dependency => "dependency",
        Why::Message => "message",
        Why::OtherEnd => "other end",
        Why::LinkBusy => "link",
        Why::Meeting => "last rank",
        Why::Overhead => "own time for messages",
    }
}

fn rank_json(index: usize, rank: &RankStep, curve: &MemoryCurve) -> Value {
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
        "peak_used_bytes": curve.peak().1.total(),
    })
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
