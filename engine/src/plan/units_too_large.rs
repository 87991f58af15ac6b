//! Break-even: units that are too large for their rank, or too many at once, hold more weights, gathered and at rest, than
//! no sharding would.

use std::fmt;

use pipezero_partition::BreakEven;

use super::Plan;
use crate::config::{ResidencyConfig, UnitLayersConfig, ZeroLevel};

/// What the rank with most layers holds, in layers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UnitsTooLarge {
    /// Layers of the largest unit; 0.5 where units are half a layer.
    pub unit_layers: f64,
    /// Units gathered at once.
    pub gathered_units: usize,
    /// Whether `resident_units` says how many; else `prefetch_units` does.
    pub is_budget: bool,
    /// Layers of the rank.
    pub rank_layers: usize,
    /// Layers that the rank holds gathered; never more than it has.
    pub gathered_layers: f64,
    /// Layers that it holds at rest.
    pub shard_layers: f64,
    /// Units pay where fewer layers than this are gathered.
    pub pays_below_layers: f64,
}

impl fmt::Display for UnitsTooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { unit_layers, gathered_units, rank_layers, gathered_layers, shard_layers, .. } = self;
        let unit = match unit_layers {
            0.5 => "half a layer".to_owned(),
            1.0 => "1 layer".to_owned(),
            layers => format!("{layers} layers"),
        };
        let (keys, factor) = if self.is_budget {
            (format!("`resident_units` {gathered_units}"), "resident_units")
        } else {
            (format!("`prefetch_units` {}", gathered_units - 1), "(1 + prefetch_units)")
        };
        write!(
            f,
            "units of {unit} with {keys} hold {gathered_layers} layers gathered and {shard_layers:.1} at rest, no fewer than \
             the {rank_layers} of no sharding; units pay where unit_layers x {factor} < layers x (1 - 1 / data) = {:.1}",
            self.pays_below_layers
        )
    }
}

impl Plan {
    /// Whether the units of the rank with most layers are too large to pay; `None` where they pay, below ZeRO-3, on one
    /// data rank, and where the run asks for what fits (`"auto"`) or for all.
    pub(super) fn units_too_large(&self) -> Option<UnitsTooLarge> {
        let zero = &self.run.zero;
        if zero.level != ZeroLevel::Zero3 || self.grid.data_degree == 1 || self.is_residency_auto {
            return None;
        }
        let gathered_units = match zero.resident_units {
            ResidencyConfig::Strict => 1 + zero.prefetch_units,
            ResidencyConfig::Units(units) => units,
            ResidencyConfig::All | ResidencyConfig::Auto => return None,
        };
        let rank_layers = |rank| self.units_of(rank).map(|(_, unit)| self.num_blocks(unit)).sum::<usize>();
        let (rank_layers, unit_layers) = match zero.unit_layers {
            // Attention and MLP of a layer are two units, and both count the layer.
            UnitLayersConfig::Half => (self.training.ranks().map(rank_layers).max()? / 2, 0.5),
            _ => {
                let largest = self.units.iter().map(|unit| self.num_blocks(unit)).max()?;
                (self.training.ranks().map(rank_layers).max()?, largest as f64)
            }
        };
        // Counted in half layers, so that all sizes are whole.
        let break_even = BreakEven {
            unit_size: (2.0 * unit_layers) as u64,
            stage_size: 2 * rank_layers as u64,
            gathered_units: gathered_units as u64,
            data_degree: self.grid.data_degree as u64,
        };
        (!break_even.pays()).then(|| UnitsTooLarge {
            unit_layers,
            gathered_units,
            is_budget: gathered_units > 1 + zero.prefetch_units,
            rank_layers,
            // There is a gather buffer for each unit of the rank at most, so that no more is gathered than the rank has.
            gathered_layers: (unit_layers * gathered_units as f64).min(rank_layers as f64),
            shard_layers: break_even.shard_size() / 2.0,
            pays_below_layers: break_even.limit_size() / 2.0,
        })
    }
}
