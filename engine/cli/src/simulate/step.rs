//! `pipezero simulate RUN.json`: a step of the run's own program, with measured or calculated times.

use std::path::Path;

use pipezero_plan::Plan;
use pipezero_plan::costs::{CostsFile, DeviceSpec, Network, Source};
use pipezero_plan::what_if::{
    Simulation, SimulationError, WhatIf, device_diagnostics, memory_curves, one_gradient_buffer,
};
use pipezero_schedule::render::{TimeScale, explain, time_grid};
use pipezero_schedule::simulate::MemoryError;
use serde_json::{Value, json};

use super::cluster;
use super::critical_path::critical_path_json;
use super::error::SimulateError;
use super::output::{Format, Output};
use super::picture::{picture, trace};
use super::ranks::{pipeline_ranks, rank_json, world_ranks};
use super::result_file;
use crate::device::{device, measured};
use crate::failure::{Failure, OfCostsFile};
use crate::figures::{nanoseconds, percent, seconds};
use crate::notices::Notices;
use crate::run_args::RunArgs;
use crate::table::Table;
use crate::terminal;
use crate::utilisation;

/// A run, and where its times come from.
#[derive(Debug)]
pub(super) struct StepRequest<'a> {
    pub(super) run: RunArgs,
    pub(super) costs: Option<&'a Path>,
    /// A device's name; this host's CPU if there is neither a name nor a file.
    pub(super) device: Option<&'a str>,
    /// Ranks of a node, instead of those of the device's.
    pub(super) ranks_per_node: Option<u32>,
    /// How ranks differ and what they share; `None`: they are alike.
    pub(super) what_if: Option<WhatIf>,
    pub(super) output: Output,
}

/// Simulates a step of the run, and prints the result into a text; the notices are for its end.
pub(super) fn run(request: &StepRequest<'_>) -> Result<(String, Notices), Failure> {
    let file = request.costs.map(CostsFile::load).transpose()?;
    let (plan, mut notices) = request.run.plan_for(request.device)?;
    let device = request.device_of(&plan)?;
    let source = match (&file, &device) {
        (Some(file), _) => Source::Measured(file),
        (None, device) => Source::Analytic(device),
    };
    device_diagnostics(&plan, &device).into_iter().for_each(|diagnostic| notices.add(diagnostic));
    let simulation = match (Simulation::new(&plan, source, request.what_if.as_ref()), request.costs) {
        (Err(SimulationError::Costs(source)), Some(path)) => {
            return Err(OfCostsFile { path: path.to_owned(), source }.into());
        }
        (simulation, _) => simulation?,
    };
    one_gradient_buffer(&plan, source)?.into_iter().for_each(|hint| notices.add(hint));
    let format = request.output.format;
    if format != Format::Json {
        for assumption in &simulation.predicted().assumptions {
            notices.add(format_args!("assumed: {assumption}"));
        }
    }
    let text = match format {
        Format::Text => as_text(&simulation, request.output)?,
        Format::Json => result_file::json(as_json(&simulation, request.output)?),
        Format::Svg => picture(&simulation, &title(&simulation, &request.run.name()))?,
        Format::Chrome => trace(&simulation),
    };
    Ok((text, notices))
}

impl StepRequest<'_> {
    /// The device whose rates are used where there is no costs file.
    fn device_of(&self, plan: &Plan) -> Result<DeviceSpec, Failure> {
        let named = if self.costs.is_some() { Some("cpu") } else { self.device };
        let device = device(named, plan)?;
        let device = if self.costs.is_some() { device } else { measured(device, plan)? };
        let Some(ranks) = self.ranks_per_node else { return Ok(device) };
        if self.costs.is_some() {
            return Err(SimulateError::NodeOfCosts.into());
        }
        let comm = &plan.run().comm;
        if comm.links.is_some() || comm.ranks_per_node.is_some() {
            let key = if comm.links.is_some() { "comm.links.ranks_per_node" } else { "comm.ranks_per_node" };
            return Err(SimulateError::NodeOfRun { key, ranks }.into());
        }
        let ranks_per_node = ranks as usize;
        Ok(DeviceSpec { network: Network { ranks_per_node, ..device.network }, ..device })
    }
}

