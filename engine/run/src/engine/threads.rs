//! Whether the system lets a process have as many threads as its ranks need, before any is started.
//!
//! A thread whose stack cannot be mapped ends the process as it begins, so starting them one by one proves nothing.

use std::fs;

use pipezero_plan::Plan;

use super::error::EngineError;

/// Mappings of memory that a thread needs: its stack and that of its signal handlers, each with a guard page.
const MAPPINGS_PER_THREAD: usize = 4;

/// Refuses a plan of which so many ranks are to be threads of this process, where the system allows fewer.
///
/// # Errors
/// [`EngineError::Threads`].
pub(super) fn check(plan: &Plan, num_ranks: usize, max: Option<usize>) -> Result<(), EngineError> {
    let threads_per_rank = of_rank(plan);
    match max {
        Some(max) if num_ranks.saturating_mul(threads_per_rank) > max => {
            Err(EngineError::Threads { num_ranks, threads_per_rank, max })
        }
        _ => Ok(()),
    }
}

/// Threads of a rank: one that takes commands, and those that compute.
pub(super) fn of_rank(plan: &Plan) -> usize {
    1 + plan.run().threads
}

/// Threads that this process may have: a quarter of its mappings is left for buffers and files. `None` where the system does not say
/// (any but Linux).
pub(super) fn max_threads() -> Option<usize> {
    let max_mappings: usize = fs::read_to_string("/proc/sys/vm/max_map_count").ok()?.trim().parse().ok()?;
    Some(max_mappings / MAPPINGS_PER_THREAD / 4 * 3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipezero_config::{Resources, RunFile};

    #[test]
    fn a_rank_has_a_thread_beside_those_that_compute() {
        let text = r#"{"model": {"family": "mlp", "num_layers": 1, "hidden_size": 4, "seq_length": 4},
            "data": {"text": "a.txt"}, "steps": 1, "train_batch_size": 8, "parallel": {"data": 8}, "threads": 2}"#;
        let file = RunFile::parse("run.json", text).expect("JSON");
        let (plan, _) = Plan::from_file(&file, Resources::this_host()).expect("a plan");
        assert!(check(&plan, 8, Some(24)).is_ok() && check(&plan, 8, None).is_ok());
        let error = check(&plan, 8, Some(23)).unwrap_err();
        assert!(matches!(error, EngineError::Threads { num_ranks: 8, threads_per_rank: 3, max: 23 }));
    }
}
