//! What a combination of ZeRO level and grid costs, from two sizes of a stage: for rows that are compared.
//!
//! A combination that is refused has no program, and where a run file is read there is no cut model yet. These closed
//! forms need neither. With P parameters on the fullest stage, U in its largest unit, c units gathered at once, `b` the
//! bytes of a parameter and `s` f32 of optimizer state per parameter, a master copy included:
//!
//! | | parameters | gathered | gradients | optimizer | sent in a step |
//! |---|---|---|---|---|---|
//! | ZeRO-0 | `b P` | | `4 P` | `4 s P` | `8 G` |
//! | ZeRO-1 | `b P` | | `4 P` | `4 s P/d` | `(b + 4) G` |
//! | ZeRO-2 | `b P` | | `4 P/d + 8 U` | `4 s P/d` | `(b + 4 m) G` |
//! | ZeRO-3 | `b P/d` | `b c U` | `4 P/d + 8 U` | `4 s P/d` | `(2 m b + 4 m) G` |
//!
//! where `G = (d - 1) P/d` is what a rank sends in one all-gather or reduce-scatter of the stage. Rows are by when
//! gradients are reduced: with ZeRO-2 or 3 reduced once, gradients are `4 P` and `4 m` becomes 4. ZeRO-3 is strict
//! here, a gather for every forward and every backward; residency sends less.
//!
//! They are [`RankMemory`](crate::RankMemory) and [`Traffic`](crate::Traffic) without padding, tied weights,
//! persistent units, activations and sends, and tests hold them to that.

use crate::element::{ElementBytes, F32_BYTES};
use crate::zero::{Sharding, ZeroLevel};

/// A combination and the sizes that its costs depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Combination {
    /// The level, when gradients are reduced, and d.
    pub sharding: Sharding,
    /// What the precision decides.
    pub element_bytes: ElementBytes,
    /// Values that the optimizer keeps for a parameter, a master copy not counted: AdamW 2, SGD 1 with momentum, else
    /// 0.
    pub num_optimizer_states: u64,
    /// P: parameters of the fullest stage.
    pub stage_parameters: u128,
    /// U: parameters of its largest unit.
    pub unit_parameters: u128,
    /// c: units gathered at once, `1 + prefetch_units` when strict; not read below ZeRO-3.
    pub gathered_units: u128,
    /// m: micro-batches of a step.
    pub num_micro_batches: u128,
}

/// Bytes of model states of one rank, and what it sends to the other data ranks in a step.
///
/// In 128 bits, because combinations are priced before sizes are known to be possible. Saturates at `u128::MAX`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CombinationBytes {
    /// Parameters at rest.
    pub parameters: u128,
    /// Gathered copies of parameters.
    pub gathered: u128,
    /// Gradients, those in flight included.
    pub gradients: u128,
    /// Optimizer state, the master copy included.
    pub optimizer: u128,
    /// Sent in collectives over the data ranks.
    pub sent: u128,
}

impl CombinationBytes {
    /// All model states.
    pub fn total(&self) -> u128 {
        [self.parameters, self.gathered, self.gradients, self.optimizer]
            .into_iter()
            .fold(0, u128::saturating_add)
    }
}

impl Combination {
    /// The costs, by the table of the module's head.
    pub fn bytes(&self) -> CombinationBytes {
        let sharding = self.sharding;
        let held = |is_sharded| if is_sharded { self.shard() } else { self.stage_parameters };
        let num_master_copies = u128::from(self.element_bytes.has_master_copy());
        let parameter_bytes = u128::from(self.element_bytes.parameter);
        let gathered = if sharding.shards_parameters() {
            self.unit_parameters.saturating_mul(self.gathered_units)
        } else {
            0
        };
        let unreduced = if sharding.shards_gradients() { self.unit_parameters.saturating_mul(2) } else { 0 };
        CombinationBytes {
            parameters: held(sharding.shards_parameters()).saturating_mul(parameter_bytes),
            gathered: gathered.saturating_mul(parameter_bytes),
            gradients: held(sharding.shards_gradients())
                .saturating_add(unreduced)
                .saturating_mul(F32_BYTES.into()),
            optimizer: held(sharding.shards_optimizer())
                .saturating_mul(u128::from(self.num_optimizer_states) + num_master_copies)
                .saturating_mul(F32_BYTES.into()),
            sent: self.sent_bytes(),
        }
    }

    fn sent_bytes(&self) -> u128 {
        let parameter_bytes = u128::from(self.element_bytes.parameter);
        let one_way = self.shard().saturating_mul(self.sharding.data_degree.saturating_sub(1).into());
        let num_reductions = if self.sharding.shards_gradients() { self.num_micro_batches } else { 1 };
        let reduced = num_reductions.saturating_mul(F32_BYTES.into());
        let gathered = match self.sharding.level {
            // The other half of an all-reduce.
            ZeroLevel::Zero0 => reduced,
            ZeroLevel::Zero1 | ZeroLevel::Zero2 => parameter_bytes,
            ZeroLevel::Zero3 => self.num_micro_batches.saturating_mul(2).saturating_mul(parameter_bytes),
        };
        one_way.saturating_mul(gathered.saturating_add(reduced))
    }

