//! Programs that no generator makes, but the checker accepts, run and give the same bits.

use std::sync::Arc;

use pipezero_config::{ResidencyConfig, Run, UnitLayers, ZeroConfig, ZeroLevel};
use pipezero_plan::Plan;
use pipezero_run::engine::Engine;
use pipezero_schedule::{CheckedProgram, Instruction, Program};
use tests::{Case, Mask, Schedule, in_full, plan_and_batches, small_run, weights_of, zero};

/// Losses, norms and weights after two steps of a plan.
fn bits(run: &Run, program: Option<CheckedProgram>) -> Vec<u64> {
    let (mut plan, source) = plan_and_batches(run.clone(), Mask::Uneven);
    if let Some(program) = program {
        plan = plan.with_training_program(program);
    }
    let mut engine = Engine::new(plan, Arc::clone(&source)).expect("ranks start");
    let mut bits = Vec::new();
    for _ in 0..2 {
        let report = engine.train_batch().expect("a step");
        let loss = report.loss.expect("targets carry loss");
        bits.extend([loss, report.gradient_norm].map(f64::to_bits));
    }
    bits.extend(weights_of(&mut engine).into_values().flatten().map(|value| u64::from(value.to_bits())));
    bits
}

/// ZeRO-3 and ZeRO-2 with gradients that are reduced after every micro-batch.
fn runs() -> Vec<Run> {
    let zero_3 = |resident, prefetch| zero(ZeroLevel::Zero3, ResidencyConfig::Units(resident), prefetch);
    let of_stage = ZeroConfig { unit_layers: UnitLayers::Stage, ..zero_3(1, 0) };
    let grid = Case { data: 2, num_micro_batches: 4, num_layers: 3, ..Case::ONE_RANK };
    let cases = [
        // One unit: its gradients are the only ones.
        Case { zero: of_stage, ..grid.clone() },
        Case { zero: zero(ZeroLevel::Zero2, ResidencyConfig::Units(1), 0), ..grid.clone() },
        Case { zero: zero_3(2, 1), tied: true, ..grid.clone() },
        Case { pipeline: 2, zero: zero_3(3, 1), num_layers: 4, ..grid.clone() },
        Case { pipeline: 2, zero: zero_3(2, 0), num_layers: 4, schedule: Schedule::ZbH1, ..grid },
    ];
    cases.into_iter().map(small_run).collect()
}

/// Every program in which one gather or reduction of one row stands some places earlier or later.
fn mutants(program: &Program) -> Vec<Program> {
    let mut mutants = Vec::new();
    for (rank, row) in program.rows.iter().enumerate() {
        let moves = |of: &Instruction| matches!(of, Instruction::Reduce { .. } | Instruction::Unshard { .. });
        for from in (0..row.len()).filter(|&at| moves(&row[at])) {
            for to in from.saturating_sub(4)..(from + 9).min(row.len()) {
                let mut mutant = program.clone();
                let instruction = mutant.rows[rank].remove(from);
                mutant.rows[rank].insert(to, instruction);
                if mutant != *program {
                    mutants.push(mutant);
                }
            }
        }
    }
    mutants
}

/// Whether two gradients of one unit wait for their reductions at once.
fn holds_two_of_one_unit(program: &Program) -> bool {
    program.rows.iter().any(|row| {
        let mut waiting = vec![0; program.chain.num_units()];
        row.iter().any(|instruction| match *instruction {
            Instruction::Backward { unit, .. } | Instruction::BackwardWeight { unit, .. } => {
                waiting[unit.index()] += 1;
                waiting[unit.index()] > 1
            }
            Instruction::Reduce { unit, .. } => {
                waiting[unit.index()] -= 1;
                false
            }
            _ => false,
        })
    })
}

#[test]
fn what_the_checker_accepts_runs_and_changes_no_bit() {
    let (mut num_run, mut num_rejected, mut num_of_two) = (0, 0, 0);
    for run in runs() {
        let plan = Plan::even_if_refused(run.clone()).expect("a valid run");
        let original = bits(&run, None);
        let program = plan.training().program();
        let checked = mutants(program).into_iter().map(CheckedProgram::new);
        let (accepted, rejected): (Vec<_>, Vec<_>) = checked.partition(Result::is_ok);
        num_rejected += rejected.len();
        let (of_two, others): (Vec<_>, Vec<_>) =
            accepted.into_iter().flatten().partition(|mutant| holds_two_of_one_unit(mutant.program()));
        num_of_two += of_two.len();
        let every = if in_full() { 1 } else { 1 + others.len() / 6 };
        for mutant in of_two
            .into_iter()
            .take(if in_full() { usize::MAX } else { 8 })
            .chain(others.into_iter().step_by(every))
        {
            let text = mutant.program().to_string();
            assert!(
                bits(&run, Some(mutant)) == original,
                "other bits than the run's own program gives:\n{text}"
            );
            num_run += 1;
        }
    }
    println!("{num_run} mutants run, {num_of_two} with two gradients of one unit; {num_rejected} rejected");
    assert!(num_run > 20 && num_of_two > 3 && num_rejected > 100, "{num_run}, {num_of_two}, {num_rejected}");
}
