//! Steps of the real executor, recorded, and which of them are typical.

use pipezero_schedule::PipelineRank;

use super::instants::{self, Instants};
use super::{ProfileError, ProfileOptions, Profiler, Watched};
use crate::plan::Plan;
use crate::run::engine::{Engine, StepReport};

/// Steps that may be left out (fp16 is searching for its loss scale) before there is nothing to measure.
const NUM_SKIPPED_MAX: u64 = 40;

/// One recorded step.
#[derive(Clone, Debug)]
pub(super) struct RecordedStep {
    /// `[world rank][index]`
    pub(super) rows: Vec<Vec<Instants>>,
    /// What the step took, with what lies around the program.
    pub(super) step_ns: u64,
}

impl RecordedStep {
    pub(super) fn new(plan: &Plan, report: &StepReport) -> Self {
        let grid = plan.grid();
        let row = |rank| {
            let pipeline_rank = PipelineRank(grid.pipeline_rank(rank) as u32);
            instants::of_row(report.events(rank), plan.training().row(pipeline_rank).len())
        };
        Self {
            rows: (0..grid.world_size()).map(row).collect(),
            step_ns: (report.step_s * 1e9).round() as u64,
        }
    }

    /// From the first rank's first instruction to the last rank's last.
    pub(super) fn makespan(&self) -> u64 {
        instants::makespan(&self.rows)
    }
}

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
        let kept = |steps: &[u64]| {
            let step = |&step_ns: &u64| RecordedStep { rows: Vec::new(), step_ns };
            let kept = typical(steps.iter().map(step).collect(), |step| step.step_ns);
            kept.iter().map(|step| step.step_ns).collect::<Vec<_>>()
        };
        assert_eq!(kept(&[7]), [7]);
        assert_eq!(kept(&[9, 7, 8]), [7, 8, 9]);
        assert_eq!(kept(&[900, 7, 8, 1]), [7, 8]);
        assert_eq!(kept(&[5, 4, 3, 2, 1, 10, 9, 8, 7, 6]), [3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn a_makespan_is_of_all_ranks() {
        let row = |started, ended| vec![Instants { started, ended, ..Instants::default() }];
        let step = RecordedStep { rows: vec![row(20, 30), row(10, 15), row(12, 40)], step_ns: 0 };
        assert_eq!(step.makespan(), 30);
    }
}
