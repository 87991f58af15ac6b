//! Steps of the real executor, recorded, and which of them are typical.

use super::{ProfileError, ProfileOptions, Profiler, Watched};
use crate::run::engine::Engine;

/// Steps that may be left out (fp16 is searching for its loss scale) before there is nothing to measure.
const NUM_SKIPPED_MAX: u64 = 40;

/// Runs an engine of the profiler's plan and records its steps, after some that warm caches and memory up.
pub(super) fn record(
    profiler: &mut Profiler<'_>,
    engine: &mut Engine,
    options: ProfileOptions,
    watch: &mut dyn FnMut(Watched),
) -> Result<(), ProfileError> {
    let num_steps = options.num_warm_up_steps.saturating_add(options.num_steps);
    let (mut num_done, mut num_skipped) = (0, 0);
    while num_done < num_steps {
        let report = engine.train_batch()?;
        if report.skipped {
            // Its optimizer did nothing.
            num_skipped += 1;
            if num_skipped > NUM_SKIPPED_MAX {
                return Err(ProfileError::Skipped { num_skipped, num_done });
            }
            continue;
        }
        num_done += 1;
        if num_done > options.num_warm_up_steps {
            profiler.add(&report);
        }
        watch(Watched { num_done, num_steps, step_s: report.step_s });
    }
    Ok(())
}

/// The middle half of some steps by what they took, none of fewer than four left out; of rounds of a probe likewise.
///
/// A machine now and then does something else; the steps that it hits say nothing of the run. Of the steps that remain,
/// means are taken, not medians: what a step takes is a *sum* of what its instructions take, and only means add up to it.
/// The median of delays that are mostly short and sometimes long (a thread that is woken late) is well below their mean.
pub(super) fn typical<T>(mut steps: Vec<T>, took_ns: impl Fn(&T) -> u64) -> Vec<T> {
    steps.sort_by_cached_key(took_ns);
    let num_left_out = steps.len() / 4;
    steps.drain(steps.len() - num_left_out..);
    steps.drain(..num_left_out);
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_and_the_slowest_quarter_are_left_out() {
        let kept = |steps: &[u64]| typical(steps.to_vec(), |&step_ns| step_ns);
        assert_eq!(kept(&[7]), [7]);
        assert_eq!(kept(&[9, 7, 8]), [7, 8, 9]);
        assert_eq!(kept(&[900, 7, 8, 1]), [7, 8]);
        assert_eq!(kept(&[5, 4, 3, 2, 1, 10, 9, 8, 7, 6]), [3, 4, 5, 6, 7, 8]);
    }
}
