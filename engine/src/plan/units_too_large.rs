//! Break-even: units that are too large for their rank, or too many at once, hold more weights, gathered and at rest, than
//! no sharding would.

use pipezero_partition::BreakEven;

use super::remarks::{RESIDENT, Remark, UNIT};
use super::{Plan, PlannedUnit};
use crate::config::{ResidencyConfig, UnitLayers, ZeroLevel};

impl Plan {
    /// That the units of the rank with most layers are too large to pay; `None` where they pay, below ZeRO-3, on one
    /// data rank, and where the run asks for what fits (`"auto"`) or for all.
    pub(super) fn units_too_large(&self) -> Option<Remark> {
        let zero = &self.run.zero;
        if zero.level != ZeroLevel::Zero3 || self.grid.data_degree == 1 || self.is_residency_auto {
            return None;
        }
        let gathered_units = match zero.resident_units {
            ResidencyConfig::Strict => 1 + zero.prefetch_units,
            ResidencyConfig::Units(units) => units,
            ResidencyConfig::All | ResidencyConfig::Auto => return None,
        };
        let num_blocks = |unit: &PlannedUnit| self.num_blocks(unit.layers.clone());
        let blocks_of = |rank| self.units_of(rank).map(|(_, unit)| num_blocks(unit)).sum::<usize>();
        let most_blocks = self.training.ranks().map(blocks_of).max()?;
        let (rank_layers, unit_layers) = match zero.unit_layers {
            // Attention and MLP of a layer are two units, and both count the layer.
            UnitLayers::Half => (most_blocks / 2, 0.5),
            _ => (most_blocks, self.units.iter().map(num_blocks).max()? as f64),
        };
        // Counted in half layers, so that all sizes are whole.
        let break_even = BreakEven {
            unit_size: (2.0 * unit_layers) as u64,
            stage_size: 2 * rank_layers as u64,
            gathered_units: gathered_units as u64,
            data_degree: self.grid.data_degree as u64,
        };
        if break_even.pays() {
            return None;
        }
        let unit = match unit_layers {
            0.5 => "half a layer".to_owned(),
            1.0 => "1 layer".to_owned(),
            layers => format!("{layers} layers"),
        };
        // `resident_units` says how many are gathered at once, or else `prefetch_units` does.
        let (place, keys, factor) = if gathered_units > 1 + zero.prefetch_units {
            (RESIDENT, format!("`resident_units` {gathered_units}"), "resident_units")
        } else {
            (UNIT, format!("`prefetch_units` {}", gathered_units - 1), "(1 + prefetch_units)")
        };
        let limit = break_even.limit_size() / 2.0;
        // The mildest of the changes after which units pay.
        let alone = "\"prefetch_units\": 0 and \"resident_units\": \"strict\"";
        let repair = match [unit_layers, 1.0, 0.5].into_iter().find(|&layers| layers < limit) {
            Some(layers) if layers == unit_layers => format!("use {alone}"),
            Some(layers) => format!("use \"unit_layers\": {layers} with {alone}"),
            None => "no unit is so small: use \"stage\": 1".to_owned(),
        };
        let text = format!(
            "units of {unit} with {keys} hold {} layers gathered and {:.1} at rest, no fewer than the {rank_layers} of no \
             sharding; units pay where unit_layers x {factor} < layers x (1 - 1 / data) = {limit:.1}; {repair}",
            // There is a gather buffer for each unit of the rank at most, so that no more is gathered than the rank has.
            (unit_layers * gathered_units as f64).min(rank_layers as f64),
            break_even.shard_size() / 2.0,
        );
        Some(Remark::warning(place, text))
    }
}
