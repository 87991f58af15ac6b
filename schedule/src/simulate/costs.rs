//! What each instruction costs.

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use super::wrong_length::{Listed, WrongLength};
use crate::check::CheckedProgram;
use crate::id::{PipelineRank, Unit};
#[cfg(doc)]
use crate::instruction::Edge;
use crate::instruction::Instruction;
use crate::options::Reduction;

/// What a message costs, in the unit of time of all other costs.
///
/// ```text
/// row      | issue |  next instructions        | landing |  the one that waits
/// link             | occupied |
/// message                     | latency |
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageCost {
    /// How long each of its ranks is busy issuing it; then it is sent.
    pub issue: u64,
    /// How long it occupies its link.
    pub occupied: u64,
    /// How much later it arrives; meanwhile its link is free.
    pub latency: u64,
    /// How long each of its ranks is busy completing it, once something waits for it.
    pub landing: u64,
}

impl MessageCost {
    /// A message that costs its ranks no time of their own.
    pub const fn of_link(occupied: u64, latency: u64) -> Self {
        Self { issue: 0, occupied, latency, landing: 0 }
    }

    /// From the start of its issue to the end of its completion, if its link is free.
    pub(in crate::simulate) fn total(self) -> u128 {
        [self.issue, self.occupied, self.latency, self.landing].into_iter().map(u128::from).sum()
    }
}

/// What the instructions of a unit cost, for one micro-batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnitCosts {
    /// `F`.
    pub forward: u64,
    /// `B`.
    pub backward: u64,
    /// `I`.
    pub backward_input: u64,
    /// `W`.
    pub backward_weight: u64,
    /// `R`.
    pub recompute: u64,
    /// Its part of `GRAD_NORM`, before the ranks synchronize.
    pub gradient_norm: u64,
    /// `STEP`, once a step.
    pub optimizer_step: u64,
    /// `UNSHARD`.
    pub gather: MessageCost,
    /// `REDUCE`.
    pub reduce: MessageCost,
    /// `REDUCE_LAST`, `ALL_REDUCE`.
    pub reduce_last: MessageCost,
    /// `GATHER_STEP`.
    pub gather_after_step: MessageCost,
}

impl UnitCosts {
    /// A unit that only computes; its full backward costs both halves.
    pub fn of_compute(forward: u64, backward_input: u64, backward_weight: u64) -> Self {
        Self {
            forward,
            backward: backward_input + backward_weight,
            backward_input,
            backward_weight,
            recompute: forward,
            ..Self::default()
        }
    }
}

/// Which messages occupy the same link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Links {
    /// A link for each lane.
    #[default]
    Own,
    /// Gathers and reductions of a rank in turn over one link, in the order of their issue; every stage edge has its own.
    SharedByCollectives,
}

/// What every instruction of a program costs, in one unit of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// `[unit]`
    pub units: Vec<UnitCosts>,
    /// `[edge]`, by [`Edge::index`]: a message over it, with the same issue and completion at both ends. For
    /// edges within a rank it is ignored: they cost nothing.
    pub edges: Vec<MessageCost>,
    /// An `ADD_TIED`, from when both ranks have joined.
    pub add_tied: u64,
    /// `GRAD_NORM`, from when all ranks have joined.
    pub gradient_norm: u64,
    /// Which messages occupy the same link.
    pub links: Links,
}

/// Why costs do not fit a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CostsError {
    /// There are costs for another number of units or edges.
    Length(WrongLength),
    /// The times of all instructions add up to more than a `u64` can hold.
    TooLong {
        /// What all instructions cost together.
        total: u128,
    },
}

impl fmt::Display for CostsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(wrong) => wrong.fmt(f),
            Self::TooLong { total } => write!(
                f,
                "all instructions together cost {total}, and times go up to {}: make times shorter, or the step",
                u64::MAX
            ),
        }
    }
}

impl core::error::Error for CostsError {}

impl Costs {
    /// All units of a program alike, and all edges.
    pub fn uniform(program: &CheckedProgram, unit: UnitCosts, edge: MessageCost) -> Self {
        let num_edges = program.chain().num_edges();
        Self { units: vec![unit; program.units().len()], edges: vec![edge; num_edges], ..Self::default() }
    }

    /// How long the instruction itself takes its rank; nothing for a message.
    pub(super) fn compute(&self, instruction: Instruction) -> u64 {
        let of = |unit: Unit| &self.units[unit.index()];
        match instruction {
            Instruction::Forward { unit, .. } => of(unit).forward,
            Instruction::Backward { unit, .. } => of(unit).backward,
            Instruction::BackwardInput { unit, .. } => of(unit).backward_input,
            Instruction::BackwardWeight { unit, .. } => of(unit).backward_weight,
            Instruction::Recompute { unit, .. } => of(unit).recompute,
            Instruction::AddTied { .. } => self.add_tied,
            Instruction::GradientNorm => self.gradient_norm,
            Instruction::OptimizerStep { unit } => of(unit).optimizer_step,
            _ => 0,
        }
    }

