//! What a combination costs: a row of the table beside a refusal.

use pipezero_config::{CombinationRow, PartitionConfig, ReductionPolicy, Run, ScheduleConfig, ZeroLevel};

use crate::RankForecast;

/// The rank with most of what sharding is about.
pub(super) fn row(name: String, ranks: &[RankForecast]) -> CombinationRow {
    let held = |rank: &&RankForecast| {
        let memory = &rank.memory;
        memory.parameters + memory.gathered + memory.gradients + memory.optimizer
    };
    let fullest = ranks.iter().max_by_key(held).expect("a grid has ranks");
    let (memory, traffic) = (&fullest.memory, &fullest.traffic);
    CombinationRow {
        name,
        parameters_bytes: memory.parameters.into(),
        gathered_bytes: memory.gathered.into(),
        gradients_bytes: memory.gradients.into(),
        optimizer_bytes: memory.optimizer.into(),
        sent_bytes: u128::from(traffic.all_gather.bytes) + u128::from(traffic.reduce_scatter.bytes),
    }
}

/// ZeRO-2 on as many ranks, all of them data ranks, each with its part of the step's micro-batches.
pub(super) fn without_pipeline(run: &mut Run) {
    let pipeline = std::mem::replace(&mut run.parallel.pipeline, 1);
    run.parallel.data *= pipeline;
    run.parallel.schedule = ScheduleConfig::OneFOneB;
    run.parallel.virtual_stages = 1;
    run.parallel.partition = PartitionConfig::Uniform;
    run.batch.num_micro_batches = run.batch.num_micro_batches.div_ceil(pipeline);
    run.batch.train_batch_size = run.batch.micro_batch_size * run.batch.num_micro_batches * run.parallel.data;
    run.zero.level = ZeroLevel::Zero2;
    run.zero.reduce = ReductionPolicy::Every;
}

/// ZeRO-1 on the same grid.
pub(crate) fn as_zero_1(run: &mut Run) {
    run.zero.level = ZeroLevel::Zero1;
    run.zero.reduce = ReductionPolicy::Last;
}
