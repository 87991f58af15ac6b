//! Which combinations of ZeRO and pipeline the run file alone shows to be wrong or wasteful.
//!
//! What depends on how layers are split into stages and units is decided by the plan.

use crate::error::Problem;
use crate::raw::RawRun;
use crate::refusal::Refusal;
use crate::resolved::{
    BatchConfig, ModelConfig, ParallelConfig, PartitionConfig, Purpose, ReductionPolicy, ResidencyConfig,
    ShardingConfig, ZeroConfig, ZeroLevel,
};
use crate::schedule_name::ScheduleName;
use crate::words::ScheduleWord;

/// The parts of a run that these rules are about, each as far as it is known.
pub(super) struct Parts<'a> {
    pub(super) grid: Option<&'a ParallelConfig>,
    pub(super) batch: Option<BatchConfig>,
    pub(super) zero: Option<&'a ZeroConfig>,
    pub(super) model: Option<&'a ModelConfig>,
}

pub(super) fn check(raw: &RawRun, purpose: Purpose, parts: Parts<'_>) {
    let trains = purpose == Purpose::Training;
    if let Some(pipeline) = pipeline_of_zero_2(raw).filter(|_| trains) {
        refuse_zero2(raw, pipeline, parts.batch.map(|batch| batch.num_micro_batches));
    }
    let (Some(grid), Some(zero)) = (parts.grid, parts.zero) else { return };
    match parts.model {
        // It is about reductions.
        _ if grid.data > 1 && trains => warn_of_all_resident(raw, zero),
        Some(model) if grid.data == 1 => warn_of_nothing_to_shard(raw, zero, model),
        _ => {}
    }
}

/// The pipeline degree of a run that asks for ZeRO-2 in a pipeline, which is refused.
pub(super) fn pipeline_of_zero_2(raw: &RawRun) -> Option<usize> {
    let is_zero_2 = raw.zero_optimization.stage.or(0) == Some(2);
    raw.parallel.pipeline.or(1).filter(|&pipeline| is_zero_2 && pipeline > 1)
}

/// ZeRO-2 with a pipeline. The plan adds what it would cost in this run.
fn refuse_zero2(raw: &RawRun, pipeline: usize, num_micro_batches: Option<usize>) {
    let reason = match num_micro_batches {
        Some(1) => {
            "with one micro-batch the ranks of a pipeline compute one after the other, and with more, gradients would either accumulate unsharded over \
             them, which is ZeRO-1's memory, or be reduced after every one, which is ZeRO-3's reductions without freeing weights"
        }
        _ => {
            "gradients would either accumulate unsharded over the micro-batches, which is ZeRO-1's memory, or be \
             reduced after every one of them, which is ZeRO-3's reductions without freeing weights"
        }
    };
    let refusal = Refusal {
        headline: format!(
            "ZeRO-2 is incompatible with pipeline parallelism (`parallel.pipeline` is {pipeline})"
        ),
        reason: reason.to_owned(),
        repairs: vec![
            "\"stage\": 1".to_owned(),
            "\"stage\": 3 with units smaller than a stage".to_owned(),
            without_pipeline(raw),
        ],
        table: None,
    };
    raw.zero_optimization.stage.site.error::<()>(Problem::Refused(Box::new(refusal)));
}

/// What to write for a run without a pipeline: a list of stages, or an order of compute, is for the ranks that there are now.
fn without_pipeline(raw: &RawRun) -> String {
    let is_listed =
        matches!(raw.parallel.partition.or(PartitionConfig::Balanced), Some(PartitionConfig::Manual(_)));
    let default = ScheduleName::Word(ScheduleWord::OneFOneB);
    let is_file = matches!(raw.parallel.schedule.or(default), Some(ScheduleName::File(_)));
    let partition = if is_listed { ", \"partition\": \"balanced\"" } else { "" };
    let schedule = if is_file { ", \"schedule\": \"1f1b\"" } else { "" };
    format!("\"pipeline\": 1{partition}{schedule}")
}

/// Warns of ZeRO-3 that never reshards.
fn warn_of_all_resident(raw: &RawRun, zero: &ZeroConfig) {
    // By a list some units may be whole, which are gathered and reduced once.
    let is_sharded = zero.sharding == ShardingConfig::SHARDED;
    if zero.level != ZeroLevel::Zero3 || zero.resident_units != ResidencyConfig::All || !is_sharded {
        return;
    }
    let message = match zero.reduce {
        ReductionPolicy::Every => {
            "every unit stays gathered all step, and gradients are reduced after every micro-batch: that is the \
             weights of no sharding with the reductions of ZeRO-3; ZeRO-1 reduces once"
        }
        ReductionPolicy::Last => {
            "every unit stays gathered all step, and gradients are reduced once: that is ZeRO-1 with its gathers \
             before the step instead of after it, and a second copy of each shard"
        }
    };
    raw.zero_optimization.resident_units.site.warn(message);
}

/// Sharding over one data rank shards nothing.
fn warn_of_nothing_to_shard(raw: &RawRun, zero: &ZeroConfig, model: &ModelConfig) {
    if zero.level == ZeroLevel::Zero0 {
        return;
    }
    let message = format!(
        "the data degree is 1, so ZeRO-{} has nothing left to shard: all {} parameters stay whole",
        zero.level as u8,
        model.num_parameters(),
    );
    raw.zero_optimization.stage.site.warn(message);
}
