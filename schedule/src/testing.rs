//! Shapes and small machines that several tests share.

use alloc::vec::Vec;
use core::num::NonZeroU32;

use crate::check::CheckedProgram;
use crate::closed_form::{
    StageTimes, bfs_makespan, eager_1f1b_makespan, gpipe_makespan, interleaved_makespan, one_f_one_b_makespan,
};
use crate::generate::{
    bfs, eager_1f1b, forward_only, forward_only_on, gpipe, interleaved, one_f_one_b, zb_h1, zb_h2, zb_v,
};
use crate::id::{MicroBatch, PipelineRank, Stage};
use crate::instruction::Instruction;
use crate::lower::lower;
use crate::options::{LowerOptions, Reduction, Residency, UnreducedGradients, Weights};
use crate::order::{ComputeKind, ComputeOrder, StageAction};
use crate::placement::Placement;
use crate::program::Program;
use crate::simulate::{Costs, Links, MessageCost, UnitCosts};
use crate::unit_facts::{Tying, UnitFacts, UnitSharding};

#[path = "../../tests/harness/sample.rs"]
#[allow(unreachable_pub, reason = "in the crate `tests` it is public")]
mod sample;

pub(crate) use sample::{Sample, in_full};

/// `per_stage` units on each stage. Tied: the first unit is the embedding, the last the head; untied: all alike.
pub(crate) fn units(num_stages: u32, per_stage: u32, tied: bool) -> Vec<UnitFacts> {
    let num_units = num_stages * per_stage;
    let facts = |unit| UnitFacts {
        backward_reads_weights: !(tied && unit == 0),
        tying: match unit {
            0 if tied => Tying::Embedding,
            _ if tied && unit + 1 == num_units => Tying::Head,
            _ => Tying::Untied,
        },
        ..UnitFacts::new(Stage(unit / per_stage), 64)
    };
    (0..num_units).map(facts).collect()
}

/// Units of three sizes, tied, where there are six in two slices. Every second one recomputes. Of every five the second is mixed of two or three kinds, where the number of units is odd of none that is sharded, the third
/// persistent and the fourth whole. Frozen are the fifth of every seven and the last of every four; where the number of units is a multiple of four, the tied ones and
/// the first half too, so that stages are in front of all that is trained. Of others a part is frozen: of what is sharded 8 bytes in every second unit, of what is mixed in places all that is gathered.
pub(crate) fn mixed_units(num_stages: u32, per_stage: u32) -> Vec<UnitFacts> {
    let num_units = num_stages * per_stage;
    let mut mixed = units(num_stages, per_stage, num_units > 1);
    for (index, facts) in mixed.iter_mut().enumerate() {
        facts.num_bytes = [64, 256, 16][index % 3];
        facts.recomputes = index % 2 == 1;
        if num_units >= 6 && index == 1 {
            (facts.tying, facts.backward_reads_weights) = (Tying::Embedding, false);
        } else if num_units >= 6 && index as u32 + 2 == num_units {
            facts.tying = Tying::Head;
        }
        facts.sharding = match index % 5 {
            _ if facts.tying != Tying::Untied => UnitSharding::Sharded,
            1 => UnitSharding::Mixed {
                persistent_bytes: [32, 0][index / 5 % 2],
                whole_bytes: [16, 32, 0][index / 5 % 3],
            },
            2 => UnitSharding::Persistent,
            3 => UnitSharding::Whole,
            _ => UnitSharding::Sharded,
        };
        if matches!(facts.sharding, UnitSharding::Mixed { .. }) && num_units % 2 == 1 {
            facts.num_bytes = 0;
        }
        facts.frozen_bytes = match facts.sharding {
            _ if facts.tying != Tying::Untied => 0,
            UnitSharding::Sharded if index % 2 == 0 => 8,
            UnitSharding::Mixed { persistent_bytes: 0, whole_bytes: 0 } => 0,
            UnitSharding::Mixed { .. } if index % 3 == 1 => facts.num_bytes,
            _ => 0,
        };
        facts.is_frozen = match facts.tying {
            _ if num_units.is_multiple_of(4) && (2 * index as u32) < num_units => true,
            Tying::Untied => index % 7 == 4 || index % 4 == 3,
            Tying::Embedding | Tying::Head => num_units.is_multiple_of(4),
        };
        if facts.is_frozen {
            facts.frozen_bytes = 0;
        }
    }
    mixed
}

/// The program of an order that runs, with `per_stage` equal, untied units on each stage.
pub(crate) fn lowered(order: &ComputeOrder, per_stage: u32, options: &LowerOptions) -> Program {
    let units = units(order.placement.num_stages() as u32, per_stage, false);
    lower(order, &units, options).unwrap_or_else(|error| panic!("{error}\n{}", order.to_csv()))
}

