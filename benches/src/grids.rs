//! The grids that steps are measured on, from one rank to a pipeline with sharded parameters.

use pipezero_config::{ReductionPolicy, Run, ZeroLevel};

/// A grid by the name that the command line knows it by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// The name.
    pub name: &'static str,
    /// Pipeline degree.
    pub pipeline: usize,
    /// Data degree.
    pub data: usize,
    /// What is sharded.
    pub level: ZeroLevel,
    /// Threads of a rank. One rank has two of them, so that it works on as many cores as the other grids.
    pub threads: usize,
}

/// Every grid.
pub const GRIDS: [Grid; 4] = [
    Grid { name: "one-rank", pipeline: 1, data: 1, level: ZeroLevel::Zero0, threads: 2 },
    Grid { name: "pp2", pipeline: 2, data: 1, level: ZeroLevel::Zero0, threads: 1 },
    Grid { name: "dp2-zero3", pipeline: 1, data: 2, level: ZeroLevel::Zero3, threads: 1 },
    Grid { name: "pp2-dp2-zero3", pipeline: 2, data: 2, level: ZeroLevel::Zero3, threads: 1 },
];

impl Grid {
    /// `run` on this grid: the same samples in a step, in micro-batches of the same size dealt out over the data ranks.
    ///
    /// # Panics
    /// If `run` has fewer samples than a micro-batch for every data rank.
    pub fn adapt(&self, mut run: Run) -> Run {
        run.parallel.pipeline = self.pipeline;
        run.parallel.data = self.data;
        let batch = &mut run.batch;
        batch.num_micro_batches = batch.train_batch_size / (batch.micro_batch_size * self.data);
        assert!(
            batch.num_micro_batches > 0,
            "{} samples are too few for {}",
            batch.train_batch_size,
            self.name
        );
        run.zero.level = self.level;
        run.zero.reduce = reduction(self.level);
        run.threads = self.threads;
        run
    }
}

/// When gradients are reduced: after every micro-batch where they are sharded, else once in a step.
pub fn reduction(level: ZeroLevel) -> ReductionPolicy {
    if level >= ZeroLevel::Zero2 { ReductionPolicy::Every } else { ReductionPolicy::Last }
}
