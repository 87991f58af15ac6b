//! Model states without padding: what a rank holds of its stages at least, however they are cut into units.
//!
//! With P parameters, `b` bytes of a parameter and `s` f32 of optimizer state per parameter, a master copy included, a rank
//! holds `b P` of parameters, `4 P` of gradients and `4 s P` of optimizer state, each divided by d where it is sharded; no parameters
//! where they are sharded and cast from the master copy. It
//! is [`RankMemory`](crate::RankMemory) without padding, gathered copies, gradients in flight and activations.

use crate::element::{ElementBytes, F32_BYTES};
use crate::zero::Sharding;

/// What decides the bytes of a parameter's states on one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelStates {
    /// The level, when gradients are reduced, and d.
    pub sharding: Sharding,
    /// What the precision decides.
    pub element_bytes: ElementBytes,
    /// Values that the optimizer keeps for a parameter, a master copy not counted: AdamW 2, SGD 1 with momentum, else
    /// 0.
    pub num_optimizer_states: u64,
}

impl ModelStates {
    /// Bytes of so many parameters that are not trained: of the weights alone. Saturates at `u128::MAX`.
    pub fn frozen_bytes(&self, num_parameters: u128) -> u128 {
        let is_sharded = self.sharding.shards_parameters();
        let num_ranks = if is_sharded { self.sharding.data_degree.max(1) } else { 1 };
        num_parameters.div_ceil(num_ranks.into()).saturating_mul(self.element_bytes.parameter.into())
    }

    /// Bytes of the states of so many parameters that are trained. Saturates at `u128::MAX`.
    pub fn bytes(&self, num_parameters: u128) -> u128 {
        let shard = num_parameters.div_ceil(self.sharding.data_degree.max(1).into());
        let held = |is_sharded| if is_sharded { shard } else { num_parameters };
        let num_master_copies = u128::from(self.element_bytes.has_master_copy());
        let num_states = u128::from(self.num_optimizer_states) + num_master_copies;
        let f32s = F32_BYTES.into();
        let casts_shards = self.sharding.shards_parameters() && self.element_bytes.has_master_copy();
        let parameters = match casts_shards {
            true => 0,
            false => {
                held(self.sharding.shards_parameters()).saturating_mul(self.element_bytes.parameter.into())
            }
        };
        let gradients = held(self.sharding.shards_gradients()).saturating_mul(f32s);
        let optimizer =
            held(self.sharding.shards_optimizer()).saturating_mul(num_states).saturating_mul(f32s);
        parameters.saturating_add(gradients).saturating_add(optimizer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Purpose, RankFacts, RankMemory, StageFacts, UnitFacts};
    use crate::zero::ReductionPolicy::{Every, Last};
    use crate::zero::ZeroLevel;

    /// What a rank of one stage with one unit holds, by the formulas that plans are made with.
    fn memory(of: &ModelStates, num_elements: u64) -> RankMemory {
        RankMemory::of(&RankFacts {
            purpose: Purpose::Training,
            sharding: of.sharding,
            element_bytes: of.element_bytes,
            num_optimizer_states: of.num_optimizer_states,
            gather_buffer_elements: vec![num_elements],
            gradient_buffer_elements: vec![num_elements; 2],
            num_term_elements: 0,
            copies_checkpoints: false,
            num_tokens: 0,
            num_document_starts: 0,
            num_encoder_words: 0,
            num_loss_inputs: 0,
            stages: vec![StageFacts {
                num_activation_slots: 1,
                num_gradient_send_buffers: 2,
                units: vec![UnitFacts { num_elements, ..UnitFacts::default() }],
                ..StageFacts::default()
            }],
        })
    }

    #[test]
    fn agrees_with_the_formulas_of_plans_where_nothing_is_padded() {
        let levels = [ZeroLevel::Zero0, ZeroLevel::Zero1, ZeroLevel::Zero2, ZeroLevel::Zero3];
        for (level, reduce) in levels.into_iter().flat_map(|level| [(level, Every), (level, Last)]) {
            for element_bytes in [ElementBytes::F32, ElementBytes::HALF] {
                for data_degree in [1, 2, 3, 8] {
                    for num_optimizer_states in 0..=2 {
                        let sharding = Sharding { level, reduce, data_degree };
                        let states = ModelStates { sharding, element_bytes, num_optimizer_states };
                        let num_elements = 16 * data_degree * 7;
                        let RankMemory { parameters, gradients, optimizer, .. } =
                            memory(&states, num_elements);
                        // Gradients that are reduced early are in flight in two buffers of the unit's size.
                        let in_flight = if reduce == Every { 2 * F32_BYTES * num_elements } else { 0 };
                        let expected = parameters + gradients - in_flight + optimizer;
                        assert_eq!(states.bytes(num_elements.into()), u128::from(expected), "{states:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn absurd_sizes_saturate() {
        let sharding = Sharding { level: ZeroLevel::Zero3, reduce: Every, data_degree: 2 };
        let element_bytes = ElementBytes::F32;
        let states = ModelStates { sharding, element_bytes, num_optimizer_states: u64::MAX };
        assert_eq!(states.bytes(u128::MAX), u128::MAX);
    }
}
