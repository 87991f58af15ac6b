//! Which combinations of ZeRO and pipeline are refused, and which are allowed with a warning.
//!
//! Refusal happens here, before any rank, device or network exists, and shows what the combination would cost in this
//! very run beside those that are allowed.

use crate::config::combination::{CombinationTable, Study, num_parameters};
use crate::config::error::Problem;
use crate::config::findings::{Findings, Place};
use crate::config::notice::Notice;
use crate::config::raw::RawRun;
use crate::config::resolved::{BatchConfig, ModelConfig, OptimizerConfig, ZeroConfig, ZeroLevel};

use super::parallel::{Grid, counted};

/// What is resolved when combinations are judged; any of it may be missing where the file has other mistakes.
pub(super) struct Parts<'a> {
    pub(super) model: Option<&'a ModelConfig>,
    pub(super) grid: Option<&'a Grid>,
    pub(super) batch: Option<&'a BatchConfig>,
    pub(super) zero: Option<&'a ZeroConfig>,
    pub(super) optimizer: Option<&'a OptimizerConfig>,
}

pub(super) fn check(raw: &RawRun, parts: &Parts<'_>, findings: &mut Findings) {
    let pipeline = raw.parallel.pipeline.or(1);
    match (raw.zero_optimization.stage.or(0), pipeline) {
        (Some(2), Some(pipeline)) if pipeline > 1 => refuse_zero2(raw, parts, pipeline, findings),
        (Some(3), Some(pipeline)) => check_units(raw, parts, pipeline, findings),
        _ => {}
    }
    warn_of_nothing_to_shard(raw, parts, findings);
}

fn refuse_zero2(raw: &RawRun, parts: &Parts<'_>, pipeline: usize, findings: &mut Findings) {
    let problem = Problem::Refused {
        headline: format!("ZeRO-2 is incompatible with pipeline parallelism (`parallel.pipeline` is {pipeline})"),
        reason: "gradients would either accumulate unsharded over the micro-batches, which is ZeRO-1's memory, or be \
                 reduced after every one of them, which is ZeRO-3's reductions without freeing weights"
            .to_owned(),
        table: parts.table(|study| study.of_zero2()),
        repair: "write \"stage\": 1, or \"stage\": 3 with units smaller than a stage, or \"pipeline\": 1".to_owned(),
    };
    findings.error(&raw.zero_optimization.stage.place, problem);
}

/// ZeRO-3 whose unit holds a whole stage saves nothing at its peak; with a pipeline it even pays for every micro-batch.
fn check_units(raw: &RawRun, parts: &Parts<'_>, pipeline: usize, findings: &mut Findings) {
    let (Some(grid), Some(zero)) = (parts.grid, parts.zero) else { return };
    let (stage, layers) = grid.smallest_stage();
    if zero.unit_layers < layers {
        return warn_of_break_even(raw, grid, zero, findings);
    }
    let place = unit_place(raw);
    let unit =
        format!("a unit of {} holds all {layers} of stage {stage}", counted(zero.unit_layers, "layer"));
    if pipeline == 1 {
        let message =
            format!("{unit}: the whole model is gathered at once, so ZeRO-3 saves no weights at its peak");
        findings.notices.push(Notice::warning(place, message));
        return;
    }
    let repair = if layers > 1 {
        format!("use `unit_layers` below {layers}, or write \"stage\": 1")
    } else if grid.num_layers / 2 >= grid.pipeline {
        "give every stage at least 2 layers, or write \"stage\": 1".to_owned()
    } else {
        let stages = (grid.num_layers / 2).max(1);
        format!(
            "use a pipeline of at most {stages}, so that every stage has two units, or write \"stage\": 1"
        )
    };
    let problem = Problem::Refused {
        headline: format!(
            "ZeRO-3 with one unit per stage is incompatible with pipeline parallelism (`parallel.pipeline` is \
             {pipeline}, and {unit})"
        ),
        reason:
            "everything would be gathered for every micro-batch, and the peak memory is that of no sharding"
                .to_owned(),
        table: parts.table(|study| study.of_whole_stages()),
        repair,
    };
    findings.error(place, problem);
}

/// Units that are too large for their stage hold more weights, gathered and at rest, than no sharding would.
fn warn_of_break_even(raw: &RawRun, grid: &Grid, zero: &ZeroConfig, findings: &mut Findings) {
    let (layers, data) = (grid.largest_stage_layers(), grid.data);
    let gathered = zero.unit_layers.saturating_mul(1 + zero.prefetch_units);
    // In whole numbers: unit * (1 + prefetch) < layers * (1 - 1/d).
    if data == 1 || gathered as u128 * (data as u128) < layers as u128 * (data as u128 - 1) {
        return;
    }
    let shard = layers as f64 / data as f64;
    let message = format!(
        "units of {} with `prefetch_units` {} hold {gathered} layers gathered and {shard:.1} at rest, no fewer than the \
         {layers} of no sharding; units pay where unit_layers x (1 + prefetch_units) < layers x (1 - 1 / data) = {:.1}",
        counted(zero.unit_layers, "layer"),
        zero.prefetch_units,
        layers as f64 - shard,
    );
    findings.notices.push(Notice::warning(unit_place(raw), message));
}

/// Sharding over one data rank shards nothing.
fn warn_of_nothing_to_shard(raw: &RawRun, parts: &Parts<'_>, findings: &mut Findings) {
    let (Some(grid), Some(zero), Some(model)) = (parts.grid, parts.zero, parts.model) else { return };
    if grid.data > 1 || zero.level == ZeroLevel::Zero0 {
        return;
    }
    let message = format!(
        "the data degree is 1, so ZeRO-{} has nothing left to shard: all {} parameters stay whole",
        zero.level as u8,
        num_parameters(model),
    );
    findings.notices.push(Notice::warning(&raw.zero_optimization.stage.place, message));
}

/// Where the size of a unit is decided: its key, or the level where that is left at its default.
fn unit_place(raw: &RawRun) -> &Place {
    let zero = &raw.zero_optimization;
    if zero.unit_layers.is_written() { &zero.unit_layers.place } else { &zero.stage.place }
}

impl Parts<'_> {
    fn table(&self, rows: impl Fn(&Study<'_>) -> CombinationTable) -> Option<Box<CombinationTable>> {
        let (grid, zero) = (self.grid?, self.zero?);
        let study = Study {
            model: self.model?,
            partition: &grid.partition,
            pipeline: grid.pipeline,
            data: grid.data,
            num_micro_batches: self.batch?.num_micro_batches,
            unit_layers: zero.unit_layers,
            prefetch_units: zero.prefetch_units,
            optimizer_states: match self.optimizer? {
                OptimizerConfig::AdamW { .. } => 2,
                OptimizerConfig::Sgd { momentum, .. } => u128::from(*momentum > 0.0),
            },
        };
        Some(Box::new(rows(&study)))
    }
}
