//! `zero_optimization`: the level, and for ZeRO-3 its units, residency, prefetching and reduction.

use crate::config::findings::Findings;
use crate::config::kind::{Auto, Either};
use crate::config::raw::RawZero;
use crate::config::resolved::{ReductionPolicy, ResidencyConfig, ZeroConfig, ZeroLevel};
use crate::config::words::{ReduceWord, ResidencyWord, UnitWord, Unoffered, refuse};

use super::parallel::Grid;

const LATER_RESIDENCY: Unoffered = Unoffered { later: &["all", "auto"], never: &[] };
const NONE: Unoffered = Unoffered { later: &[], never: &[] };

/// The default of `prefetch_units`.
const PREFETCH_UNITS: usize = 1;

pub(super) fn resolve(raw: &RawZero, grid: Option<&Grid>, findings: &mut Findings) -> Option<ZeroConfig> {
    let level = level(raw, findings);
    let unit_layers = unit_layers(raw, grid, findings);
    let reduce = level.and_then(|level| reduce(raw, level, findings));
    let level = level?;
    let prefetch_units =
        if level == ZeroLevel::Zero3 { prefetch(raw, findings) } else { Some(PREFETCH_UNITS) };
    let resident_units = match prefetch_units {
        Some(prefetch) if level == ZeroLevel::Zero3 => residency(raw, prefetch, findings),
        Some(prefetch) => Some(ResidencyConfig::Units(1 + prefetch)),
        None => None,
    };
    Some(ZeroConfig {
        level,
        unit_layers: unit_layers?,
        resident_units: resident_units?,
        prefetch_units: prefetch_units?,
        reduce: reduce?,
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

fn unit_layers(raw: &RawZero, grid: Option<&Grid>, findings: &mut Findings) -> Option<usize> {
    let place = &raw.unit_layers.place;
    let layers = match raw.unit_layers.or(Either::First(1.0))? {
        Either::First(layers) => layers,
        Either::Second(UnitWord::Stage) => return grid.map(Grid::largest_stage_layers),
        Either::Second(UnitWord::Other(word)) => {
            refuse(findings, place, &word, UnitWord::OFFERED, &NONE);
            return None;
        }
    };
    if layers <= 0.0 {
        findings.broken(place, layers, "a unit holds at least one layer", "use 1 or more");
        return None;
    }
    if layers.fract() != 0.0 {
        findings.not_yet(place, layers, "a unit of a part of a layer", "use a whole number");
        return None;
    }
    // Saturates, which is as good as any number beyond the stage's layers.
    Some(layers as usize)
}

fn prefetch(raw: &RawZero, findings: &mut Findings) -> Option<usize> {
    let prefetch = raw.prefetch_units.or(Auto::Auto)?.value().unwrap_or(PREFETCH_UNITS);
    if prefetch > 1 {
        findings.not_yet(
            &raw.prefetch_units.place,
            prefetch,
            "gathering more than one use ahead",
            "use 0 or 1",
        );
        return None;
    }
    Some(prefetch)
}

fn residency(raw: &RawZero, prefetch: usize, findings: &mut Findings) -> Option<ResidencyConfig> {
    let place = &raw.resident_units.place;
    let least = 1 + prefetch;
    match raw.resident_units.or(Either::First(least))? {
        Either::First(units) if units == least => Some(ResidencyConfig::Units(units)),
        Either::First(units) if units < least => {
            let rule = format!(
                "the unit in use and {prefetch} prefetched ones must fit, so it must be at least {least}"
            );
            findings.broken(place, units, rule, format!("use {least}, or fewer `prefetch_units`"));
            None
        }
        Either::First(units) => {
            let what = "keeping more units than those in use and prefetched";
            findings.not_yet(place, units, what, format!("use {least} or \"strict\""));
            None
        }
        Either::Second(ResidencyWord::Strict) => Some(ResidencyConfig::Strict),
        Either::Second(ResidencyWord::Other(word)) => {
            refuse(findings, place, &word, ResidencyWord::OFFERED, &LATER_RESIDENCY);
            None
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
