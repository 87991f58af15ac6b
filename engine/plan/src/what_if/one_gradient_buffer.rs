//! The time that one gradient buffer instead of two costs a step.

use super::simulation::Simulation;
use super::simulation_error::SimulationError;
use crate::costs::Source;
use crate::{Bytes, Plan};

/// A hint for a plan with one gradient buffer on each rank: the simulated step and the memory of the fullest rank, with one buffer and with two. `None` for
/// any other plan, and for one that is too long to be planned twice.
///
/// # Errors
/// [`SimulationError`].
pub fn one_gradient_buffer(plan: &Plan, source: Source<'_>) -> Result<Option<String>, SimulationError> {
    if plan.num_instructions() > Plan::COMPARED_INSTRUCTIONS_MAX {
        return Ok(None);
    }
    // Whatever `memory` says, the same cut with larger buffers is a plan as a rule.
    let overlapped = match plan.overlapped() {
        Ok(Some(overlapped)) => overlapped,
        Ok(None) => return Ok(None),
        Err(error) => {
            let text = format!(
                "hint: `zero_optimization.overlap_comm` is false; what that costs in time is not known, since the run with two gradient buffers \
                 has no plan: {error}"
            );
            return Ok(Some(text));
        }
    };
    let step_s = |plan| Ok(Simulation::new(plan, source, None)?.step().step_s());
    let (one_s, two_s) = (step_s(plan)?, step_s(&overlapped)?);
    let [one, two] = Bytes(plan.needs().rank_bytes).distinct(Bytes(overlapped.needs().rank_bytes));
    let percent = if two_s > 0.0 { 100.0 * (one_s / two_s - 1.0) } else { 0.0 };
    Ok(Some(format!(
        "hint: `zero_optimization.overlap_comm` is false: a step takes {one_s:.4} s and the fullest rank needs {one}; with two gradient \
         buffers {two_s:.4} s and {two}, so that the one buffer costs {percent:.1}% of time"
    )))
}
