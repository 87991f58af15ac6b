//! A simulated step as a trace or a picture.

use pipezero_schedule::render::{Gantt, Shown, TimeScale, Track};
use pipezero_schedule::simulate::MemoryError;

use super::result_file;
use crate::plan::what_if::{Simulation, memory_curves};

/// The name of a simulated step in a trace.
const PREDICTED: &str = "predicted";

/// The step as a trace: of every data rank if they were simulated one by one.
pub(super) fn trace(simulation: &Simulation<'_>) -> String {
    let program = simulation.plan().training();
    let Some(changed) = simulation.changed() else {
        let timeline = &simulation.step().timeline;
        return result_file::chrome(&[Track { name: PREDICTED, data_rank: None, program, timeline }]);
    };
    let steps = changed.step.by_data_rank().iter().zip(0..);
    let tracks = steps.map(|(step, data_rank)| Track {
        name: PREDICTED,
        data_rank: Some(data_rank),
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
