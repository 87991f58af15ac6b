//! Values of a run's features that tests combine pair by pair.

use pipezero::config::{Checkpointing, Precision, ResidencyConfig, UnitLayersConfig};

use crate::{FP16, Schedule};

/// Blocks of the model: enough for the most stages, 4 ranks of 3 stages.
pub const NUM_LAYERS: usize = 12;

/// How large units are.
pub const UNITS: [UnitLayersConfig; 3] =
    [UnitLayersConfig::Half, UnitLayersConfig::Layers(1), UnitLayersConfig::Layers(2)];

/// Types of parameters and activations.
pub const PRECISIONS: [Precision; 3] = [Precision::F32, Precision::Bf16, FP16];

/// What is recomputed.
pub const CHECKPOINTING: [Checkpointing; 3] =
    [Checkpointing::Off, Checkpointing::Unit, Checkpointing::Layers(1)];

/// What is recomputed on a grid: where backwards are split, nothing can be.
pub fn checkpointing(schedule: Schedule, choice: usize) -> Checkpointing {
    if schedule.splits_backwards() { Checkpointing::Off } else { CHECKPOINTING[choice] }
}

/// Whether the head uses the embedding's weight.
pub const TIED: [bool; 2] = [false, true];

/// Data degrees.
pub const DATA: [usize; 3] = [1, 2, 3];

/// So many units beyond those in use and prefetched; `None` is strict, `usize::MAX` all.
pub fn resident_units(beyond: Option<usize>, prefetch_units: usize) -> ResidencyConfig {
    match beyond {
        None => ResidencyConfig::Strict,
        Some(usize::MAX) => ResidencyConfig::All,
        Some(beyond) => ResidencyConfig::Units(1 + prefetch_units + beyond),
    }
}
