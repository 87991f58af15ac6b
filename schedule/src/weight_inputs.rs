//! Weight-gradient inputs: what an input gradient (`I`) saves for its weight gradient (`W`), where a schedule splits
//! the backward; a frozen unit's part is empty. The zero-bubble code keeps them in its `WeightGradStore`.
//!
//! Which buffer a micro-batch uses follows from the program, as with activation slots, and is not written in it.

use alloc::vec::Vec;

use crate::by_micro_batch::ByMicroBatch;
use crate::id::{MicroBatch, Stage};
use crate::instruction::Instruction;
use crate::program::Program;

/// The buffers of every stage: taken by the `I` of the stage's last unit, freed by the `W` of its first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WeightInputBuffers {
    /// `[stage, micro-batch]`; 0 for a full backward.
    buffer: ByMicroBatch<usize>,
    /// `[stage]`
    num_weight_input_buffers: Vec<usize>,
}

impl WeightInputBuffers {
    /// The buffers of a program in which every `W` comes after its `I`.
    pub(crate) fn assign(program: &Program) -> Self {
        let chain = &program.chain;
        let num_stages = chain.num_stages();
        let buffer = ByMicroBatch::new(num_stages, program.num_micro_batches, 0);
        let mut inputs = Self { buffer, num_weight_input_buffers: vec![0; num_stages] };
        let mut free = vec![Vec::new(); num_stages];
        for &instruction in program.rows.iter().flatten() {
            match instruction {
                Instruction::BackwardInput { unit, micro_batch } if chain.is_last(unit) => {
                    let stage = chain.stage(unit).index();
                    let num_buffers = &mut inputs.num_weight_input_buffers[stage];
                    let taken = free[stage].pop().unwrap_or_else(|| {
                        *num_buffers += 1;
                        *num_buffers - 1
                    });
                    inputs.buffer[(stage, micro_batch)] = taken;
                }
                Instruction::BackwardWeight { unit, micro_batch } if chain.is_first(unit) => {
                    let stage = chain.stage(unit);
                    free[stage.index()].push(inputs.weight_input_buffer(stage, micro_batch));
                }
                _ => {}
            }
        }
        inputs
    }

    /// The buffer of a stage that a micro-batch uses.
    pub(crate) fn weight_input_buffer(&self, stage: Stage, micro_batch: MicroBatch) -> usize {
        self.buffer[(stage.index(), micro_batch)]
    }

    /// Buffers of a stage: 0 where every backward is full.
    pub(crate) fn num_weight_input_buffers(&self, stage: Stage) -> usize {
        self.num_weight_input_buffers[stage.index()]
    }
}

#[cfg(test)]
mod tests {
    use crate::generate::{one_f_one_b, zb_h1, zb_h2};
    use crate::id::Stage;
    use crate::options::LowerOptions;
    use crate::order::ComputeOrder;
    use crate::testing::checked;

    #[test]
    fn a_whole_backward_needs_none_and_weight_gradients_held_back_one_each() {
        let num = |order: &ComputeOrder, stage| {
            checked(order, 2, &LowerOptions::ZERO_1).num_weight_input_buffers(Stage(stage))
        };
        assert_eq!(num(&one_f_one_b(3, 6).unwrap(), 0), 0);
        // One for the gradient that is under way, and the number held back.
        for stage in 0..3 {
            assert_eq!(num(&zb_h1(3, 6).unwrap(), stage), 1 + stage as usize);
            assert_eq!(num(&zb_h2(3, 6).unwrap(), stage), (1 + 2 * stage as usize).min(6));
        }
    }
}
