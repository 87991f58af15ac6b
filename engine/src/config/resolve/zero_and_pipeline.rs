//! Which combinations of ZeRO and pipeline the run file alone shows to be wrong or wasteful.
//!
//! What depends on how layers are split into stages and units is decided by the plan.

use crate::config::error::Problem;
use crate::config::findings::Findings;
use crate::config::notice::Notice;
use crate::config::raw::RawRun;
use crate::config::refusal::Refusal;
use crate::config::resolved::{ModelConfig, ReductionPolicy, ResidencyConfig, ZeroConfig, ZeroLevel};

use super::grid::Grid;

pub(super) fn check(
    raw: &RawRun,
    grid: Option<&Grid>,
    zero: Option<&ZeroConfig>,
    model: Option<&ModelConfig>,
    findings: &mut Findings,
) {
    if let (Some(2), Some(pipeline)) = (raw.zero_optimization.stage.or(0), raw.parallel.pipeline.or(1))
        && pipeline > 1
    {
        refuse_zero2(raw, pipeline, findings);
    }
    let (Some(grid), Some(zero)) = (grid, zero) else { return };
    if grid.data > 1 {
        warn_of_all_resident(raw, zero, findings);
    } else if let Some(model) = model {
        warn_of_nothing_to_shard(raw, zero, model, findings);
    }
}

/// ZeRO-2 with a pipeline. The plan adds what it would cost in this run.
fn refuse_zero2(raw: &RawRun, pipeline: usize, findings: &mut Findings) {
    let refusal = Refusal {
        headline: format!("ZeRO-2 is incompatible with pipeline parallelism (`parallel.pipeline` is {pipeline})"),
        reason: "gradients would either accumulate unsharded over the micro-batches, which is ZeRO-1's memory, or be \
                 reduced after every one of them, which is ZeRO-3's reductions without freeing weights"
            .to_owned(),
        repairs: ["\"stage\": 1", "\"stage\": 3 with units smaller than a stage", "\"pipeline\": 1"]
            .map(str::to_owned)
            .into(),
        table: None,
    };
    findings.error(&raw.zero_optimization.stage.place, Problem::Refused(Box::new(refusal)));
}

/// Warns of ZeRO-3 that never reshards.
fn warn_of_all_resident(raw: &RawRun, zero: &ZeroConfig, findings: &mut Findings) {
    if zero.level != ZeroLevel::Zero3 || zero.resident_units != ResidencyConfig::All {
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
    findings.notices.push(Notice::warning(&raw.zero_optimization.resident_units.place, message));
}

/// Sharding over one data rank shards nothing.
fn warn_of_nothing_to_shard(raw: &RawRun, zero: &ZeroConfig, model: &ModelConfig, findings: &mut Findings) {
    if zero.level == ZeroLevel::Zero0 {
        return;
    }
    let message = format!(
        "the data degree is 1, so ZeRO-{} has nothing left to shard: all {} parameters stay whole",
        zero.level as u8,
        model.num_parameters(),
    );
    findings.notices.push(Notice::warning(&raw.zero_optimization.stage.place, message));
}