/// As [`lowered`], checked.
pub(crate) fn checked(order: &ComputeOrder, per_stage: u32, options: &LowerOptions) -> CheckedProgram {
    CheckedProgram::new(lowered(order, per_stage, options))
        .unwrap_or_else(|violation| panic!("{violation}\n{}", order.to_csv()))
}

pub(crate) fn resident(units: u32) -> Residency {
    Residency::Units(NonZeroU32::new(units).unwrap())
}

/// An instruction by its text form.
pub(crate) fn instruction(text: &str) -> Instruction {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

/// An action by its cell in PyTorch's form.
pub(crate) fn action(cell: &str) -> StageAction {
    let (stage, rest) = cell.split_at(cell.find(char::is_alphabetic).unwrap());
    let kind = ComputeKind::ALL.into_iter().find(|kind| rest.starts_with(kind.letter())).unwrap();
    let [stage, micro_batch] = [stage, &rest[1..]].map(|number| number.parse().unwrap());
    StageAction { kind, stage: Stage(stage), micro_batch: MicroBatch(micro_batch) }
}

/// An order by the ranks of its stages and its rows of cells, whether it can run or not.
pub(crate) fn order(ranks: &[u32], num_micro_batches: u32, rows: &[&str]) -> ComputeOrder {
    let placement = Placement::new(ranks.iter().copied().map(PipelineRank).collect()).unwrap();
    let rows = rows.iter().map(|cells| cells.split_whitespace().map(action).collect()).collect();
    ComputeOrder { placement, num_micro_batches, rows }
}

/// As [`resident`], with these numbers in turn for the pipeline ranks.
pub(crate) fn resident_in_turn(units: &[u32], num_ranks: u32) -> Residency {
    let in_turn = units.iter().map(|&units| NonZeroU32::new(units).unwrap()).cycle();
    Residency::PerRank(in_turn.take(num_ranks as usize).collect())
}

/// Every kind of options for so many pipeline ranks, with buffers for up to three units.
pub(crate) fn all_options(num_ranks: u32) -> Vec<LowerOptions> {
    let mut all = vec![LowerOptions::ZERO_0, LowerOptions::ZERO_1, LowerOptions::ZERO_2];
    for reduction in [Reduction::ScatterEvery, Reduction::ScatterLast] {
        for prefetch_units in 0..=1 {
            let mut residencies = vec![Residency::Strict];
            residencies.extend((1 + prefetch_units..=3).map(resident));
            for residency in residencies {
                let weights = Weights::Sharded { residency, prefetch_units };
                all.push(LowerOptions { weights, reduction, ..LowerOptions::ZERO_0 });
            }
        }
    }
    for prefetch_units in [0, 1] {
        let in_turn = resident_in_turn(&[1 + prefetch_units, 3, 2], num_ranks);
        all.extend([Residency::All, in_turn].map(|of| LowerOptions::zero_3(of, prefetch_units)));
    }
    all.extend(options_in_turn());
    all
}

/// Options with one gradient buffer.
pub(crate) fn options_in_turn() -> Vec<LowerOptions> {
    let overlapped = [
        LowerOptions::ZERO_2,
        LowerOptions::zero_3(Residency::Strict, 0),
        LowerOptions::zero_3(resident(2), 1),
    ];
    overlapped.map(|of| LowerOptions { unreduced: UnreducedGradients::One, ..of }).into()
}

/// The orders with one stage on each rank.
pub(crate) fn all_orders(num_ranks: u32, num_micro_batches: u32) -> [ComputeOrder; 4] {
    [one_f_one_b, eager_1f1b, gpipe, forward_only]
        .map(|generate| generate(num_ranks, num_micro_batches).unwrap())
}

/// The orders with several stages on each rank, of all group sizes that differ.
pub(crate) fn looped_orders(num_ranks: u32, num_virtual: u32, num_micro_batches: u32) -> Vec<ComputeOrder> {
    let (p, v, m) = (num_ranks, num_virtual, num_micro_batches);
    let mut orders = vec![bfs(p, v, m).unwrap()];
    orders.push(forward_only_on(&Placement::looped(p, v).unwrap(), m).unwrap());
    orders.extend((p..=m.max(p)).map(|group_size| interleaved(p, v, m, group_size).unwrap()));
    orders
}

/// Every program of up to these sizes.
pub(crate) fn all_programs(
    num_ranks: u32,
    num_micro_batches: u32,
    per_stage: u32,
) -> impl Iterator<Item = Program> {
    (1..=num_ranks).flat_map(move |p| {
        (1..=num_micro_batches).flat_map(move |m| {
            (1..=per_stage).flat_map(move |per_stage| {
                let mut models = vec![units(p, per_stage, false), mixed_units(p, per_stage)];
                if p * per_stage > 1 {
                    models.push(units(p, per_stage, true));
                }
                models.into_iter().flat_map(move |units| {
                    all_options(p).into_iter().flat_map(move |options| {
                        all_orders(p, m).map(|order| lower(&order, &units, &options).unwrap())
                    })
                })
            })
        })
    })
}

/// Every generator in two sizes, an evaluation too, under every kind of options, with equal units and with unlike ones.
pub(crate) fn generated_programs() -> Vec<CheckedProgram> {
    let mut programs = Vec::new();
    for (p, m) in [(1, 2), (3, 4), (2, 5)] {
        let mut orders = all_orders(p, m).to_vec();
        orders.extend([zb_h1(p, m), zb_h2(p, m), zb_v(p, m), bfs(p, 2, m)].map(Result::unwrap));
        orders.push(interleaved(p, 2, m, p).unwrap());
        for (order, options) in
            orders.iter().flat_map(|of| all_options(p).into_iter().map(move |with| (of, with)))
        {
            let num_stages = order.placement.num_stages() as u32;
            for units in [units(num_stages, 2, false), mixed_units(num_stages, 2)] {
                // What recomputes has full backwards.
                programs
                    .extend(lower(order, &units, &options).ok().map(|of| CheckedProgram::new(of).unwrap()));
            }
        }
    }
    assert!(programs.len() > 500, "{}", programs.len());
    programs
}

/// Times that differ from unit to unit and edge to edge, none of them 0; every other time with collectives that share a link.
pub(crate) fn uneven_costs(program: &CheckedProgram, seed: u64) -> Costs {
    let mut random = Random(seed);
    let mut below = |bound| 1 + random.below(bound) as u64;
    let mut costs = Costs::uniform(program, UnitCosts::default(), MessageCost::default());
    for unit in &mut costs.units {
        let mut cost = || MessageCost::of_link(below(9), below(5));
        (unit.gather, unit.reduce, unit.gather_after_step) = (cost(), cost(), cost());
        unit.reduce_last = cost();
        (unit.forward, unit.backward_input, unit.backward_weight) = (below(9), below(9), below(9));
        unit.backward = unit.backward_input + unit.backward_weight;
        (unit.recompute, unit.optimizer_step) = (unit.forward, below(4));
    }
    for edge in &mut costs.edges {
        *edge = MessageCost::of_link(below(6), below(6));
    }
    (costs.add_tied, costs.gradient_norm) = (below(5), below(5));
    costs.links = if seed.is_multiple_of(2) { Links::Own } else { Links::SharedByCollectives };
    costs
}

/// Asserts that the makespans of orders are those of the closed forms: all small sizes, with several times of which
/// none divides another, and hops on both sides of each range.
pub(crate) fn assert_makespans_are_closed_forms(makespan: impl Fn(&ComputeOrder, StageTimes) -> u64) {
    let all_times = [(3, 5), (5, 3), (4, 4), (2, 9)]
        .into_iter()
        .flat_map(|(f, b)| (0..=6).map(move |c| StageTimes { forward: f, backward: b, hop: c }));
    let mut num_held = [0; 5];
    for (times, p, m) in all_times.flat_map(|of| (1..=5).flat_map(move |p| (1..=12).map(move |m| (of, p, m))))
    {
        let mut hold = |schedule: usize, form: Option<u64>, order: ComputeOrder| {
            if let Some(form) = form {
                assert_eq!(makespan(&order, times), form, "schedule {schedule}, p {p}, m {m}, {times:?}");
                num_held[schedule] += 1;
            }
        };
        hold(0, gpipe_makespan(p, m, times), gpipe(p, m).unwrap());
        hold(1, one_f_one_b_makespan(p, m, times), one_f_one_b(p, m).unwrap());
        hold(2, eager_1f1b_makespan(p, m, times), eager_1f1b(p, m).unwrap());
        for v in 2..=4 {
            hold(3, interleaved_makespan(p, v, m, times), interleaved(p, v, m, p).unwrap());
            hold(4, bfs_makespan(p, v, m, times), bfs(p, v, m).unwrap());
        }
    }
    assert!(num_held.iter().all(|&num_held| num_held > 300), "{num_held:?}");
}

/// Knuth's MMIX linear congruential generator: the same numbers on every machine.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % bound as u64) as usize
    }
}
