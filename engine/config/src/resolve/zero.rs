//! `zero_optimization`: the level, and for ZeRO-3 its units, residency, prefetching, persistence and reduction.

use pipezero_files::json::shorten;

use crate::kind::{Auto, Either};
use crate::raw::{RawRun, RawZero};
use crate::resolved::{
    ModelConfig, OverlapComm, ParallelConfig, Purpose, ReductionPolicy, ResidencyConfig, ShardingConfig,
    UnitLayers, ZeroConfig, ZeroLevel,
};
use crate::words::{ResidencyWord, ShardingWord};

use super::counted::counted;
use super::zero_and_pipeline::pipeline_of_zero_2;

/// The default of `prefetch_units`.
const PREFETCH_UNITS: usize = 1;

/// Units gathered ahead at most: each is memory, and one suffices to overlap a gather with the unit before it.
const MAX_PREFETCH_UNITS: usize = 256;

pub(super) fn resolve(
    raw: &RawRun,
    purpose: Purpose,
    grid: Option<&ParallelConfig>,
    model: Option<&ModelConfig>,
) -> Option<ZeroConfig> {
    let zero = &raw.zero_optimization;
    let trains = purpose == Purpose::Training;
    let level = level(zero);
    let unit_layers = unit_layers(zero, model);
    let reduce = level.and_then(|level| reduce(zero, level));
    let overlap_comm = reduce.and_then(|policy| overlap_comm(zero, policy, trains));
    let level = level?;
    // A refused ZeRO-2 is shown beside the ZeRO-3 of the same keys.
    let is_compared = trains && pipeline_of_zero_2(raw).is_some();
    if level < ZeroLevel::Zero3 && !is_compared {
        return Some(ZeroConfig {
            level,
            unit_layers: unit_layers?,
            resident_units: ResidencyConfig::Units(1 + PREFETCH_UNITS),
            prefetch_units: PREFETCH_UNITS,
            sharding: ShardingConfig::SHARDED,
            reduce: reduce?,
            overlap_comm: overlap_comm?,
            param_persistence_threshold: 0,
            model_persistence_threshold: u64::MAX,
        });
    }
    let rule = format!("each unit gathered ahead takes memory: it is at most {MAX_PREFETCH_UNITS}");
    let repair = "use a small number such as 1, or `resident_units` to keep what was gathered";
    let prefetch_units = zero.prefetch_units.auto_or(PREFETCH_UNITS);
    let prefetch_units =
        zero.prefetch_units.keep(prefetch_units, |units| units <= MAX_PREFETCH_UNITS, &rule, repair);
    let resident_units = prefetch_units.and_then(|prefetch| residency(raw, grid, prefetch));
    let param_persistence_threshold = param_persistence(zero, model);
    let model_persistence_threshold = model_persistence(zero);
    let sharding = sharding(zero);
    Some(ZeroConfig {
        level,
        unit_layers: unit_layers?,
        resident_units: resident_units?,
        prefetch_units: prefetch_units?,
        sharding: sharding?,
        reduce: reduce?,
        overlap_comm: overlap_comm?,
        param_persistence_threshold: param_persistence_threshold?,
        model_persistence_threshold: model_persistence_threshold?,
    })
}

fn level(raw: &RawZero) -> Option<ZeroLevel> {
    match raw.stage.or(0)? {
        0 => Some(ZeroLevel::Zero0),
        1 => Some(ZeroLevel::Zero1),
        2 => Some(ZeroLevel::Zero2),
        3 => Some(ZeroLevel::Zero3),
        other => raw.stage.broken(other, "ZeRO has the levels 0, 1, 2 and 3", "use one of them"),
    }
}

fn unit_layers(raw: &RawZero, model: Option<&ModelConfig>) -> Option<UnitLayers> {
    let has_halves = model.is_none_or(|model| model.facts().has_halves);
    let rule = "only the blocks of families \"gpt2\" and \"llama\" have halves: attention and MLP";
    match raw.unit_layers.or(UnitLayers::ONE)? {
        UnitLayers::Half if !has_halves => raw.unit_layers.broken(0.5, rule, "use 1 or more"),
        layers => Some(layers),
    }
}

fn residency(raw: &RawRun, grid: Option<&ParallelConfig>, prefetch: usize) -> Option<ResidencyConfig> {
    let field = &raw.zero_optimization.resident_units;
    match field.or(Either::Second(Either::First(ResidencyWord::Level)))? {
        Either::First(units) => budget(raw, &units.to_string(), units, prefetch).map(ResidencyConfig::Units),
        Either::Second(Either::Second(units)) => per_rank(raw, grid, units, prefetch),
        Either::Second(Either::First(word)) => match word {
            ResidencyWord::Level => Some(ResidencyConfig::Level),
            ResidencyWord::Strict => Some(ResidencyConfig::Strict),
            ResidencyWord::All => Some(ResidencyConfig::All),
            ResidencyWord::Auto if raw.memory.is_written() => Some(ResidencyConfig::Auto),
            ResidencyWord::Auto => {
                let rule = "it keeps as many units as fit `memory`, which is not set";
                let repair = "set `memory` to what a rank may hold, such as \"80GiB\", or use \"level\"";
                field.broken("\"auto\"", rule, repair)
            }
        },
    }
}

