//! `activation_checkpointing`: which activations are recomputed.

use crate::kind::Auto;
use crate::raw::RawActivationCheckpointing;
use crate::resolved::{Checkpointing, ScheduleConfig, UnitLayers, ZeroConfig};

/// A recomputation reads the weights of its unit, which is gathered for its backward at that moment. Across units it
/// would have to gather each a third time, so it never does.
pub(super) fn resolve(raw: &RawActivationCheckpointing, zero: Option<&ZeroConfig>) -> Option<Checkpointing> {
    let every = &raw.every_layers;
    let enabled = match raw.enabled.or(Auto::Value(every.is_written()))? {
        Auto::Value(enabled) => enabled,
        Auto::Auto => {
            let rule =
                "`enabled` is \"auto\", with which the plan chooses how many layers are recomputed together";
            every.absent(|layers| layers.to_string(), rule)?;
            return Some(Checkpointing::Auto);
        }
    };
    if !every.is_written() {
        return Some(if enabled { Checkpointing::Unit } else { Checkpointing::Off });
    }
    let layers = every.at_least_one(every.given())?;
    if !enabled {
        every.site.hint("no effect here: `enabled` is false, so nothing is recomputed");
        return Some(Checkpointing::Off);
    }
    let (unit, repair) = match zero?.unit_layers {
        UnitLayers::Stage => return Some(Checkpointing::Layers(layers)),
        UnitLayers::Blocks(unit) if layers <= unit.get() => return Some(Checkpointing::Layers(layers)),
        UnitLayers::Blocks(unit) => (unit.to_string(), format!("use at most {unit}, or larger units")),
        UnitLayers::Half => ("0.5".to_owned(), "remove it: each half is recomputed".to_owned()),
    };
    let rule = format!(
        "`zero_optimization.unit_layers` is {unit}: recomputation never crosses a unit, which it would have to gather \
         once more"
    );
    every.broken(layers, rule, repair)
}

/// What is recomputed for a backward lies in one buffer that all units share, so a backward that recomputes is not split. What is left to
/// the plan it decides, and tells.
pub(super) fn check_schedule(
    raw: &RawActivationCheckpointing,
    schedule: &ScheduleConfig,
    checkpointing: Option<Checkpointing>,
) {
    let recomputes = !matches!(checkpointing, None | Some(Checkpointing::Off | Checkpointing::Auto));
    if !recomputes || !schedule.splits_backwards() {
        return;
    }
    let rule = "`parallel.schedule` runs weight gradients apart from input gradients: those that wait would need all that was \
                recomputed for them, which is what checkpointing is to save";
    let repair = "remove it, or use a schedule with whole backwards, such as \"1f1b\"";
    let _: Option<()> = match raw.every_layers.given() {
        Some(layers) => raw.every_layers.broken(layers, rule, repair),
        None => raw.enabled.broken(true, rule, repair),
    };
}
