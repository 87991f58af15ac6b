//! Lowering: known counts, and its errors.

use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use super::{LowerError, lower};
use crate::chain::ChainError;
use crate::check::CheckedProgram;
use crate::closed_form::last_rank_gathers;
use crate::generate::{forward_only, gpipe, one_f_one_b};
use crate::id::{MicroBatch, PipelineRank, Stage, Unit};
use crate::instruction::{Edge, Instruction, InstructionKind, Lane};
use crate::options::{LowerOptions, OptionsError, Residency, Weights};
use crate::order::{ComputeKind, ComputeOrder, StageAction};
use crate::placement::Placement;
use crate::program::Program;
use crate::testing::{lowered, resident, units};
use crate::unit_facts::{Tying, UnitFacts};

fn gathers(program: Program) -> Vec<usize> {
    let program = CheckedProgram::new(program).unwrap_or_else(|violation| panic!("{violation}"));
    let ranks = program.ranks();
    ranks.map(|rank| program.count(rank, InstructionKind::Unshard)).collect()
}

/// 48 layers on 4 stages, 3 units of 4 layers each, embedding and head merged into the outer ones, 8 micro-batches.
#[test]
fn the_48_layer_example_gathers_as_often_as_known() {
    let order = one_f_one_b(4, 8).unwrap();
    let lowered = |residency| lowered(&order, 3, &LowerOptions::zero_3(residency, 0));
    assert_eq!(gathers(lowered(Residency::Strict)), [48, 48, 48, 48]);
    assert_eq!(gathers(lowered(resident(1))), [39, 37, 35, 33]);
}

/// The same with embedding and head as units of their own: they break the turns at both ends of the pipeline.
#[test]
fn units_of_embedding_and_head_break_the_turns() {
    let unit = |stage, backward_reads_weights| UnitFacts {
        backward_reads_weights,
        ..UnitFacts::new(Stage(stage), 1)
    };
    let mut units = vec![unit(0, false)];
    units.extend((0..12).map(|layer| unit(layer / 3, true)));
    units.push(unit(3, true));
    let program = lower(&one_f_one_b(4, 8).unwrap(), &units, &LowerOptions::zero_3(resident(1), 0)).unwrap();
    CheckedProgram::new(program.clone()).unwrap_or_else(|violation| panic!("{violation}"));
    let is_layer = |unit: &Unit| (1..13).contains(&unit.0);
    let of_layers = program.rows.iter().map(|row| {
        row.iter().filter(|of| matches!(of, Instruction::Unshard { unit } if is_layer(unit))).count()
    });
    assert_eq!(of_layers.collect::<Vec<_>>(), [43, 37, 35, 41]);
}

#[test]
fn the_last_rank_of_1f1b_gathers_as_little_as_the_closed_form() {
    for p in 1..=3 {
        for m in 1..=6 {
            for num_units in 1..=4 {
                for resident_units in 1..=4 {
                    let options = LowerOptions::zero_3(resident(resident_units), 0);
                    let order = one_f_one_b(p, m).unwrap();
                    let program = lowered(&order, num_units, &options);
                    let of_last = *gathers(program).last().unwrap() as u64;
                    assert_eq!(of_last, last_rank_gathers(m, num_units, resident_units));
                }
            }
        }
    }
}

#[test]
fn prefetch_issues_each_gather_one_use_ahead() {
    for prefetch_units in 0..=2 {
        let options = LowerOptions::zero_3(Residency::Strict, prefetch_units);
        let program = lowered(&one_f_one_b(2, 3).unwrap(), 3, &options);
        for row in &program.rows {
            let mut num_uses = 0;
            let mut num_gathers = 0;
            for instruction in row {
                match instruction.kind() {
                    InstructionKind::Unshard => {
                        num_gathers += 1;
                        let ahead = num_gathers - 1 - num_uses;
                        assert!(ahead <= prefetch_units, "gathered {ahead} uses ahead");
                    }
                    InstructionKind::Forward | InstructionKind::Backward => {
                        let due = (num_uses + 1 + prefetch_units).min(18);
                        assert_eq!(num_gathers, due, "issued before the compute");
                        num_uses += 1;
                    }
                    _ => {}
                }
            }
        }
    }
}

