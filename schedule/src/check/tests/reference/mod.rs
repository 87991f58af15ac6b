//! A reference judge: plays the rows with real buffers and looks at what comes out.
//!
//! It shares nothing with the checker but the chain and the numbers of gradient send buffers and of slots without a backward. Rows are issued in order;
//! computes block; a message is complete when both its ends are issued; every buffer knows what it holds. So it plays
//! rejected programs too, and finds what is missing; the machine plays accepted ones, in every order of the lanes.

mod messages;
mod tail;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::vec::Vec;

use self::messages::{EdgeState, Outgoing};
use crate::chain::Chain;
use crate::id::{MicroBatch, PipelineRank, Stage, Unit};
use crate::instruction::Instruction as I;
use crate::instruction::{Edge, Instruction};
use crate::options::{Reduction, Residency, Weights};
use crate::program::{Program, Purpose};
use crate::send_buffers::SendBuffers;
use crate::unit_facts::UnitSharding;

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// An operand is not there and nothing under way brings it.
    NoOperand,
    /// A buffer is filled before its content was used, or more is held than allowed.
    Overwritten,
    /// A gather is not used, or not given back.
    Wasted,
    /// The two ends of an edge differ.
    OtherMessage,
    /// No rank can go on.
    Deadlock,
    /// Not everything was computed, reduced and stepped once.
    Incomplete,
    /// Done twice.
    Twice,
}

enum Stop {
    Blocked,
    Wrong(Wrong),
}

type Outcome = Result<(), Stop>;

#[derive(Default)]
struct RankState {
    at: usize,
    /// Gathered copies of each unit, oldest first: the number of its gather and whether it was used.
    copies: BTreeMap<Unit, VecDeque<(usize, bool)>>,
    num_gathers: usize,
    /// Every way in which the copies held can lie in the gather buffers: `[buffer]`, the number of the copy.
    /// Begins with none, which stands for all buffers empty.
    contents: BTreeSet<Vec<Option<usize>>>,
    running_forward: Option<(Unit, MicroBatch)>,
    running_gradient: Option<(Unit, MicroBatch)>,
    /// What lies in the buffer for what one unit recomputes.
    recomputed: Option<(Unit, MicroBatch)>,
    /// Gradients of the two buffers.
    gradients: Vec<(Unit, MicroBatch)>,
    in_norm: bool,
}

struct Reference<'a> {
    program: &'a Program,
    /// The executor is given their number, like the number of slots.
    send_buffers: SendBuffers,
    ranks: Vec<RankState>,
    edges: BTreeMap<Edge, EdgeState>,
    /// Each stage's slots, longest free first: what the slot still has to send.
    free_slots: BTreeMap<Stage, VecDeque<Option<Outgoing>>>,
    /// Slots in use.
    slots: BTreeMap<(Stage, MicroBatch), Option<Outgoing>>,
    done: BTreeSet<Instruction>,
    accumulated: BTreeMap<Unit, Vec<MicroBatch>>,
    /// What was reduced micro-batch by micro-batch, and what at once.
    reduced: BTreeMap<Unit, Vec<MicroBatch>>,
    reduced_once: BTreeMap<Unit, Vec<MicroBatch>>,
    stepped: BTreeSet<Unit>,
    tied_added: BTreeSet<(PipelineRank, Unit)>,
}

/// Plays a program to its end.
pub(super) fn play(program: &Program) -> Result<(), Wrong> {
    let send_buffers = SendBuffers::assign(program);
    let mut reference = Reference {
        program,
        ranks: program.rows.iter().map(|_| RankState::default()).collect(),
        edges: BTreeMap::new(),
        free_slots: slots_needed(program, &send_buffers)
            .into_iter()
            .map(|(s, n)| (s, VecDeque::from(vec![None; n])))
            .collect(),
        send_buffers,
        slots: BTreeMap::new(),
        done: BTreeSet::new(),
        accumulated: BTreeMap::new(),
        reduced: BTreeMap::new(),
        reduced_once: BTreeMap::new(),
        stepped: BTreeSet::new(),
        tied_added: BTreeSet::new(),
    };
    loop {
        let mut progressed = false;
        for rank in program.ranks() {
            while let Some(&instruction) = program.row(rank).get(reference.ranks[rank.index()].at) {
                match reference.execute(rank, instruction) {
                    Ok(()) => {
                        reference.ranks[rank.index()].at += 1;
                        progressed = true;
                    }
                    Err(Stop::Blocked) => break,
                    Err(Stop::Wrong(wrong)) => return Err(wrong),
                }
            }
        }
        if !progressed {
            return reference.finish();
        }
    }
}

