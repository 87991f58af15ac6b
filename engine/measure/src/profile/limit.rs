//! How many steps can be recorded: what happens in them is kept in memory until the last has ended.

use pipezero_plan::{Bytes, Plan};
use pipezero_run::executor::RecordedEvent;

use crate::recording::Times;

/// More steps than fit into memory.
#[derive(Debug, thiserror::Error)]
#[error(
    "--steps {num_steps}: what happens in them is kept until the last has ended, up to {}, and {} of memory are left; record \
     {fitting} or fewer",
    Bytes(u64::try_from(*needed).unwrap_or(u64::MAX)),
    Bytes(*available)
)]
pub struct TooManySteps {
    /// Steps to record.
    pub num_steps: u64,
    /// Bytes that they need.
    pub needed: u128,
    /// Bytes that are left.
    pub available: u64,
    /// Steps that would fit.
    pub fitting: u128,
}

/// Whether what is kept of so many steps fits into memory, where the system says how many bytes are left.
///
/// # Errors
/// [`TooManySteps`] if it does not.
pub fn check_steps(plan: &Plan, num_steps: u64, available: Option<u64>) -> Result<(), TooManySteps> {
    let needed = kept_bytes(plan, num_steps);
    match available {
        Some(available) if needed > u128::from(available) => {
            let [of_none, of_one] = [0, 1].map(|num_steps| kept_bytes(plan, num_steps));
            let fitting = u128::from(available).saturating_sub(of_none) / (of_one - of_none).max(1);
            Err(TooManySteps { num_steps, needed, available, fitting })
        }
        _ => Ok(()),
    }
}

/// Bytes in memory when so many steps of a plan have been recorded: the times of every instruction of every world rank, and
/// beside them the events of the last step, five of an instruction at most.
fn kept_bytes(plan: &Plan, num_steps: u64) -> u128 {
    let times = u128::from(num_steps).saturating_mul(size_of::<Times>() as u128);
    (plan.num_instructions_of_world() as u128)
        .saturating_mul(times.saturating_add(5 * size_of::<RecordedEvent>() as u128))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::testing::planned;

    #[test]
    fn steps_are_recorded_as_far_as_they_fit() {
        let plan = planned("");
        let num_instructions: usize = plan.training().program().rows.iter().map(Vec::len).sum();
        // Five times of eight bytes each, on both data ranks; and the last step's events, of 24 bytes each.
        let (step_bytes, events_bytes) =
            (2 * 40 * num_instructions as u64, 2 * 5 * 24 * num_instructions as u64);
        assert!(check_steps(&plan, 12, Some(12 * step_bytes + events_bytes)).is_ok());
        assert!(check_steps(&plan, u64::MAX, None).is_ok());
        let available = 13 * step_bytes + events_bytes - 1;
        let error = check_steps(&plan, 13, Some(available)).unwrap_err();
        assert_eq!(
            (error.needed, error.available, error.fitting),
            (u128::from(available) + 1, available, 12)
        );
        assert!(check_steps(&plan, u64::MAX, Some(u64::MAX)).is_err());
    }
}