#[test]
fn sends_follow_their_compute_and_reductions_go_with_the_next_backward() {
    let program =
        lower(&one_f_one_b(3, 4).unwrap(), &units(3, 2, false), &LowerOptions::zero_3(Residency::Strict, 1))
            .unwrap();
    let is_backward = |of: &Instruction| matches!(of, Instruction::Backward { .. });
    for row in &program.rows {
        for pair in row.windows(2) {
            if let Instruction::Send { edge, micro_batch } = pair[1] {
                let unit = program.chain.producer(edge);
                let made_by = match edge {
                    Edge::Up(_) => Instruction::Forward { unit, micro_batch },
                    Edge::Down(_) => Instruction::Backward { unit, micro_batch },
                };
                assert_eq!(pair[0], made_by);
            }
        }
        let mut num_with_a_backward = 0;
        for (index, &instruction) in row.iter().enumerate() {
            let Instruction::Reduce { unit, micro_batch } = instruction else { continue };
            let last = row[..index].iter().rfind(|of| is_backward(of));
            assert_eq!(last, Some(&Instruction::Backward { unit, micro_batch }));
            // Directly before the next backward, whose gathers have gone first; or there is none.
            let has_next = row[index..].iter().any(is_backward);
            assert_eq!(is_backward(&row[index + 1]), has_next);
            num_with_a_backward += usize::from(has_next);
        }
        assert_eq!(num_with_a_backward, 4 * 2 - 1);
    }
}

#[test]
fn an_evaluation_has_no_tail_and_no_reduction() {
    let program = lower(&forward_only(2, 3).unwrap(), &units(2, 2, true), &LowerOptions::ZERO_1).unwrap();
    let is_forward = |instruction: &Instruction| {
        matches!(
            instruction.kind(),
            InstructionKind::Forward | InstructionKind::Send | InstructionKind::Receive
        )
    };
    assert!(program.rows.iter().flatten().all(is_forward));
}

#[test]
fn options_that_contradict_each_other_are_errors() {
    let lowered = |options| lower(&gpipe(1, 1).unwrap(), &units(1, 1, false), &options).unwrap_err();
    assert_eq!(
        lowered(LowerOptions::zero_3(resident(2), 2)),
        LowerError::Options(OptionsError::BudgetBelowPrefetch { units: 2, prefetch_units: 2 })
    );
    assert_eq!(
        lowered(LowerOptions { gather_after_step: false, ..LowerOptions::ZERO_1 }),
        LowerError::Options(OptionsError::GatherAfterStep { asked: false })
    );
    assert_eq!(
        lowered(LowerOptions { gather_after_step: true, ..LowerOptions::ZERO_0 }),
        LowerError::Options(OptionsError::GatherAfterStep { asked: true })
    );
    let weights = Weights::Sharded { residency: Residency::Strict, prefetch_units: 0 };
    assert_eq!(
        lowered(LowerOptions { weights, ..LowerOptions::ZERO_0 }),
        LowerError::Options(OptionsError::AllReduceOfShardedWeights)
    );
}

