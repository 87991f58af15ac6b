//! The end of the step, and what it must have done.

use std::vec::Vec;

use super::{Outcome, RankState, Reference, Stop, Wrong, need, wrong};
use crate::id::{MicroBatch, PipelineRank, Unit};
use crate::instruction::Instruction;
use crate::options::{Reduction, Weights};
use crate::program::Purpose;
use crate::unit_facts::UnitSharding;

impl Reference<'_> {
    fn reduced_fully(&self, unit: Unit) -> bool {
        let all: Vec<MicroBatch> = (0..self.program.num_micro_batches).map(MicroBatch).collect();
        self.reductions(unit).into_iter().zip([&self.reduced, &self.reduced_once]).all(
            |(is_asked, reduced)| {
                let mut micro_batches = reduced.get(&unit).cloned().unwrap_or_default();
                micro_batches.sort_unstable();
                !is_asked || micro_batches == all
            },
        )
    }

    pub(super) fn add_tied(&mut self, rank: PipelineRank, embedding: Unit, head: Unit) -> Outcome {
        let ranks = [embedding, head].map(|unit| self.program.chain.rank(unit));
        for (unit, on) in [embedding, head].into_iter().zip(ranks) {
            need(on != rank || self.reduced_fully(unit))?;
        }
        if self.ranks[rank.index()].in_norm {
            return wrong(Wrong::Incomplete);
        }
        self.tied_added.insert((rank, embedding));
        let has_joined = |&on: &PipelineRank| self.tied_added.contains(&(on, embedding));
        if ranks.iter().all(has_joined) { Ok(()) } else { Err(Stop::Blocked) }
    }

    pub(super) fn norm(&mut self, rank: PipelineRank) -> Outcome {
        let chain = &self.program.chain;
        for unit in chain.units_on(rank).filter(|&unit| !chain.facts(unit).is_frozen) {
            need(self.reduced_fully(unit))?;
            let mut pairs = chain.tied_pairs().iter();
            let pair = pairs.find(|&&(embedding, head)| unit == embedding || unit == head);
            need(pair.is_none_or(|&(embedding, _)| self.tied_added.contains(&(rank, embedding))))?;
        }
        self.ranks[rank.index()].in_norm = true;
        if self.ranks.iter().all(|state| state.in_norm) { Ok(()) } else { Err(Stop::Blocked) }
    }

    pub(super) fn finish(&self) -> Result<(), Wrong> {
        let ended = |(state, row): (&RankState, &Vec<Instruction>)| state.at == row.len();
        if !self.ranks.iter().zip(&self.program.rows).all(ended) {
            return Err(Wrong::Deadlock);
        }
        if self.ranks.iter().any(|state| state.copies.values().any(|held| !held.is_empty())) {
            return Err(Wrong::Wasted);
        }
        if self.edges.values().any(|state| !state.sends.is_empty() || !state.receives.is_empty()) {
            return Err(Wrong::Incomplete);
        }
        let chain = &self.program.chain;
        let forwards = self.done.iter().filter(|done| matches!(done, Instruction::Forward { .. })).count();
        if forwards != chain.num_units() * self.program.num_micro_batches as usize {
            return Err(Wrong::Incomplete);
        }
        if self.program.purpose == Purpose::Evaluation {
            return Ok(());
        }
        for unit in (0..chain.num_units() as u32).map(Unit) {
            let one_weight =
                |&(embedding, head): &(Unit, Unit)| unit == head && chain.rank(embedding) == chain.rank(head);
            let is_stepped = !chain.facts(unit).is_frozen && !chain.tied_pairs().iter().any(one_weight);
            let gather = Instruction::GatherAfterStep { unit };
            let is_whole = self.program.options.weights == Weights::Replicated
                || chain.facts(unit).sharding != UnitSharding::Sharded;
            let is_split = self.program.options.reduction != Reduction::AllReduceLast;
            let is_gathered = is_stepped && is_whole && is_split;
            if self.stepped.contains(&unit) != is_stepped || self.done.contains(&gather) != is_gathered {
                return Err(Wrong::Incomplete);
            }
        }
        let normed = self.done.contains(&Instruction::GradientNorm);
        if normed { Ok(()) } else { Err(Wrong::Incomplete) }
    }
}
