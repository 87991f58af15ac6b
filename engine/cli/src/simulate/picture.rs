//! A simulated step as a trace or a picture.

use pipezero_plan::what_if::{Simulation, memory_curves};
use pipezero_schedule::render::{Gantt, Shown, TimeScale, Track};
use pipezero_schedule::simulate::MemoryError;

use super::result_file;

/// The step as a trace: of every data rank if they were simulated one by one.
pub(super) fn trace(simulation: &Simulation<'_>) -> String {
    let program = simulation.plan().training();
    let changed = simulation.changed();
    let steps =
        changed.map_or(std::slice::from_ref(simulation.step()), |changed| changed.step.by_data_rank());
    let tracks = steps.iter().zip(0..).map(|(step, data_rank)| Track {
        name: "predicted",
        data_rank: changed.map(|_| data_rank),
        program,
        timeline: &step.timeline,
    });
    result_file::chrome(&tracks.collect::<Vec<_>>())
}

/// The step as a picture.
pub(super) fn picture(simulation: &Simulation<'_>, title: &str) -> Result<String, MemoryError> {
    let (plan, step) = (simulation.plan(), simulation.step());
    Ok(result_file::svg(&Gantt {
        title,
        program: plan.training(),
        timeline: &step.timeline,
        memory: &memory_curves(plan, step)?,
        scale: TimeScale::nanoseconds(step.makespan_ns),
        shown: Shown::WholeStep,
    }))
}