#[test]
fn orders_that_cannot_run_are_errors() {
    let action = |kind, stage, micro_batch| StageAction {
        kind,
        stage: Stage(stage),
        micro_batch: MicroBatch(micro_batch),
    };
    let lowered = |num_micro_batches, rows: Vec<Vec<StageAction>>| {
        let order = ComputeOrder { placement: Placement::linear(2).unwrap(), num_micro_batches, rows };
        lower(&order, &units(2, 1, false), &LowerOptions::ZERO_0).unwrap_err()
    };
    let forward = |stage, micro_batch| action(ComputeKind::Forward, stage, micro_batch);
    let backward = |stage, micro_batch| action(ComputeKind::Backward, stage, micro_batch);
    assert_eq!(lowered(1, vec![vec![]]), LowerError::NumRows { num_rows: 1, num_ranks: 2 });
    assert_eq!(
        lowered(u32::MAX, vec![vec![forward(0, 0)], vec![]]),
        LowerError::NumForwards { num_forwards: 1, expected: 2 * u64::from(u32::MAX) }
    );
    for (rank, misplaced) in [(0, forward(1, 0)), (0, forward(2, 0)), (1, forward(1, 1))] {
        let mut rows = vec![vec![forward(0, 0)], vec![forward(1, 0)]];
        rows[rank][0] = misplaced;
        let expected = LowerError::Misplaced { rank: PipelineRank(rank as u32), action: misplaced };
        assert_eq!(lowered(1, rows), expected);
    }
    let before_its_gradient = lowered(1, vec![vec![backward(0, 0), forward(0, 0)], vec![forward(1, 0)]]);
    let edge = Edge::Down(Stage(0));
    let instruction = Instruction::Backward { unit: Unit(0), micro_batch: MicroBatch(0) };
    let cycle = Vec::new();
    assert_eq!(before_its_gradient, LowerError::Stuck { rank: PipelineRank(0), instruction, edge, cycle });
    let order = gpipe(3, 1).unwrap();
    let chain = lower(&order, &units(2, 1, false), &LowerOptions::ZERO_0).unwrap_err();
    assert_eq!(chain, LowerError::Chain(ChainError::StageWithoutUnit(Stage(2))));
}

/// The receiver wants the third message first, and has buffers for two.
#[test]
fn consuming_out_of_order_with_too_few_buffers_is_an_error() {
    let forward = |stage, micro_batch| StageAction {
        kind: ComputeKind::Forward,
        stage: Stage(stage),
        micro_batch: MicroBatch(micro_batch),
    };
    let lowered = |wanted: [u32; 3]| {
        let rows = vec![
            (0..3).map(|micro_batch| forward(0, micro_batch)).collect(),
            wanted.map(|micro_batch| forward(1, micro_batch)).to_vec(),
        ];
        let order = ComputeOrder { placement: Placement::linear(2).unwrap(), num_micro_batches: 3, rows };
        lower(&order, &units(2, 1, false), &LowerOptions::ZERO_0)
    };
    assert!(matches!(lowered([2, 0, 1]), Err(LowerError::Stuck { rank: PipelineRank(1), .. })));
    let one_late = lowered([1, 0, 2]).unwrap();
    CheckedProgram::new(one_late).unwrap_or_else(|violation| panic!("{violation}"));
}

/// A vocabulary beside small blocks: embedding (whose backward reads no weights) and tied head.
fn tied_vocabulary() -> Vec<UnitFacts> {
    let unit = |stage, num_bytes| UnitFacts::new(Stage(stage), num_bytes);
    let embedding = UnitFacts { backward_reads_weights: false, tying: Tying::Embedding, ..unit(0, 1000) };
    let head = UnitFacts { tying: Tying::Head, ..unit(1, 1000) };
    vec![embedding, unit(0, 10), unit(0, 10), unit(1, 10), unit(1, 10), head]
}

#[test]
fn a_tied_vocabulary_costs_one_huge_buffer() {
    let order = one_f_one_b(2, 4).unwrap();
    for residency in [Residency::Strict, resident(2)] {
        let options = LowerOptions::zero_3(residency, 1);
        let program = CheckedProgram::new(lower(&order, &tied_vocabulary(), &options).unwrap()).unwrap();
        for rank in [PipelineRank(0), PipelineRank(1)] {
            assert_eq!(program.gather_buffers(rank), [1000, 10]);
            assert_eq!(program.high_water(rank).gathered_bytes, 1010);
            let huge = program.chain().units_on(rank).find(|unit| [0, 5].contains(&unit.0));
            for (index, &instruction) in program.row(rank).iter().enumerate() {
                if let Instruction::Unshard { unit } = instruction {
                    let in_huge = program.gather_buffer(rank.at(index)) == 0;
                    assert!(in_huge || Some(unit) != huge, "{unit} in the small buffer");
                }
            }
        }
        let gathers = [0, 1].map(|rank| program.count(PipelineRank(rank), InstructionKind::Unshard));
        match residency {
            Residency::Strict => assert_eq!(gathers, [2 * 4 * 3 - 4, 2 * 4 * 3]),
            _ => assert!(gathers[0] < 20 && gathers[1] < 24, "{gathers:?}"),
        }
    }
}