/// The most micro-batches of a stage at once, one more where an evaluation sends; in front of all that is trained the executor is given their number.
fn slots_needed(program: &Program, send_buffers: &SendBuffers) -> BTreeMap<Stage, usize> {
    let chain = &program.chain;
    let of_stage = |stage| {
        let first = chain.first_unit(stage);
        let reader = read_here_by(chain, stage).filter(|_| program.purpose == Purpose::Evaluation);
        if program.purpose == Purpose::Evaluation && reader.is_none() {
            return (stage, 1 + usize::from(chain.crosses_ranks(Edge::Up(stage))));
        }
        let (mut now, mut most) = (0i64, 0);
        for &instruction in program.row(chain.placement().rank(stage)) {
            now += match instruction {
                I::Forward { unit, .. } => i64::from(unit == first) - i64::from(Some(unit) == reader),
                I::Backward { unit, .. } | I::BackwardWeight { unit, .. } => -i64::from(unit == first),
                _ => 0,
            };
            most = most.max(now);
        }
        let is_front = chain.units()[..=chain.last_unit(stage).index()].iter().all(|unit| unit.is_frozen);
        let sends = is_front && chain.crosses_ranks(Edge::Up(stage));
        (stage, if sends { send_buffers.num_slots(stage) } else { most as usize })
    };
    (0..chain.num_stages() as u32).map(Stage).map(of_stage).collect()
}

/// The first unit of the next stage, if that lies on the same rank and reads this stage's output in its slot.
fn read_here_by(chain: &Chain, stage: Stage) -> Option<Unit> {
    let next = Stage(stage.0 + 1);
    let is_here = next.index() < chain.num_stages() && !chain.crosses_ranks(Edge::Up(stage));
    is_here.then(|| chain.first_unit(next))
}

fn wrong<T>(wrong: Wrong) -> Result<T, Stop> {
    Err(Stop::Wrong(wrong))
}

fn need(holds: bool) -> Outcome {
    if holds { Ok(()) } else { wrong(Wrong::NoOperand) }
}

