//! Small programs of many schedules, and programs that are put together of their rows.

use std::num::NonZeroU32;

use pipezero_schedule::check::Wait;
use pipezero_schedule::generate::{
    bfs, eager_1f1b, forward_only, gpipe, interleaved, one_f_one_b, zb_h1, zb_h2, zb_v,
};
use pipezero_schedule::{
    CheckedProgram, ComputeOrder, Instruction, LowerOptions, Program, Residency, Rule, Stage, Tying,
    UnitFacts, lower,
};

/// Two units on each stage, of which the first and the last are tied.
fn units(num_stages: u32) -> Vec<UnitFacts> {
    let last = 2 * num_stages - 1;
    let facts = |unit| UnitFacts {
        backward_reads_weights: unit != 0,
        tying: match unit {
            0 => Tying::Embedding,
            _ if unit == last => Tying::Head,
            _ => Tying::Untied,
        },
        ..UnitFacts::new(Stage(unit / 2), 64)
    };
    (0..=last).map(facts).collect()
}

/// One of each kind of what a program gathers and reduces.
fn all_options() -> [LowerOptions; 5] {
    let two = Residency::Units(NonZeroU32::new(2).unwrap());
    [
        LowerOptions::ZERO_0,
        LowerOptions::ZERO_1,
        LowerOptions::ZERO_2,
        LowerOptions::zero_3(Residency::Strict, 0),
        LowerOptions::zero_3(two, 1),
    ]
}

/// The orders of so many ranks with one stage each.
fn linear_orders(p: u32, m: u32) -> Vec<ComputeOrder> {
    [gpipe, one_f_one_b, eager_1f1b, zb_h1, zb_h2].map(|generate| generate(p, m).unwrap()).to_vec()
}

fn lowered(order: &ComputeOrder, options: &LowerOptions) -> Program {
    lower(order, &units(order.placement.num_stages() as u32), options).unwrap()
}

/// Every schedule on two and three ranks, an evaluation too, with every kind of options.
pub(super) fn generated() -> Vec<CheckedProgram> {
    let mut orders = Vec::new();
    for (p, m) in [(2, 3), (3, 2)] {
        orders.extend(linear_orders(p, m));
        orders.extend([zb_v(p, m), bfs(p, 2, m), forward_only(p, m)].map(Result::unwrap));
        orders.push(interleaved(p, 2, p, p).unwrap());
    }
    let pairs = orders.iter().flat_map(|order| all_options().map(|options| (order, options)));
    pairs.map(|(order, options)| CheckedProgram::new(lowered(order, &options)).unwrap()).collect()
}

/// Programs that no generator makes, by what the checker says of them.
#[derive(Debug, Default)]
pub(super) struct Mutants {
    /// The checker accepts them.
    pub(super) accepted: Vec<CheckedProgram>,
    /// They deadlock, however many buffers there are.
    pub(super) deadlocked: Vec<Program>,
}

/// Every row from one of two orders; and orders of which one transfer of one row is issued some places later.
pub(super) fn mutants() -> Mutants {
    let mut mutants = Mutants::default();
    for options in [LowerOptions::ZERO_0, LowerOptions::zero_3(Residency::Strict, 0)] {
        for (p, m) in [(2, 3), (3, 2)] {
            let programs: Vec<Program> =
                linear_orders(p, m).iter().map(|order| lowered(order, &options)).collect();
            for (one, other) in programs.iter().flat_map(|one| programs.iter().map(move |other| (one, other)))
            {
                for rank in 0..one.rows.len() {
                    let mut mixed = one.clone();
                    mixed.rows[rank].clone_from(&other.rows[rank]);
                    mutants.add(one, mixed);
                }
            }
            programs.iter().for_each(|program| mutants.add_with_late_transfers(program));
        }
    }
    mutants
}

impl Mutants {
    fn add_with_late_transfers(&mut self, program: &Program) {
        for (rank, row) in program.rows.iter().enumerate() {
            let is_transfer =
                |of: &Instruction| matches!(of, Instruction::Send { .. } | Instruction::Receive { .. });
            for from in (0..row.len()).filter(|&at| is_transfer(&row[at])) {
                for to in from + 1..(from + 7).min(row.len()) {
                    let mut mutant = program.clone();
                    let transfer = mutant.rows[rank].remove(from);
                    mutant.rows[rank].insert(to, transfer);
                    self.add(program, mutant);
                }
            }
        }
    }

    /// Keeps a program that differs from this one, if it breaks no rule or that of deadlocks.
    fn add(&mut self, original: &Program, mutant: Program) {
        if mutant == *original {
            return;
        }
        match CheckedProgram::new(mutant.clone()) {
            Ok(accepted) => self.accepted.push(accepted),
            Err(violation) if is_without_buffers(&violation.rule) => self.deadlocked.push(mutant),
            Err(_) => {}
        }
    }
}

/// Whether a rule is the one of deadlocks, and no instruction of the cycle waits for a buffer: it needs what it receives.
fn is_without_buffers(rule: &Rule) -> bool {
    let Rule::Deadlock(cycle) = rule else { return false };
    let next = cycle.iter().cycle().skip(1);
    cycle.iter().zip(next).all(|(of, next)| match of.wait {
        Wait::Need => matches!(next.instruction, Instruction::Receive { .. }),
        Wait::Issue | Wait::Partner => true,
        Wait::Lane => false,
    })
}
