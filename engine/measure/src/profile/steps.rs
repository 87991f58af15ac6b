//! Steps of the real executor, recorded.

use pipezero_run::engine::Engine;

use super::options::ProfileOptions;
use super::{ProfileError, Profiler, Watched};

/// Steps that may be left out (fp16 is searching for its loss scale) before there is nothing to measure.
const NUM_SKIPPED_MAX: u64 = 40;

/// Runs an engine and records its steps, after some that warm caches and memory up. The process of rank 0 has a profiler for them.
pub(super) fn record(
    mut profiler: Option<&mut Profiler<'_>>,
    engine: &mut Engine,
    options: ProfileOptions,
    watch: &mut dyn FnMut(Watched),
) -> Result<(), ProfileError> {
    let num_steps = options.num_warm_up_steps.saturating_add(options.num_steps);
    let (mut num_done, mut num_skipped) = (0, 0);
    while num_done < num_steps {
        let report = engine.train_batch_recorded()?;
        if report.skipped {
            // Its optimizer did nothing.
            num_skipped += 1;
            if num_skipped > NUM_SKIPPED_MAX {
                return Err(ProfileError::Skipped { num_skipped, num_done });
            }
            continue;
        }
        num_done += 1;
        if let Some(profiler) = profiler.as_mut().filter(|_| num_done > options.num_warm_up_steps) {
            profiler.add(&report)?;
        }
        watch(Watched { num_done, num_steps, step_s: report.step_s });
    }
    Ok(())
}
