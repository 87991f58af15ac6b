//! `zero_optimization`: the level, and for ZeRO-3 its units, residency, prefetching, persistence and reduction.

use crate::config::findings::Findings;
use crate::config::kind::{Auto, Either};
use crate::config::raw::{RawRun, RawZero};
use crate::config::resolved::{
    ModelConfig, ReductionPolicy, ResidencyConfig, UnitLayersConfig, ZeroConfig, ZeroLevel,
};
use crate::config::words::{ReduceWord, ResidencyWord, UnitWord, Unoffered, refuse};

use super::rules::MAX_COUNT;

const NONE: Unoffered = Unoffered { later: &[], never: &[] };

/// The default of `prefetch_units`.
const PREFETCH_UNITS: usize = 1;

/// Units gathered ahead at most: each is memory, and one suffices to overlap a gather with the unit before it.
const MAX_PREFETCH_UNITS: usize = 256;

pub(super) fn resolve(
    raw: &RawRun,
    model: Option<&ModelConfig>,
    findings: &mut Findings,
) -> Option<ZeroConfig> {
    let zero = &raw.zero_optimization;
    let level = level(zero, findings);
    let unit_layers = unit_layers(zero, model, findings);
    let reduce = level.and_then(|level| reduce(zero, level, findings));
    let level = level?;
    if level < ZeroLevel::Zero3 {
        return Some(ZeroConfig {
            level,
            unit_layers: unit_layers?,
            resident_units: ResidencyConfig::Units(1 + PREFETCH_UNITS),
            prefetch_units: PREFETCH_UNITS,
            reduce: reduce?,
            param_persistence_threshold: 0,
            model_persistence_threshold: u64::MAX,
        });
    }
    let prefetch_units = prefetch(zero, findings);
    let resident_units = prefetch_units.and_then(|prefetch| residency(raw, prefetch, findings));
    let param_persistence_threshold = param_persistence(zero, model, findings);
    let model_persistence_threshold = zero.stage3_model_persistence_threshold.or(Auto::Auto);
    Some(ZeroConfig {
        level,
        unit_layers: unit_layers?,
        resident_units: resident_units?,
        prefetch_units: prefetch_units?,
        reduce: reduce?,
        param_persistence_threshold: param_persistence_threshold?,
        model_persistence_threshold: model_persistence_threshold?.value().unwrap_or(u64::MAX),
    })
}

fn level(raw: &RawZero, findings: &mut Findings) -> Option<ZeroLevel> {
    match raw.stage.or(0)? {
        0 => Some(ZeroLevel::Zero0),
        1 => Some(ZeroLevel::Zero1),
        2 => Some(ZeroLevel::Zero2),
        3 => Some(ZeroLevel::Zero3),
        other => {
            findings.broken(&raw.stage.place, other, "ZeRO has the levels 0, 1, 2 and 3", "use one of them");
            None
        }
    }
}

fn unit_layers(
    raw: &RawZero,
    model: Option<&ModelConfig>,
    findings: &mut Findings,
) -> Option<UnitLayersConfig> {
    let place = &raw.unit_layers.place;
    let layers = match raw.unit_layers.or(Either::First(1.0))? {
        Either::First(layers) => layers,
        Either::Second(UnitWord::Stage) => return Some(UnitLayersConfig::Stage),
        Either::Second(UnitWord::Other(word)) => {
            refuse(findings, place, &word, UnitWord::OFFERED, &NONE);
            return None;
        }
    };
    if layers == 0.5 {
        if model.is_some_and(|model| !model.facts().has_halves) {
            let rule = "only the blocks of family \"gpt2\" have halves: attention and MLP";
            findings.broken(place, layers, rule, "use 1 or more");
            return None;
        }
        return Some(UnitLayersConfig::Half);
    }
    if layers < 1.0 || layers.fract() != 0.0 {
        let rule = "a unit is half a block or whole blocks";
        findings.broken(place, layers, rule, "use 0.5, 1 or a larger whole number");
        return None;
    }
    if layers > MAX_COUNT {
        findings.broken(place, layers, "no stage has so many blocks", "use \"stage\"");
        return None;
    }
    Some(UnitLayersConfig::Layers(layers as usize))
}

