//! `pipezero simulate RUN.json`: a step of the run's own program, with measured or calculated times.

use std::borrow::Cow;
use std::path::Path;

use pipezero_models::ElementType;
use pipezero_schedule::PipelineRank;
use pipezero_schedule::render::{TimeScale, explain, time_grid};
use pipezero_schedule::simulate::cluster::Computes;
use pipezero_schedule::simulate::{CriticalPath, MemoryError, critical_path};
use serde_json::{Value, json};

use super::SimulateError;
use super::path::path_json;
use super::picture::{Format, curves, picture, trace};
use super::ranks::{pipeline_ranks, rank_json, world_ranks};
use super::result_file;
use super::what_if::WhatIf;
use super::world::Played;
use crate::cli::failure::{Failure, OfCostsFile};
use crate::cli::output::note;
use crate::cli::run_args::RunArgs;
use crate::cli::table::Table;
use crate::cli::units::{bytes, nanoseconds, percent};
use crate::plan::Plan;
use crate::plan::costs::{CostsFile, Device, Predicted, Source, Step, for_plan};

/// A run, and where its times come from.
#[derive(Debug)]
pub(super) struct StepRequest<'a> {
    pub(super) run: RunArgs,
    pub(super) costs: Option<&'a Path>,
    /// A device's name; this host's CPU where there is neither a name nor a file.
    pub(super) device: Option<&'a str>,
    /// How ranks differ and what they share; they are alike where nothing of it was given.
    pub(super) what_if: &'a WhatIf,
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
    let mut device = match request.device {
        None => Device::this_cpu(),
        Some(name) => Device::by_name(name).ok_or_else(|| SimulateError::Device { name: name.to_owned() })?,
    };
    let file = request.costs.map(CostsFile::load).transpose()?;
    // Timed layers imitate a device, and a GPU is one: computes are no work of the host's cores.
    let is_gpu = file.is_none() && device.cores.is_none();
    if request.what_if.shares_cores() {
        // The world shares them out by the moment; these are the rates of a core that nobody shares.
        device.cores = None;
    }
    let plan = request.run.plan()?;
    let source = file.as_ref().map_or(Source::Analytic(&device), Source::Measured);
    let predicted = match (for_plan(&plan, source), request.costs) {
        (Err(source), Some(path)) => return Err(OfCostsFile { path: path.to_owned(), source }.into()),
        (predicted, _) => predicted?,
    };
    let is_timed = plan.run().model.facts().given_times.is_some();
    if is_gpu {
        warn_of_device(&plan, &device);
    }
    let computes = if is_gpu || is_timed { Computes::Elsewhere } else { Computes::OccupyCores };
    let played = match request.what_if.first() {
        None => None,
        Some(_) => Some(Played::new(&plan, &predicted, request.what_if, computes)?),
    };
    let step = match &played {
        None => Cow::Owned(Step::new(&plan, &predicted)?),
        Some(played) => Cow::Borrowed(played.step.slowest()),
    };
    if request.format != Format::Json {
        for assumption in &predicted.assumptions {
            note(format_args!("assumed: {assumption}"));
        }
    }
    let found = Found { plan: &plan, predicted: &predicted, step: &step, played: played.as_ref() };
    Ok(match request.format {
        Format::Text => found.as_text(request),
        Format::Json => result_file::json(found.as_json(request.explain)?),
        Format::Svg => {
            let run = request.run.run.display();
            let of = played.as_ref().map_or_else(String::new, |played| format!(", {}", played.shown()));
            let (time, bubble) = (nanoseconds(step.step_ns()), percent(found.bubble_rate()));
            picture(&plan, &step, &format!("{run}{of}: step {time}, {bubble} bubble"))?
        }
        Format::Chrome => played.as_ref().map_or_else(|| trace(&plan, &step), |of| of.trace(&plan)),
    })
}

/// What somebody who asked for a GPU may not have meant.
fn warn_of_device(plan: &Plan, device: &Device) {
    if plan.element_type() == ElementType::F32 && plan.run().model.learns() {
        note(
            "warning: the run computes in f32, which is what \"auto\" means on this host; --set bf16.enabled=true predicts \
             what a GPU would do",
        );
    }
    let fullest = plan.forecast().into_iter().zip(0..).max_by_key(|(rank, _)| rank.memory.peak);
    if let (Some((fullest, rank)), Some(memory_bytes)) = (fullest, device.memory_bytes)
        && fullest.memory.peak > memory_bytes
    {
        note(format_args!(
            "warning: world rank {rank} needs {} and {} has {}: it does not fit; --set memory={}GiB lists changes that would",
            bytes(fullest.memory.peak),
            device.name,
            bytes(memory_bytes),
            memory_bytes >> 30,
        ));
    }
}

