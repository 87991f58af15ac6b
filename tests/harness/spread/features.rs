//! What of a run's features shapes memory and traffic, pair by pair.

use pipezero_config::{ShardingConfig, ShardingRule, UnitLayers, UnitSharding};

use super::{Spread, WORK, Work};
use crate::features::{self, CHECKPOINTING, DATA, GRIDS, MODELS, PRECISIONS, UNITS, VOCABULARIES, ZERO};
use crate::{Case, Family, pairwise};

/// What of a run's units stays whole.
#[derive(Clone, Copy, Debug)]
enum Whole {
    /// What thresholds of a parameter and of the model say.
    Thresholds(u64, u64),
    /// Tables are as under ZeRO-1.
    Tables,
    /// Attention persists.
    Attention,
    /// So are norms and biases held.
    Biases(UnitSharding),
}

/// Of the model's weights attention's have at most 432 elements, the MLP's 576, tables 25,200, norms and biases 48: none persists, then
/// attention with all norms and biases, so that units are divided, some of all but tables, all; norms and biases; then lists of names.
const WHOLE: [Whole; 9] = [
    Whole::Thresholds(0, u64::MAX),
    Whole::Thresholds(500, u64::MAX),
    Whole::Thresholds(600, 6000),
    Whole::Thresholds(30_000, u64::MAX),
    Whole::Thresholds(48, u64::MAX),
    Whole::Tables,
    Whole::Attention,
    Whole::Biases(UnitSharding::Persistent),
    Whole::Biases(UnitSharding::Whole),
];

impl Whole {
    fn apply(self, case: Case) -> Case {
        let rule = |sharding, pattern: &str| {
            ShardingConfig::Listed(vec![ShardingRule { sharding, pattern: pattern.to_owned() }])
        };
        let mut zero = case.zero.clone();
        match self {
            Self::Thresholds(param, model) => {
                (zero.param_persistence_threshold, zero.model_persistence_threshold) = (param, model);
            }
            Self::Tables => zero.sharding = rule(UnitSharding::Whole, "wte|lm_head|^embedding"),
            Self::Biases(sharding) => zero.sharding = rule(sharding, r"bias$|norm|\.b$|embedding"),
            Self::Attention => {
                zero.sharding = rule(UnitSharding::Persistent, "attn|dense|^wpe|^embedding");
            }
        }
        Case { zero, ..case }
    }
}

/// Number of values of each dimension, in the order of [`run_of`].
const SIZES: [usize; 11] = [
    GRIDS.len(),
    ZERO.len(),
    UNITS.len(),
    PRECISIONS.len(),
    CHECKPOINTING.len(),
    WHOLE.len(),
    MODELS.len(),
    DATA.len(),
    VOCABULARIES.len(),
    WORK.len(),
    TRAIN_ONLY.len(),
];

/// What is trained: all layers, every second block, attention alone, the head, or some parameters of every layer.
const TRAIN_ONLY: [&[&str]; 5] =
    [&[], &[r"h\.\d*[13579](\.|$)"], &["attn|dense"], &["lm_head"], &[r"bias|ln_|qkv"]];

/// Runs in which every pair of values occurs.
pub(super) fn runs() -> Vec<Spread> {
    pairwise(SIZES).into_iter().map(run_of).collect()
}

fn run_of(choice: [usize; SIZES.len()]) -> Spread {
    let [grid, zero, units, precision, checkpointing, whole, model, data, vocabulary, work, train_only] =
        choice;
    let case = features::case_of([grid, zero, units, precision, checkpointing, model, data, vocabulary]);
    let case = WHOLE[whole].apply(case);
    // The MLP family has no halves.
    let is_mlp = WORK[work].family == Family::Mlp && UNITS[units] != UnitLayers::Half;
    let family = if is_mlp { Family::Mlp } else { case.family };
    let work = Work { schedule: case.schedule, family, ..WORK[work] };
    let train_only = TRAIN_ONLY[train_only];
    let case = Case { num_micro_batches: work.num_micro_batches, family, train_only, ..case };
    Spread { name: format!("{case:?}, {work:?}"), run: super::run(case, work) }
}
