//! From how many tokens in a micro-batch on the messages of ZeRO-3 vanish behind its computes.
//!
//! A unit of P parameters in bf16, linear layers alone: `2 P` operations per token forward and `4 P` backward; a gather
//! sends `(d - 1) / d` of `2 P` bytes, a reduction of gradients in f32 the same share of `4 P` bytes. Both grow with P, so
//! that P does not matter: a gather is as long as its forward at `(d - 1) / d * FLOPS / BW` tokens, and where both share a
//! link, gather and reduction together are as long as their backward at 1.5 times as many.

use crate::check::CheckedProgram;
use crate::generate::one_f_one_b;
use crate::id::PipelineRank;
use crate::instruction::Instruction;
use crate::options::{LowerOptions, Residency};
use crate::simulate::{Costs, Links, MessageCost, Timeline, UnitCosts, simulate};

/// A device and the network between `data_degree` of them; the unit of time is that of one operation.
#[derive(Clone, Copy, Debug)]
struct Machine {
    data_degree: u64,
    /// `FLOPS / BW`.
    operations_per_byte: u64,
}

/// About an H100 at 495 TFLOPS, on a network card of 45 GB/s and on NVLink of 350 GB/s; 8 and 2 data ranks. Whole thresholds.
const MACHINES: [Machine; 3] = [
    Machine { data_degree: 8, operations_per_byte: 11_008 },
    Machine { data_degree: 8, operations_per_byte: 1_408 },
    Machine { data_degree: 2, operations_per_byte: 11_008 },
];

const NUM_PARAMETERS: [u64; 3] = [1 << 10, 3 << 16, 12 * 4096 * 4096];

impl Machine {
    /// From how many tokens on a gather takes no longer than its forward.
    fn forward_threshold(self) -> u64 {
        (self.data_degree - 1) * self.operations_per_byte / self.data_degree
    }

    /// From how many tokens on a gather and a reduction over one link take no longer than their backward.
    fn backward_threshold(self) -> u64 {
        3 * self.forward_threshold() / 2
    }

    fn costs(self, program: &CheckedProgram, num_parameters: u64, num_tokens: u64, links: Links) -> Costs {
        let sent = |num_bytes: u64| {
            let bytes = (self.data_degree - 1) * num_bytes / self.data_degree;
            MessageCost::of_link(bytes * self.operations_per_byte, 0)
        };
        let operations = 2 * num_parameters * num_tokens;
        let unit = UnitCosts {
            gather: sent(2 * num_parameters),
            reduce: sent(4 * num_parameters),
            reduce_last: sent(4 * num_parameters),
            ..UnitCosts::of_compute(operations, operations, operations)
        };
        Costs { links, ..Costs::uniform(program, unit, MessageCost::default()) }
    }
}

/// Strict, one unit ahead, on so many ranks.
fn checked(num_ranks: u32, num_micro_batches: u32, units_per_rank: u32) -> CheckedProgram {
    let order = one_f_one_b(num_ranks, num_micro_batches).unwrap();
    crate::testing::checked(&order, units_per_rank, &LowerOptions::zero_3(Residency::Strict, 1))
}

/// How long the only rank of a pipeline waits between computes in its forwards and in its backwards. What comes before the
/// first compute and after the last is left out: the first gather and the last reduction have nothing to hide behind.
fn exposed(program: &CheckedProgram, timeline: &Timeline) -> [u64; 2] {
    let rank = PipelineRank(0);
    let computes = program.row(rank).iter().zip(timeline.row(rank)).filter_map(|(of, span)| match of {
        Instruction::Forward { .. } => Some((0, span)),
        Instruction::Backward { .. } => Some((1, span)),
        _ => None,
    });
    let mut exposed = [0; 2];
    let mut free = None;
    for (phase, span) in computes {
        exposed[phase] += span.start - free.unwrap_or(span.start);
        free = Some(span.end);
    }
    exposed
}

/// For every machine and size of unit, on one rank: what is exposed at so many tokens, nothing, and what at one less.
fn around(
    num_micro_batches: u32,
    links: Links,
    threshold: fn(Machine) -> u64,
    below: impl Fn([u64; 2], u64),
) {
    let program = checked(1, num_micro_batches, 6);
    for (machine, num_parameters) in MACHINES.into_iter().flat_map(|of| NUM_PARAMETERS.map(|num| (of, num))) {
        let of_tokens = |num_tokens| {
            let costs = machine.costs(&program, num_parameters, num_tokens, links);
            exposed(&program, &simulate(&program, &costs).unwrap())
        };
        let threshold = threshold(machine);
        assert_eq!([threshold, 2 * threshold].map(of_tokens), [[0, 0]; 2], "{machine:?}");
        below(of_tokens(threshold - 1), 2 * num_parameters);
    }
}

/// Where they share no link, each for itself: the reduction is twice as long as the gather, and the backward as the forward.
/// Where they do, from 1.5 times as many tokens on.
#[test]
fn computes_hide_gathers_and_reductions_from_the_threshold_on() {
    for num_micro_batches in [1, 3] {
        around(num_micro_batches, Links::Own, Machine::forward_threshold, |[forward, backward], token| {
            // A token's forward is missing at each gather but the first.
            assert!(forward >= 5 * token && forward <= 18 * token, "{forward}");
            assert!(num_micro_batches > 1 || backward >= 2 * token, "{backward}");
        });
        let shared = Links::SharedByCollectives;
        around(num_micro_batches, shared, Machine::backward_threshold, |[forward, backward], token| {
            assert!(backward >= 2 * token, "{backward}");
            assert_eq!(forward, 0, "forwards have time left");
        });
    }
}

/// In a pipeline too: what its ranks wait for gathers and reductions, but for the first of each rank, begins one token below.
#[test]
fn a_pipeline_hides_them_from_the_same_threshold_on() {
    let (machine, num_parameters) = (MACHINES[0], NUM_PARAMETERS[1]);
    let program = checked(4, 12, 3);
    for (links, threshold) in [
        (Links::Own, machine.forward_threshold()),
        (Links::SharedByCollectives, machine.backward_threshold()),
    ] {
        let waited = |num_tokens| {
            let costs = machine.costs(&program, num_parameters, num_tokens, links);
            let timeline = simulate(&program, &costs).unwrap();
            let of_rank = |rank| {
                let bubble = timeline.bubble(&program, PipelineRank(rank));
                bubble.gather + bubble.reduce
            };
            (0..4).map(of_rank).sum::<u64>() - costs.units[0].gather.occupied
        };
        assert_eq!(waited(threshold), 0, "{links:?}");
        assert!(waited(threshold - 1) > 0, "{links:?}");
    }
}