    fn shard(&self) -> u128 {
        self.stage_parameters.div_ceil(self.sharding.data_degree.max(1).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Purpose, RankFacts, RankMemory, StageFacts, UnitFacts};
    use crate::role::Tying;
    use crate::traffic::{NORM_RECORD_WORDS, StageTraffic, Traffic, TrafficFacts, UnitTraffic};
    use crate::zero::ReductionPolicy::{Every, Last};

    /// What a rank of one stage with two units needs and sends, by the formulas that plans are made with.
    fn formulas(of: &Combination) -> CombinationBytes {
        let of_unit = u64::try_from(of.unit_parameters).expect("small");
        let of_stage = u64::try_from(of.stage_parameters).expect("small");
        let units = [of_unit, of_stage - of_unit];
        let unit = |num_elements| UnitFacts {
            num_elements,
            saved_elements: 0,
            recompute_elements: 0,
            stash_elements: 0,
            workspace_elements: 0,
            widest_activation_elements: 0,
            tying: Tying::Untied,
            is_persistent: false,
        };
        let memory = RankMemory::of(&RankFacts {
            purpose: Purpose::Training,
            sharding: of.sharding,
            element_bytes: of.element_bytes,
            num_optimizer_states: of.num_optimizer_states,
            gather_buffer_elements: vec![of_unit; of.gathered_units as usize],
            num_tokens: 0,
            stages: vec![StageFacts {
                num_activation_slots: 1,
                num_stashes: 0,
                input_cut_elements: 0,
                num_gradient_send_buffers: 2,
                output_cut_elements: 0,
                local_output_elements: 0,
                units: units.map(unit).to_vec(),
            }],
        });
        let num_micro_batches = of.num_micro_batches as u64;
        let num_gathers = 2 * num_micro_batches;
        let unit = |num_elements| UnitTraffic {
            num_elements,
            num_gathers,
            tying: Tying::Untied,
            is_persistent: false,
        };
        let world_size = of.sharding.data_degree;
        let traffic = Traffic::of(&TrafficFacts {
            sharding: of.sharding,
            element_bytes: of.element_bytes,
            world_size,
            num_micro_batches,
            stages: vec![StageTraffic {
                input_cut_elements: 0,
                output_cut_elements: 0,
                units: units.map(unit).to_vec(),
            }],
        });
        let norm = 2 * (world_size - 1) * 8 * NORM_RECORD_WORDS.div_ceil(world_size);
        let RankMemory { parameters, gathered, gradients, optimizer, peak, .. } = memory;
        let sent = traffic.all_gather.bytes + traffic.reduce_scatter.bytes + traffic.all_reduce.bytes - norm;
        let [parameters, gathered, gradients, optimizer, sent] =
            [parameters, gathered, gradients, optimizer, sent].map(u128::from);
        let bytes = CombinationBytes { parameters, gathered, gradients, optimizer, sent };
        assert_eq!(bytes.total(), u128::from(peak));
        bytes
    }

    /// Sizes are multiples of 16 d, so that nothing is padded.
    #[test]
    fn agrees_with_the_formulas_of_plans_where_nothing_is_padded() {
        let levels = [ZeroLevel::Zero0, ZeroLevel::Zero1, ZeroLevel::Zero2, ZeroLevel::Zero3];
        let mut num_cases = 0;
        for (level, reduce) in levels.into_iter().flat_map(|level| [(level, Every), (level, Last)]) {
            for element_bytes in [ElementBytes::F32, ElementBytes::HALF] {
                for data_degree in [1, 2, 3, 8] {
                    for (num_optimizer_states, gathered_units, num_micro_batches) in
                        [(2, 2, 8), (1, 1, 3), (0, 3, 1)]
                    {
                        let case = Combination {
                            sharding: Sharding { level, reduce, data_degree },
                            element_bytes,
                            num_optimizer_states,
                            stage_parameters: 16 * u128::from(data_degree) * 10,
                            unit_parameters: 16 * u128::from(data_degree) * 7,
                            gathered_units,
                            num_micro_batches,
                        };
                        assert_eq!(case.bytes(), formulas(&case), "{case:?}");
                        num_cases += 1;
                    }
                }
            }
        }
        assert_eq!(num_cases, 8 * 2 * 4 * 3);
    }

    #[test]
    fn absurd_sizes_saturate() {
        let case = Combination {
            sharding: Sharding { level: ZeroLevel::Zero3, reduce: Every, data_degree: 2 },
            element_bytes: ElementBytes::F32,
            num_optimizer_states: u64::MAX,
            stage_parameters: u128::MAX,
            unit_parameters: u128::MAX,
            gathered_units: u128::MAX,
            num_micro_batches: u128::MAX,
        };
        let bytes = case.bytes();
        assert_eq!([bytes.parameters, bytes.gathered, bytes.gradients, bytes.optimizer], [u128::MAX; 4]);
        assert_eq!([bytes.sent, bytes.total()], [u128::MAX; 2]);
    }
}