impl Reference<'_> {
    fn execute(&mut self, rank: PipelineRank, instruction: Instruction) -> Outcome {
        let is_tail = matches!(
            instruction,
            I::AddTied { .. } | I::GradientNorm | I::OptimizerStep { .. } | I::GatherAfterStep { .. }
        );
        if self.ranks[rank.index()].in_norm && !is_tail {
            return wrong(Wrong::Incomplete);
        }
        let recurs = matches!(
            instruction,
            I::Unshard { .. } | I::Reshard { .. } | I::AddTied { .. } | I::GradientNorm
        );
        if self.done.contains(&instruction) && !recurs {
            return wrong(Wrong::Twice);
        }
        match instruction {
            I::Forward { unit, micro_batch } => self.forward(rank, unit, micro_batch)?,
            I::Backward { unit, micro_batch } => {
                self.input_gradient(rank, unit, micro_batch)?;
                self.weight_gradient(rank, unit, micro_batch)?;
            }
            I::BackwardInput { unit, micro_batch } => self.input_gradient(rank, unit, micro_batch)?,
            I::BackwardWeight { unit, micro_batch } => {
                need(self.done.contains(&I::BackwardInput { unit, micro_batch }))?;
                self.weight_gradient(rank, unit, micro_batch)?;
            }
            I::Recompute { unit, micro_batch } => self.recompute(rank, unit, micro_batch)?,
            I::Unshard { unit } => self.unshard(rank, unit)?,
            I::Reshard { unit } => self.reshard(rank, unit)?,
            I::Reduce { unit, micro_batch } => {
                let gradients = &mut self.ranks[rank.index()].gradients;
                let Some(at) = gradients.iter().position(|&made| made == (unit, micro_batch)) else {
                    return wrong(Wrong::NoOperand);
                };
                gradients.remove(at);
                self.reduced.entry(unit).or_default().push(micro_batch);
            }
            I::ReduceLast { unit } | I::AllReduce { unit } => {
                let Some(sum) = self.accumulated.get(&unit) else {
                    return wrong(Wrong::NoOperand);
                };
                self.reduced_once.insert(unit, sum.clone());
            }
            I::Send { edge, micro_batch } => self.send(edge, micro_batch)?,
            I::Receive { edge, micro_batch } => self.receive(edge, micro_batch)?,
            I::AddTied { embedding, head } => self.add_tied(rank, embedding, head)?,
            I::GradientNorm => self.norm(rank)?,
            I::OptimizerStep { unit } => {
                need(self.done.contains(&I::GradientNorm))?;
                self.stepped.insert(unit);
            }
            I::GatherAfterStep { unit } => need(self.stepped.contains(&unit))?,
        }
        self.done.insert(instruction);
        Ok(())
    }

    /// Bytes of the buffers for gathered copies: of the largest units.
    fn buffers(&self, rank: PipelineRank) -> Vec<u64> {
        let facts = self.program.chain.units_on(rank).map(|unit| self.program.chain.facts(unit));
        let mut bytes: Vec<u64> =
            facts.filter(|facts| facts.is_gathered()).map(|facts| facts.num_bytes).collect();
        bytes.sort_unstable();
        let num_buffers = match &self.program.options.weights {
            Weights::Replicated => 0,
            Weights::Sharded { residency: Residency::All, .. } => bytes.len(),
            Weights::Sharded { residency: Residency::Strict, prefetch_units } => 1 + *prefetch_units as usize,
            Weights::Sharded { residency: Residency::Units(units), .. } => units.get() as usize,
            Weights::Sharded { residency: Residency::PerRank(units), .. } => {
                units[rank.index()].get() as usize
            }
        };
        bytes.split_off(bytes.len().saturating_sub(num_buffers))
    }

    fn unshard(&mut self, rank: PipelineRank, unit: Unit) -> Outcome {
        let buffers = self.buffers(rank);
        let num_bytes = self.program.chain.facts(unit).num_bytes;
        let state = &mut self.ranks[rank.index()];
        state.num_gathers += 1;
        if state.contents.is_empty() {
            state.contents.insert(vec![None; buffers.len()]);
        }
        let mut contents = BTreeSet::new();
        for content in &state.contents {
            let fits = |&buffer: &usize| content[buffer].is_none() && buffers[buffer] >= num_bytes;
            for buffer in (0..buffers.len()).filter(fits) {
                let mut content = content.clone();
                content[buffer] = Some(state.num_gathers);
                contents.insert(content);
            }
        }
        if contents.is_empty() {
            return wrong(Wrong::Overwritten);
        }
        state.contents = contents;
        state.copies.entry(unit).or_default().push_back((state.num_gathers, false));
        Ok(())
    }

    fn reshard(&mut self, rank: PipelineRank, unit: Unit) -> Outcome {
        let state = &mut self.ranks[rank.index()];
        let number = match state.copies.entry(unit).or_default().pop_front() {
            Some((number, true)) => number,
            Some((_, false)) => return wrong(Wrong::Wasted),
            None => return wrong(Wrong::NoOperand),
        };
        let free = |held: Option<usize>| held.filter(|&held| held != number);
        let contents = core::mem::take(&mut state.contents).into_iter();
        state.contents = contents.map(|content| content.into_iter().map(free).collect()).collect();
        Ok(())
    }

    fn read_weights(&mut self, rank: PipelineRank, unit: Unit, reads: bool) -> Outcome {
        let facts = self.program.chain.facts(unit);
        let is_mixed = matches!(facts.sharding, UnitSharding::Mixed { .. });
        let is_whole = [UnitSharding::Persistent, UnitSharding::Whole].contains(&facts.sharding)
            || is_mixed && facts.num_bytes == 0;
        if self.program.options.weights == Weights::Replicated || is_whole || !reads {
            return Ok(());
        }
        let oldest = self.ranks[rank.index()].copies.entry(unit).or_default().front_mut();
        need(oldest.map(|(_, is_used)| *is_used = true).is_some())
    }

    fn forward(&mut self, rank: PipelineRank, unit: Unit, micro_batch: MicroBatch) -> Outcome {
        let chain = &self.program.chain;
        let stage = chain.stage(unit);
        let (first, last) = (chain.first_unit(stage), chain.last_unit(stage));
        let input = chain.forward_input(unit);
        let before = stage.0.checked_sub(1).map(Stage).filter(|_| unit == first && input.is_none());
        if unit == first {
            if let Some(edge) = input {
                self.incoming(edge, micro_batch)?;
            }
            // On one rank the stage before leaves its output in its slot.
            let made = |unit| self.done.contains(&I::Forward { unit, micro_batch });
            need(before.is_none_or(|before| made(chain.last_unit(before))))?;
            match self.free_slots[&stage].front() {
                None | Some(Some(Outgoing::Unsent(_))) => return wrong(Wrong::Overwritten),
                Some(Some(Outgoing::UnderWay(_))) => return Err(Stop::Blocked),
                Some(None) => {}
            }
        } else {
            need(self.ranks[rank.index()].running_forward == Some((Unit(unit.0 - 1), micro_batch)))?;
        }
        self.read_weights(rank, unit, chain.facts(unit).forward_reads_weights)?;
        if unit == first {
            if let Some(edge) = input {
                self.consume(edge, micro_batch);
            }
            self.free_slots.get_mut(&stage).unwrap().pop_front();
            self.slots.insert((stage, micro_batch), None);
            if let Some(before) = before.filter(|_| self.program.purpose == Purpose::Evaluation) {
                self.free_slot(before, micro_batch);
            }
        }
        self.ranks[rank.index()].running_forward = Some((unit, micro_batch));
        if chain.facts(unit).recomputes {
            self.ranks[rank.index()].recomputed = None;
        }
        if unit == last {
            let output = chain.crosses_ranks(Edge::Up(stage)).then_some(Outgoing::Unsent(micro_batch));
            self.slots.insert((stage, micro_batch), output);
            if self.program.purpose == Purpose::Evaluation && read_here_by(chain, stage).is_none() {
                self.free_slot(stage, micro_batch);
            }
        }
        Ok(())
    }

    fn recompute(&mut self, rank: PipelineRank, unit: Unit, micro_batch: MicroBatch) -> Outcome {
        let facts = *self.program.chain.facts(unit);
        need(facts.recomputes && self.done.contains(&I::Forward { unit, micro_batch }))?;
        self.read_weights(rank, unit, facts.forward_reads_weights)?;
        let state = &mut self.ranks[rank.index()];
        state.recomputed = Some((unit, micro_batch));
        // It runs where a forward runs.
        state.running_forward = None;
        Ok(())
    }

    fn free_slot(&mut self, stage: Stage, micro_batch: MicroBatch) {
        let output = self.slots.remove(&(stage, micro_batch)).unwrap();
        self.free_slots.get_mut(&stage).unwrap().push_back(output);
    }

    fn input_gradient(&mut self, rank: PipelineRank, unit: Unit, micro_batch: MicroBatch) -> Outcome {
        let chain = &self.program.chain;
        let stage = chain.stage(unit);
        need(self.done.contains(&I::Forward { unit, micro_batch }))?;
        if chain.facts(unit).recomputes {
            need(self.ranks[rank.index()].recomputed == Some((unit, micro_batch)))?;
        }
        let input = chain.backward_input(unit);
        if unit == chain.last_unit(stage) {
            if let Some(edge) = input {
                self.incoming(edge, micro_batch)?;
            } else if read_here_by(chain, stage).is_some() {
                let unit = Unit(unit.0 + 1);
                let made = [I::Backward { unit, micro_batch }, I::BackwardInput { unit, micro_batch }];
                need(made.iter().any(|made| self.done.contains(made)))?;
            }
        } else {
            need(self.ranks[rank.index()].running_gradient == Some((Unit(unit.0 + 1), micro_batch)))?;
        }
        if let Some(edge) = chain.backward_output(unit) {
            let num_buffers = self.send_buffers.num_buffers(edge);
            let edge = self.edges.entry(edge).or_default();
            edge.outgoing.resize(num_buffers, None);
            let buffer = edge.num_made % num_buffers;
            match edge.outgoing[buffer] {
                Some(Outgoing::Unsent(_)) => return wrong(Wrong::Overwritten),
                Some(Outgoing::UnderWay(_)) => return Err(Stop::Blocked),
                None => {}
            }
            edge.outgoing[buffer] = Some(Outgoing::Unsent(micro_batch));
            edge.num_made += 1;
        }
        self.read_weights(rank, unit, chain.facts(unit).backward_reads_weights)?;
        if let Some(edge) = input {
            self.consume(edge, micro_batch);
        }
        self.ranks[rank.index()].running_gradient = Some((unit, micro_batch));
        Ok(())
    }

    /// Whether the unit has gradients that are reduced after every micro-batch, and such that are reduced once.
    fn reductions(&self, unit: Unit) -> [bool; 2] {
        let (facts, options) = (self.program.chain.facts(unit), &self.program.options);
        match facts.sharding {
            _ if facts.is_frozen => [false, false],
            _ if options.reduction != Reduction::ScatterEvery => [false, true],
            _ if options.weights == Weights::Replicated => [true, false],
            // What is whole as under ZeRO-1 is reduced once.
            UnitSharding::Whole => [false, true],
            UnitSharding::Sharded | UnitSharding::Persistent => [true, false],
            UnitSharding::Mixed { persistent_bytes, whole_bytes } => {
                [facts.num_bytes > facts.frozen_bytes || persistent_bytes > 0, whole_bytes > 0]
            }
        }
    }

    fn weight_gradient(&mut self, rank: PipelineRank, unit: Unit, micro_batch: MicroBatch) -> Outcome {
        let stage = self.program.chain.stage(unit);
        let [every, once] = self.reductions(unit);
        if once {
            self.accumulated.entry(unit).or_default().push(micro_batch);
        }
        if every {
            let gradients = &mut self.ranks[rank.index()].gradients;
            if gradients.len() == self.program.options.unreduced.count() {
                return wrong(Wrong::Overwritten);
            }
            gradients.push((unit, micro_batch));
        }
        if unit == self.program.chain.first_unit(stage) {
            self.free_slot(stage, micro_batch);
        }
        Ok(())
    }
}