/// The largest of three takes either buffer in turn; were one a little smaller, its gather would often wait.
#[test]
fn units_of_nearly_equal_size_take_turns_in_equal_buffers() {
    let order = one_f_one_b(1, 3).unwrap();
    let buffers = |sizes: [u64; 3]| {
        let facts = sizes.map(|num_bytes| UnitFacts::new(Stage(0), num_bytes));
        let program = lower(&order, &facts, &LowerOptions::zero_3(Residency::Strict, 1)).unwrap();
        CheckedProgram::new(program).unwrap().gather_buffers(PipelineRank(0)).to_vec()
    };
    assert_eq!(buffers([101, 100, 100]), [101, 101]);
    assert_eq!(buffers([100, 51, 51]), [100, 100]);
    assert_eq!(buffers([100, 50, 50]), [100, 50]);
}

#[test]
fn where_all_stay_each_unit_is_gathered_once_at_its_first_use() {
    for prefetch_units in 0..=2 {
        let options = LowerOptions::zero_3(Residency::All, prefetch_units);
        let program = lower(&one_f_one_b(2, 4).unwrap(), &tied_vocabulary(), &options).unwrap();
        let program = CheckedProgram::new(program).unwrap();
        for (rank, first) in [(PipelineRank(0), 0), (PipelineRank(1), 3)] {
            let gathered: Vec<Unit> = gathered_units(program.row(rank)).collect();
            assert_eq!(gathered, [first, first + 1, first + 2].map(Unit));
            assert_eq!(program.gather_buffers(rank), [1000, 10, 10]);
            let forward = |&of: &Instruction| of.kind() == InstructionKind::Forward;
            let first_use = program.row(rank).iter().position(forward).unwrap();
            let ahead = gathered_units(&program.row(rank)[..first_use]).count();
            assert_eq!(ahead, 1 + prefetch_units as usize);
        }
    }
}

fn gathered_units(row: &[Instruction]) -> impl Iterator<Item = Unit> + '_ {
    row.iter().filter_map(|&of| if let Instruction::Unshard { unit } = of { Some(unit) } else { None })
}

#[test]
fn a_recompute_stands_by_its_backward_and_gathers_nothing_of_its_own() {
    let saved = units(3, 2, true);
    let recomputed: Vec<UnitFacts> =
        saved.iter().map(|&facts| UnitFacts { recomputes: true, ..facts }).collect();
    for options in crate::testing::all_options() {
        let order = one_f_one_b(3, 4).unwrap();
        let plain = lower(&order, &saved, &options).unwrap();
        let program = lower(&order, &recomputed, &options).unwrap();
        CheckedProgram::new(program.clone()).unwrap_or_else(|violation| panic!("{violation}"));
        for (row, plain) in program.rows.iter().zip(&plain.rows) {
            // The embedding's recompute reads weights, its backward does not: one use more.
            if !row.contains(&Instruction::Forward { unit: Unit(0), micro_batch: MicroBatch(0) }) {
                assert!(gathered_units(row).eq(gathered_units(plain)));
            }
            for (index, &instruction) in row.iter().enumerate() {
                let Instruction::Recompute { unit, micro_batch } = instruction else { continue };
                let is_compute = |of: &&Instruction| {
                    of.lane() == Lane::Compute && !matches!(of, Instruction::Reshard { .. })
                };
                let next = row[index + 1..].iter().find(is_compute);
                assert_eq!(next, Some(&Instruction::Backward { unit, micro_batch }));
                if let Some(edge) = program.chain.backward_input(unit) {
                    let receive = Instruction::Receive { edge, micro_batch };
                    assert!(
                        row[..index].contains(&receive),
                        "the gradient can arrive during `{instruction}`"
                    );
                }
            }
        }
        let checked = CheckedProgram::new(program).unwrap();
        for (index, instruction) in checked.row(PipelineRank(0)).iter().enumerate() {
            let waits = checked.waits(PipelineRank(0).at(index));
            let waits_for_receive = waits
                .iter()
                .any(|&wait| checked.row(PipelineRank(0))[wait].kind() == InstructionKind::Receive);
            assert!(instruction.kind() != InstructionKind::Recompute || !waits_for_receive);
        }
    }
    let evaluation = lower(&forward_only(3, 2).unwrap(), &recomputed, &LowerOptions::ZERO_0).unwrap();
    assert!(evaluation.rows.iter().flatten().all(|of| of.kind() != InstructionKind::Recompute));
}

