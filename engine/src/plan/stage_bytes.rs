//! What a stage would need if it had these layers: the bound of the balanced split, before there is a program.
//!
//! It is an estimate: gather buffers are those that the residency allows, of which a program may fill fewer; gradients are
//! sent from two buffers, of which a looped schedule may need more; and no unit counts as persistent. Whether the split
//! that comes of it fits is then told by its program.

use std::rc::Rc;

use pipezero_partition::{ElementBytes, MemoryBytes, RankFacts, Sharding, StageFacts};

use pipezero_schedule::{Weights, protocol};

use super::PlannedUnit;
use super::forecast::{element_bytes, memory_facts_of};
use crate::config::Run;
use crate::optimizer::Optimizer;

/// Peak bytes of a rank that runs this stage alone.
pub(super) fn peak(
    run: &Run,
    weights: Weights,
    units: &[Rc<PlannedUnit>],
    in_flight: usize,
    has_next: bool,
) -> u64 {
    let gathered = units.iter().map(|unit| unit.layout.padded_len() as u64);
    let zero = &run.zero;
    let element_bytes: ElementBytes = element_bytes(&run.precision);
    let input = units.first().map_or(0, |unit| unit.sizes.input) as u64;
    let output = units.last().filter(|_| has_next).map_or(0, |unit| unit.sizes.output) as u64;
    MemoryBytes::of(&RankFacts {
        sharding: Sharding { level: zero.level, reduce: zero.reduce, data_degree: run.parallel.data as u64 },
        element_bytes,
        num_optimizer_states: Optimizer::new(&run.optimizer).num_states() as u64,
        gather_buffer_elements: protocol::gather_buffer_bytes(gathered.collect(), weights),
        stages: vec![StageFacts {
            num_activation_slots: in_flight as u64,
            input_cut_elements: input,
            num_gradient_send_buffers: protocol::GRADIENT_SEND_BUFFERS as u64,
            output_cut_elements: output,
            local_output_elements: 0,
            units: units.iter().map(|unit| memory_facts_of(unit)).collect(),
        }],
    })
    .peak
}