/// What came out, and of what.
struct Found<'a> {
    plan: &'a Plan,
    predicted: &'a Predicted,
    /// Under "what if", of the slowest data rank.
    step: &'a Step,
    played: Option<&'a Played>,
}

pub(super) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

impl Found<'_> {
    /// The share of the makespan in which ranks do not compute, mean over all of them.
    fn bubble_rate(&self) -> f64 {
        self.played.map_or_else(|| self.step.bubble_rate(), |played| played.step.bubble_rate())
    }

    fn critical_path(&self) -> CriticalPath {
        critical_path(self.plan.training(), &self.predicted.costs, &self.step.timeline)
    }

    fn as_json(&self, explain: Explain) -> Result<Value, MemoryError> {
        let &Self { plan, predicted, step, played } = self;
        let assumptions: Vec<String> = predicted.assumptions.iter().map(ToString::to_string).collect();
        let virtual_stages = plan.run().parallel.virtual_stages as f64;
        let in_flight = |rank: usize| {
            plan.order().in_flight_until_input(PipelineRank(rank as u32)) as f64 / virtual_stages
        };
        let curves = curves(plan, step)?;
        let ranks = step.ranks.iter().zip(&curves).enumerate();
        let mut found = json!({
            "makespan_s": seconds(step.makespan_ns),
            "longest_rank_span_s": seconds(step.longest_rank_span_ns),
            "bubble_rate": self.bubble_rate(),
            "bubble_rate_longest_rank": step.bubble_rate_longest_rank(),
            "peak_in_flight": (0..step.ranks.len()).map(in_flight).collect::<Vec<_>>(),
            "straggling_s": seconds(step.straggling_ns),
            "step_overhead_s": seconds(step.overhead_ns),
            "step_s": step.step_s(),
            "tokens_per_s": step.tokens_per_s(),
            "costs": predicted.description,
            "assumptions": assumptions,
            "ranks": ranks.map(|(index, (rank, curve))| rank_json(index, rank, curve)).collect::<Vec<_>>(),
        });
        if explain == Explain::CriticalPath {
            found["critical_path"] = path_json(plan.training(), &self.critical_path(), "_s", seconds);
        }
        if let Some(played) = played {
            found["what_if"] = played.what_if_json();
            found["world_ranks"] = played.ranks_json(plan)?;
        }
        Ok(found)
    }

    fn as_text(&self, request: &StepRequest<'_>) -> String {
        let &Self { plan, predicted, step, played } = self;
        let mut times = Table::new(["", "time", "bubble"]);
        times.row(["all ranks".to_owned(), nanoseconds(step.makespan_ns), percent(self.bubble_rate())]);
        times.row([
            "the longest rank alone".to_owned(),
            nanoseconds(step.longest_rank_span_ns),
            percent(step.bubble_rate_longest_rank()),
        ]);
        let (program, scale) = (plan.training(), TimeScale::nanoseconds(step.makespan_ns));
        let mut text = format!(
            "{times}\npredicted step {}, {:.0} tokens/s{}\ntimes: {}\n{}\n{}\n{}{}",
            nanoseconds(step.step_ns()),
            step.tokens_per_s(),
            beyond_program(step),
            predicted.description,
            played.map_or_else(String::new, Played::summary),
            played.map_or_else(|| pipeline_ranks(step).to_string(), |played| world_ranks(&played.step)),
            played.map_or_else(String::new, |played| format!("{}:\n", played.shown())),
            time_grid(program, &step.timeline, request.width, scale),
        );
        if request.explain == Explain::CriticalPath {
            text += &format!("\n{}", explain(program, &self.critical_path(), scale));
        }
        text
    }
}

/// What the step takes that its timeline does not show, as it was measured.
fn beyond_program(step: &Step) -> String {
    let named = [("waits for slow ranks", step.straggling_ns), ("beside its program", step.overhead_ns)];
    let parts: Vec<String> = named
        .into_iter()
        .filter(|&(_, ns)| ns > 0)
        .map(|(name, ns)| format!("{} {name}", nanoseconds(ns)))
        .collect();
    if parts.is_empty() { String::new() } else { format!("\n         of it {}", parts.join(", ")) }
}