    /// What the instruction's message costs; nothing for one that sends none.
    ///
    /// # Panics
    /// If the costs are of another program, without its unit or edge.
    pub fn message(&self, instruction: Instruction) -> MessageCost {
        let of = |unit: Unit| &self.units[unit.index()];
        match instruction {
            Instruction::Unshard { unit } => of(unit).gather,
            Instruction::GatherAfterStep { unit } => of(unit).gather_after_step,
            Instruction::Reduce { unit, .. } => of(unit).reduce,
            Instruction::ReduceLast { unit } | Instruction::AllReduce { unit } => of(unit).reduce_last,
            Instruction::Send { edge, .. } | Instruction::Receive { edge, .. } => self.edges[edge.index()],
            _ => MessageCost::default(),
        }
    }

    /// A rank's part of the norm, before it joins the other ranks.
    pub(super) fn own_norm(&self, program: &CheckedProgram, rank: PipelineRank) -> u64 {
        program.chain().units_on(rank).map(|unit| self.units[unit.index()].gradient_norm).sum()
    }

    /// Whether messages take some of their ranks' own time.
    pub(super) fn hold_ranks(&self) -> bool {
        self.messages().any(|cost| cost.issue > 0 || cost.landing > 0)
    }

    /// Those of all messages.
    fn messages(&self) -> impl Iterator<Item = MessageCost> + '_ {
        let of_units = self
            .units
            .iter()
            .flat_map(|unit| [unit.gather, unit.reduce, unit.reduce_last, unit.gather_after_step]);
        of_units.chain(self.edges.iter().copied())
    }

    /// Whether it matters that the messages of a lane are completed in turn: not where that takes no time and
    /// they arrive in that order.
    pub(super) fn land_in_turn(&self, program: &CheckedProgram) -> bool {
        fn differ(mut latencies: impl Iterator<Item = u64>) -> bool {
            latencies.next().is_some_and(|first| latencies.any(|latency| latency != first))
        }
        let options = program.options();
        let reductions = self.units.iter().zip(program.units()).flat_map(|(unit, facts)| {
            let every = options.reduces(facts, Reduction::ScatterEvery).then_some(unit.reduce);
            let last = options.accumulates(facts).then_some(unit.reduce_last);
            every.into_iter().chain(last)
        });
        self.hold_ranks()
            || differ(self.units.iter().map(|unit| unit.gather.latency))
            || differ(reductions.map(|cost| cost.latency))
    }

    /// Whether these are costs of a program, and no time of it can overflow: no end is later than all instructions one
    /// after the other.
    pub(super) fn check(&self, program: &CheckedProgram) -> Result<(), CostsError> {
        let check = |of, length| WrongLength::check("costs", of, length, program).map_err(CostsError::Length);
        let num_units = self.units.len();
        check(Listed::Units, num_units)?;
        check(Listed::Edges, self.edges.len())?;
        let mut longest = u128::from(self.add_tied.max(self.gradient_norm));
        for unit in &self.units {
            let computes = [
                unit.forward,
                unit.backward,
                unit.backward_input,
                unit.backward_weight,
                unit.recompute,
                unit.gradient_norm,
                unit.optimizer_step,
            ];
            longest = computes.into_iter().map(u128::from).fold(longest, u128::max);
        }
        longest = self.messages().map(MessageCost::total).fold(longest, u128::max);
        // The quick bound first; the exact sum only where it does not settle the matter. The norm has a part for each unit.
        let num_instructions = program.program().rows.iter().map(|row| row.len() + num_units).sum::<usize>();
        if longest.saturating_mul(num_instructions as u128) < u128::from(u64::MAX) {
            return Ok(());
        }
        let cost = |&instruction: &Instruction| match instruction {
            Instruction::GradientNorm => {
                let parts = self.units.iter().map(|unit| u128::from(unit.gradient_norm));
                u128::from(self.gradient_norm) + parts.sum::<u128>()
            }
            _ => u128::from(self.compute(instruction)) + self.message(instruction).total(),
        };
        let total = program.program().rows.iter().flatten().map(cost).fold(0, u128::saturating_add);
        // The largest time stands for "not yet".
        if total < u128::from(u64::MAX) { Ok(()) } else { Err(CostsError::TooLong { total }) }
    }
}
