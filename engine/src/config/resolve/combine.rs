//! Which combinations of ZeRO and pipeline are refused, and which are allowed with a warning.
//!
//! Refusal happens here, before any rank, device or network exists, and shows what the combination would cost in this
//! very run beside those that are allowed.

use pipezero_partition::{BreakEven, ElementBytes};

use crate::config::combination::{Allowed, CombinationTable, PricedRank, Study, num_parameters};
use crate::config::error::Problem;
use crate::config::findings::{Findings, Place};
use crate::config::notice::Notice;
use crate::config::raw::RawRun;
use crate::config::resolved::{
    BatchConfig, ModelConfig, OptimizerConfig, Precision, ReductionPolicy, ResidencyConfig, UnitLayersConfig,
    ZeroConfig, ZeroLevel,
};

use super::parallel::{Grid, counted};
use super::stages::LoneStage;

/// Stages beyond which nothing is said of them: no program has so many, and that is said already.
const MAX_STAGES: usize = 1 << 22;

/// What is resolved when combinations are judged; any of it may be missing where the file has other mistakes.
pub(super) struct Parts<'a> {
    pub(super) model: Option<&'a ModelConfig>,
    pub(super) grid: Option<&'a Grid>,
    pub(super) batch: Option<&'a BatchConfig>,
    pub(super) zero: Option<&'a ZeroConfig>,
    pub(super) optimizer: Option<&'a OptimizerConfig>,
    pub(super) precision: Option<Precision>,
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
    let table = parts.table(|study| study.of_zero2());
    let offers = [
        (Allowed::Zero1, "\"stage\": 1".to_owned()),
        (Allowed::Zero3, "\"stage\": 3 with units smaller than a stage".to_owned()),
        (Allowed::NoPipeline, "\"pipeline\": 1".to_owned()),
    ];
    let problem = Problem::Refused {
        headline: format!("ZeRO-2 is incompatible with pipeline parallelism (`parallel.pipeline` is {pipeline})"),
        reason: "gradients would either accumulate unsharded over the micro-batches, which is ZeRO-1's memory, or be \
                 reduced after every one of them, which is ZeRO-3's reductions without freeing weights"
            .to_owned(),
        repair: format!("write {}", repairs(table.as_deref(), offers)),
        table,
    };
    findings.error(&raw.zero_optimization.stage.place, problem);
}

/// ZeRO-3 whose unit holds all layers of a rank saves nothing at its peak; with a pipeline it even pays for every
/// micro-batch. A rank with several stages has several units, whatever their size.
fn check_units(raw: &RawRun, parts: &Parts<'_>, pipeline: usize, findings: &mut Findings) {
    let (Some(grid), Some(zero)) = (parts.countable_grid(), parts.zero) else { return };
    let lone = grid.smallest_lone_stage(parts.model).filter(|lone| {
        zero.unit_layers != UnitLayersConfig::Half
            && zero.unit_layers.blocks_within(lone.layers) == lone.layers
    });
    let Some(LoneStage { stage, rank, layers }) = lone else {
        return warn_of_what_is_gathered(raw, grid, zero, findings);
    };
    let place = unit_place(raw);
    let unit_layers = match zero.unit_layers {
        UnitLayersConfig::Layers(unit) => unit,
        UnitLayersConfig::Stage | UnitLayersConfig::Half => layers,
    };
    let whole = match stage {
        Some(stage) => format!("all {layers} of stage {stage}"),
        None => format!("all of the smallest stage, which has at most {layers}"),
    };
    let unit = format!("a unit of {} holds {whole}", counted(unit_layers, "layer"));
    if pipeline == 1 {
        let message =
            format!("{unit}: the whole model is gathered at once, so ZeRO-3 saves no weights at its peak");
        findings.notices.push(Notice::warning(place, message));
        return;
    }
    let table = parts.table(|study| study.of_whole_stages(PricedRank { rank, stage }, layers));
    let problem = Problem::Refused {
        headline: format!(
            "ZeRO-3 with one unit for all layers of a rank is incompatible with pipeline parallelism (`parallel.pipeline` is \
             {pipeline}, and {unit})"
        ),
        reason:
            "everything would be gathered for every micro-batch, and the peak memory is that of no sharding"
                .to_owned(),
        repair: repairs(
            table.as_deref(),
            [
                (Allowed::Zero3, smaller_units(parts.model, grid, layers)),
                (Allowed::Zero1, "write \"stage\": 1".to_owned()),
            ],
        ),
        table,
    };
    findings.error(place, problem);
}

/// How a rank whose smallest stage has `layers` layers gets a second unit.
fn smaller_units(model: Option<&ModelConfig>, grid: &Grid, layers: usize) -> String {
    if layers > 1 {
        format!("use `unit_layers` below {layers}")
    } else if let Some(ModelConfig::Gpt2(_)) = model {
        "use `unit_layers` 0.5".to_owned()
    } else if grid.num_layers / 2 >= grid.pipeline {
        "give every stage at least 2 layers".to_owned()
    } else {
        let stages = (grid.num_layers / 2).max(1);
        format!("use a pipeline of at most {stages}, so that every stage has two units")
    }
}