/// The title of the picture.
fn title(simulation: &Simulation<'_>, run: &str) -> String {
    let of = simulation
        .changed()
        .map_or_else(String::new, |changed| format!(", {}", cluster::shown_data_rank(changed)));
    let (time, bubble) = (nanoseconds(simulation.step().step_ns()), percent(simulation.bubble_rate()));
    format!("{run}{of}: step {time}, {bubble} bubble")
}

fn as_json(simulation: &Simulation<'_>, output: Output) -> Result<Value, MemoryError> {
    let (plan, predicted, step) = (simulation.plan(), simulation.predicted(), simulation.step());
    let assumptions: Vec<String> = predicted.assumptions.iter().map(ToString::to_string).collect();
    let curves = memory_curves(plan, step)?;
    let ranks = step.ranks.iter().zip(&curves).enumerate();
    let mut json = json!({
        "makespan_s": seconds(step.makespan_ns),
        "longest_rank_span_s": seconds(step.longest_rank_span_ns),
        "bubble_rate": simulation.bubble_rate(),
        "bubble_rate_longest_rank": step.bubble_rate_longest_rank(),
        "peak_in_flight": simulation.peak_in_flight(),
        "straggling_s": seconds(step.straggling_ns),
        "step_overhead_s": seconds(step.overhead_ns),
        "step_s": step.step_s(),
        "tokens_per_s": step.tokens_per_s(),
        "each_rank": utilisation::as_json(&simulation.utilisation()),
        "costs": predicted.description,
        "ranks_per_node": predicted.ranks_per_node,
        "assumptions": assumptions,
        "ranks": ranks.map(|(index, (rank, curve))| rank_json(index, rank, curve)).collect::<Vec<_>>(),
    });
    if output.explain {
        json["critical_path"] =
            critical_path_json(plan.training(), &simulation.critical_path(), "_s", seconds);
    }
    if let Some(changed) = simulation.changed() {
        json["what_if"] = cluster::what_if_json(changed);
        json["world_ranks"] = cluster::ranks_json(plan, changed)?;
    }
    Ok(json)
}

fn as_text(simulation: &Simulation<'_>, output: Output) -> Result<String, MemoryError> {
    let (plan, step, changed) = (simulation.plan(), simulation.step(), simulation.changed());
    let width = output.width;
    let mut times = Table::new(["", "time", "bubble"]);
    times.row("all ranks", [nanoseconds(step.makespan_ns), percent(simulation.bubble_rate())]);
    let longest = [nanoseconds(step.longest_rank_span_ns), percent(step.bubble_rate_longest_rank())];
    times.row("the longest rank alone", longest);
    let (program, scale) = (plan.training(), TimeScale::nanoseconds(step.makespan_ns));
    let mut head = utilisation::of_step(simulation);
    head += &changed.map_or_else(String::new, cluster::summary);
    let mut text = format!(
        "{times:width$}\n{}\n\n{}\n{}{}",
        terminal::wrapped_after(&head, width, HEAD_INDENT),
        match changed {
            None => format!("{:width$}", pipeline_ranks(plan, step)?),
            Some(changed) => world_ranks(plan, &changed.step, width)?,
        },
        changed.map_or_else(String::new, |changed| format!("{}:\n", cluster::shown_data_rank(changed))),
        time_grid(program, &step.timeline, width, scale),
    );
    if output.explain {
        let explained = explain(program, &simulation.critical_path(), scale);
        text += &format!("\n{}\n", terminal::wrapped_after(&explained, width, HEAD_INDENT));
    }
    Ok(text)
}

/// Columns before what continues a line of the head.
const HEAD_INDENT: usize = 4;