/// A list needs a number for each pipeline rank.
fn per_rank(
    raw: &RawRun,
    grid: Option<&ParallelConfig>,
    units: Vec<usize>,
    prefetch: usize,
) -> Option<ResidencyConfig> {
    let value = shorten(&format!("{units:?}"));
    if let Some(ranks) = grid.map(|grid| grid.pipeline).filter(|&ranks| ranks != units.len()) {
        let rule =
            format!("a list has one number for each pipeline rank, and `parallel.pipeline` is {ranks}");
        let repair = format!("write {}, or one number without a list", counted(ranks, "number"));
        return raw.zero_optimization.resident_units.broken(value, rule, repair);
    }
    for &of_rank in &units {
        budget(raw, &value, of_rank, prefetch)?;
    }
    Some(ResidencyConfig::PerRank(units))
}

/// A number of units, if it is one; `value` is what the key says.
fn budget(raw: &RawRun, value: &str, units: usize, prefetch: usize) -> Option<usize> {
    let field = &raw.zero_optimization.resident_units;
    let least = 1 + prefetch;
    if units < least {
        let ahead = match prefetch {
            1 => "1 prefetched one".to_owned(),
            _ => format!("{prefetch} prefetched ones"),
        };
        let rule = format!("the unit in use and {ahead} must fit, so at least {least} are needed");
        return field.broken(value, rule, format!("use {least}, or fewer `prefetch_units`"));
    }
    if u32::try_from(units).is_err() {
        return field.broken(value, "no rank has so many units", "use \"all\"");
    }
    Some(units)
}

/// The list of names, or that the plan makes it; thresholds beside either would have to decide about the same units.
fn sharding(raw: &RawZero) -> Option<ShardingConfig> {
    let word = raw.sharding.or(ShardingWord::Listed);
    let rules = raw.parameters.or(Vec::new())?;
    let sharding = match word? {
        ShardingWord::Auto if !rules.is_empty() => {
            let rule = "it makes the list that `parameters` has already";
            return raw.sharding.broken("\"auto\"", rule, "remove it, or remove `parameters`");
        }
        ShardingWord::Auto => ShardingConfig::Auto,
        ShardingWord::Listed => ShardingConfig::Listed(rules),
    };
    let decides = match &sharding {
        ShardingConfig::Auto => "`sharding` is \"auto\", which",
        ShardingConfig::Listed(rules) if !rules.is_empty() => "`parameters`",
        ShardingConfig::Listed(_) => return Some(sharding),
    };
    for threshold in [&raw.stage3_param_persistence_threshold, &raw.stage3_model_persistence_threshold] {
        if threshold.is_written() {
            threshold.site.hint(format!("no effect here: {decides} says what persists"));
        }
    }
    Some(sharding)
}

/// Units whose largest parameter has at most so many elements persist; `"auto"` is Hugging Face's formula, which needs a width.
fn param_persistence(raw: &RawZero, model: Option<&ModelConfig>) -> Option<u64> {
    let field = &raw.stage3_param_persistence_threshold;
    if let Auto::Value(elements) = field.or(Auto::Value(0))? {
        return Some(elements);
    }
    let facts = model?.facts();
    let Some(width) = facts.width else {
        let family = facts.family;
        let rule = format!("it is 10 x `model.hidden_size`, which family \"{family}\" does not have");
        return field.broken("\"auto\"", rule, "use a number of elements");
    };
    Some(field.became(10 * width as u64))
}

/// Elements that may persist; DeepSpeed has no limit by default, and `"auto"` is its default.
fn model_persistence(raw: &RawZero) -> Option<u64> {
    let field = &raw.stage3_model_persistence_threshold;
    match field.or(Auto::Auto)? {
        Auto::Value(elements) => Some(elements),
        Auto::Auto => {
            if field.is_written() {
                field.site.auto("no limit");
            }
            Some(u64::MAX)
        }
    }
}

/// The reduction policy. Below ZeRO-2 gradients are whole on every rank and one reduction gives the same sum, so `"every"` is a key of a
/// higher level there, which is accepted and named: a repair may say `"stage": 1` alone. ZeRO-2 exists by reducing early.
fn reduce(raw: &RawZero, level: ZeroLevel) -> Option<ReductionPolicy> {
    use ReductionPolicy::{Every, Last};
    let default = if level >= ZeroLevel::Zero2 { Every } else { Last };
    match (raw.reduce.or(default)?, level) {
        (Every, ZeroLevel::Zero0 | ZeroLevel::Zero1) => {
            let level = level as u8;
            let warning =
                format!("no effect: ZeRO-{level} keeps whole gradients, which are reduced once per step");
            raw.reduce.site.warn(warning);
            Some(Last)
        }
        (Last, ZeroLevel::Zero2) => {
            let rule = "gradients that are reduced once accumulate unsharded, which is ZeRO-1";
            raw.reduce.broken("\"last\"", rule, "use \"every\", or write \"stage\": 1")
        }
        (policy, _) => Some(policy),
    }
}

/// Whether reductions overlap with the next backward. Where gradients are reduced once they do, so what asks for less has no effect; it is
/// kept for a change that reduces more often.
fn overlap_comm(raw: &RawZero, reduce: ReductionPolicy, trains: bool) -> Option<OverlapComm> {
    let overlap_comm = raw.overlap_comm.or(OverlapComm::True)?;
    let why_not = match reduce {
        _ if !trains => Some("this engine is not trained, so it has no gradients"),
        ReductionPolicy::Last => {
            Some("gradients are reduced once per step, out of the buffers in which they accumulate")
        }
        ReductionPolicy::Every => None,
    };
    if let (Some(why), OverlapComm::False | OverlapComm::Auto) = (why_not, overlap_comm) {
        raw.overlap_comm.site.hint(format!("no effect here: {why}"));
    }
    Some(overlap_comm)
}