/// What may be written instead, the one that needs the fewest bytes in the table first. Without a table, or without a row
/// in it, an offer keeps its place behind those that have one.
fn repairs<const N: usize>(table: Option<&CombinationTable>, mut offers: [(Allowed, String); N]) -> String {
    let bytes = |allowed: Allowed| {
        let row = table?.rows.iter().find(|row| row.allowed == Some(allowed))?;
        Some(row.total_bytes())
    };
    offers.sort_by_key(|(allowed, _)| bytes(*allowed).unwrap_or(u128::MAX));
    offers.map(|(_, offer)| offer).join(", or ")
}

/// Warns of gathered weights that are no fewer than without sharding.
fn warn_of_what_is_gathered(raw: &RawRun, grid: &Grid, zero: &ZeroConfig, findings: &mut Findings) {
    if grid.data == 1 {
        return;
    }
    match zero.resident_units {
        ResidencyConfig::All if zero.reduce == ReductionPolicy::Every => {
            let message = "every unit stays gathered all step, and gradients are reduced after every micro-batch: that \
                           is the weights of no sharding with the reductions of ZeRO-3; ZeRO-1 reduces once";
            findings.notices.push(Notice::warning(&raw.zero_optimization.resident_units.place, message));
        }
        ResidencyConfig::All => {
            let message = "every unit stays gathered all step, and gradients are reduced once: that is ZeRO-1 with its \
                           gathers before the step instead of after it, and a second copy of each shard";
            findings.notices.push(Notice::warning(&raw.zero_optimization.resident_units.place, message));
        }
        // The plan picks a number that fits.
        ResidencyConfig::Auto => {}
        ResidencyConfig::Strict => {
            warn_of_break_even(raw, grid, zero, 1 + zero.prefetch_units, findings);
        }
        ResidencyConfig::Units(units) => warn_of_break_even(raw, grid, zero, units, findings),
    }
}

/// Units that are too large for their rank, or too many at once, hold more weights, gathered and at rest, than no
/// sharding would.
fn warn_of_break_even(raw: &RawRun, grid: &Grid, zero: &ZeroConfig, units: usize, findings: &mut Findings) {
    let ranks = grid.rank_layers();
    let layers = ranks.iter().map(|rank| rank.layers).max().unwrap_or(0);
    let largest_stage = ranks.iter().map(|rank| rank.largest_stage).max().unwrap_or(0);
    let (unit, unit_name) = match zero.unit_layers {
        UnitLayersConfig::Half => (0.5, "half a layer".to_owned()),
        other => {
            let layers = other.blocks_within(largest_stage);
            (layers as f64, counted(layers, "layer"))
        }
    };
    let is_budget = units > 1 + zero.prefetch_units;
    // There is a gather buffer for each unit of the rank at most, so that no more is gathered than the rank has.
    let gathered = (unit * units as f64).min(layers as f64);
    // Counted in half layers, so that all sizes are whole.
    let break_even = BreakEven {
        unit_size: (2.0 * unit) as u64,
        stage_size: 2 * layers as u64,
        gathered_units: units as u64,
        data_degree: grid.data as u64,
    };
    if break_even.pays() {
        return;
    }
    let (place, keys, factor) = if is_budget {
        let place = &raw.zero_optimization.resident_units.place;
        (place, format!("`resident_units` {units}"), "resident_units")
    } else {
        let keys = format!("`prefetch_units` {}", zero.prefetch_units);
        (unit_place(raw), keys, "(1 + prefetch_units)")
    };
    let [shard, pays_below] = [break_even.shard_size(), break_even.limit_size()].map(|halves| halves / 2.0);
    let message = format!(
        "units of {unit_name} with {keys} hold {gathered} layers gathered and {shard:.1} at rest, no fewer than the \
         {layers} of no sharding; units pay where unit_layers x {factor} < layers x (1 - 1 / data) = {pays_below:.1}"
    );
    findings.notices.push(Notice::warning(place, message));
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

impl<'a> Parts<'a> {
    /// The grid, unless it is too large for any statement about its stages.
    fn countable_grid(&self) -> Option<&'a Grid> {
        self.grid.filter(|grid| grid.num_stages() <= MAX_STAGES)
    }

    fn table(&self, rows: impl Fn(&Study<'_>) -> CombinationTable) -> Option<Box<CombinationTable>> {
        let (grid, zero) = (self.countable_grid()?, self.zero?);
        let study = Study {
            model: self.model?,
            ranks: &grid.rank_layers(),
            data: grid.data,
            priced: None,
            num_micro_batches: self.batch?.num_micro_batches,
            unit_layers: zero.unit_layers,
            gathered_units: match zero.resident_units {
                ResidencyConfig::Units(units) => units,
                ResidencyConfig::Strict | ResidencyConfig::All | ResidencyConfig::Auto => {
                    1 + zero.prefetch_units
                }
            },
            element_bytes: match self.precision? {
                Precision::F32 => ElementBytes::F32,
                Precision::Bf16 | Precision::Fp16(_) => ElementBytes::HALF,
            },
            num_optimizer_states: match self.optimizer? {
                OptimizerConfig::AdamW { .. } => 2,
                OptimizerConfig::Sgd { momentum, .. } => u64::from(*momentum > 0.0),
            },
        };
        Some(Box::new(rows(&study)))
    }
}