#[test]
fn splitting_the_backward_of_a_unit_that_recomputes_is_an_error() {
    let action = |kind| StageAction { kind, stage: Stage(0), micro_batch: MicroBatch(0) };
    let kinds = [ComputeKind::Forward, ComputeKind::BackwardInput, ComputeKind::BackwardWeight];
    let rows = vec![kinds.map(action).to_vec()];
    let order = ComputeOrder { placement: Placement::linear(1).unwrap(), num_micro_batches: 1, rows };
    let mut units = units(1, 2, false);
    lower(&order, &units, &LowerOptions::ZERO_0).unwrap();
    units[1].recomputes = true;
    let error = lower(&order, &units, &LowerOptions::ZERO_0).unwrap_err();
    let half = action(ComputeKind::BackwardInput);
    assert_eq!(error, LowerError::SplitRecompute { action: half, unit: Unit(1) });
    assert_eq!(
        error.to_string(),
        "0I0 is half a backward of unit 1, which recomputes its activations: between the halves they would occupy \
         the buffer that the next unit needs; use a schedule with full backwards (`B`), or do not recompute"
    );
}

#[test]
fn persistent_units_are_gathered_after_the_step_alone() {
    let mut units = units(2, 2, false);
    units[1].is_persistent = true;
    let rows = |options: &LowerOptions| lower(&one_f_one_b(2, 2).unwrap(), &units, options).unwrap().rows;
    for residency in [Residency::Strict, resident(1), Residency::All] {
        let rows = rows(&LowerOptions::zero_3(residency, 0));
        assert!(rows.iter().flatten().all(|&of| of != Instruction::Unshard { unit: Unit(1) }));
        let tail =
            [Instruction::OptimizerStep { unit: Unit(1) }, Instruction::GatherAfterStep { unit: Unit(1) }];
        assert!(rows[0].ends_with(&tail));
        let num_gathered = |row: &[Instruction]| {
            row.iter().filter(|of| of.kind() == InstructionKind::GatherAfterStep).count()
        };
        assert_eq!((num_gathered(&rows[0]), num_gathered(&rows[1])), (1, 0));
        let reduces = |&of: &Instruction| matches!(of, Instruction::Reduce { unit: Unit(1), .. });
        assert_eq!(rows[0].iter().filter(|of| reduces(of)).count(), 2, "reduced like the rest");
    }
    let whole = rows(&LowerOptions::ZERO_0);
    assert!(whole.iter().flatten().all(|of| of.kind() != InstructionKind::GatherAfterStep));
}

/// Sent 0, 2, 3, 1 and read 2, 0, 1, 3: reading 2 frees a buffer that is not the next one's, reading 0 frees both.
#[test]
fn a_read_out_of_order_can_free_room_for_two_messages() {
    let sent = [0, 2, 3, 1].map(|of| (ComputeKind::Forward, 0, of));
    let read = [2, 0, 1, 3].map(|of| (ComputeKind::Forward, 1, of));
    let action = |(kind, stage, micro_batch)| StageAction {
        kind,
        stage: Stage(stage),
        micro_batch: MicroBatch(micro_batch),
    };
    let backwards = |stage| [0, 1, 2, 3].map(|of| (ComputeKind::Backward, stage, of));
    let rows = [[sent, backwards(0)].concat(), [read, backwards(1)].concat()];
    let rows = rows.map(|row| row.into_iter().map(action).collect()).to_vec();
    let order = ComputeOrder { placement: Placement::linear(2).unwrap(), num_micro_batches: 4, rows };
    for per_stage in 1..=2 {
        let program = lowered(&order, per_stage, &LowerOptions::ZERO_1);
        assert!(CheckedProgram::new(program).is_ok());
    }
}