fn prefetch(raw: &RawZero, findings: &mut Findings) -> Option<usize> {
    let prefetch = raw.prefetch_units.or(Auto::Auto)?.value().unwrap_or(PREFETCH_UNITS);
    if prefetch > MAX_PREFETCH_UNITS {
        let rule = format!("each unit gathered ahead takes memory: it is at most {MAX_PREFETCH_UNITS}");
        let repair = "use a small number such as 1, or `resident_units` to keep what was gathered";
        findings.broken(&raw.prefetch_units.place, prefetch, rule, repair);
        return None;
    }
    Some(prefetch)
}

fn residency(raw: &RawRun, prefetch: usize, findings: &mut Findings) -> Option<ResidencyConfig> {
    let field = &raw.zero_optimization.resident_units;
    let place = &field.place;
    let least = 1 + prefetch;
    match field.or(Either::First(least))? {
        Either::First(units) if units < least => {
            let ahead = if prefetch == 1 {
                "1 prefetched one".to_owned()
            } else {
                format!("{prefetch} prefetched ones")
            };
            let rule = format!("the unit in use and {ahead} must fit, so it must be at least {least}");
            findings.broken(place, units, rule, format!("use {least}, or fewer `prefetch_units`"));
            None
        }
        Either::First(units) if u32::try_from(units).is_err() => {
            findings.broken(place, units, "no rank has so many units", "use \"all\"");
            None
        }
        Either::First(units) => Some(ResidencyConfig::Units(units)),
        Either::Second(ResidencyWord::Strict) => Some(ResidencyConfig::Strict),
        Either::Second(ResidencyWord::All) => Some(ResidencyConfig::All),
        Either::Second(ResidencyWord::Auto) => {
            if !raw.memory.is_written() {
                let rule = "it keeps as many units as fit `memory`, which is not set";
                let repair = "set `memory` to what a rank may hold, such as \"80GiB\", or use a number";
                findings.broken(place, "\"auto\"", rule, repair);
                return None;
            }
            Some(ResidencyConfig::Auto)
        }
        Either::Second(ResidencyWord::Other(word)) => {
            refuse(findings, place, &word, ResidencyWord::OFFERED, &NONE);
            None
        }
    }
}

/// Units whose largest parameter has at most so many elements persist; `"auto"` is Hugging Face's formula, which needs a width.
fn param_persistence(raw: &RawZero, model: Option<&ModelConfig>, findings: &mut Findings) -> Option<u64> {
    let field = &raw.stage3_param_persistence_threshold;
    match field.or(Auto::Value(0))? {
        Auto::Value(elements) => Some(elements),
        Auto::Auto => {
            let facts = model?.facts();
            if facts.width.is_none() {
                let family = facts.family;
                let rule = format!("it is 10 x `model.hidden_size`, which family \"{family}\" does not have");
                findings.broken(&field.place, "\"auto\"", rule, "use a number of elements");
            }
            Some(10 * facts.width? as u64)
        }
    }
}

/// The reduction policy. Below ZeRO-2 gradients are whole on every rank and one reduction gives the same sum; ZeRO-2
/// exists by reducing early.
fn reduce(raw: &RawZero, level: ZeroLevel, findings: &mut Findings) -> Option<ReductionPolicy> {
    let place = &raw.reduce.place;
    let default = if level >= ZeroLevel::Zero2 { ReduceWord::Every } else { ReduceWord::Last };
    match (raw.reduce.or(default)?, level) {
        (ReduceWord::Other(word), _) => {
            refuse(findings, place, &word, ReduceWord::OFFERED, &NONE);
            None
        }
        (ReduceWord::Every, ZeroLevel::Zero0 | ZeroLevel::Zero1) => {
            let rule = format!("ZeRO-{} keeps whole gradients, which are reduced once per step", level as u8);
            findings.broken(place, "\"every\"", rule, "use \"last\", or ZeRO-2 or ZeRO-3");
            None
        }
        (ReduceWord::Last, ZeroLevel::Zero2) => {
            let rule = "gradients that are reduced once accumulate unsharded, which is ZeRO-1";
            findings.broken(place, "\"last\"", rule, "use \"every\", or write \"stage\": 1");
            None
        }
        (ReduceWord::Every, _) => Some(ReductionPolicy::Every),
        (ReduceWord::Last, _) => Some(ReductionPolicy::Last),
    }
}
