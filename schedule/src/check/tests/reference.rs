//! A reference judge: plays the rows with real buffers and looks at what comes out.
//!
//! It shares nothing with the checker but the chain. Rows are issued in order; computes block; a message passes when
//! both its ends are issued; every buffer knows what it holds.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::vec::Vec;

use crate::id::{MicroBatch, PipelineRank, Stage, Unit};
use crate::instruction::{Edge, Instruction};
use crate::options::{Reduction, Weights};
use crate::program::{Program, Purpose};

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

/// An outgoing buffer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outgoing {
    Unsent(MicroBatch),
    UnderWay(MicroBatch),
}

#[derive(Default)]
struct EdgeState {
    sends: VecDeque<MicroBatch>,
    receives: VecDeque<MicroBatch>,
    num_received: usize,
    num_made: usize,
    /// Receive buffers: the micro-batch, and whether it has arrived.
    incoming: [Option<(MicroBatch, bool)>; 2],
    /// Gradient send buffers.
    outgoing: [Option<Outgoing>; 2],
}

#[derive(Default)]
struct RankState {
    at: usize,
    /// Gathered copies of each unit and whether each was used, oldest first.
    copies: BTreeMap<Unit, VecDeque<bool>>,
    held: u32,
    running_forward: Option<(Unit, MicroBatch)>,
    running_gradient: Option<(Unit, MicroBatch)>,
    /// Gradients of the two buffers.
    gradients: Vec<(Unit, MicroBatch)>,
    in_norm: bool,
}

struct Reference<'a> {
    program: &'a Program,
    ranks: Vec<RankState>,
    edges: BTreeMap<Edge, EdgeState>,
    /// Each stage's slots, longest free first: what the slot still has to send.
    free_slots: BTreeMap<Stage, VecDeque<Option<Outgoing>>>,
    /// Slots in use.
    slots: BTreeMap<(Stage, MicroBatch), Option<Outgoing>>,
    done: BTreeSet<Instruction>,
    accumulated: BTreeMap<Unit, Vec<MicroBatch>>,
    reduced: BTreeMap<Unit, Vec<MicroBatch>>,
    stepped: BTreeSet<Unit>,
    tied_added: BTreeSet<PipelineRank>,
}

/// Plays a program to its end.
pub(super) fn play(program: &Program) -> Result<(), Wrong> {
    let mut reference = Reference {
        program,
        ranks: program.rows.iter().map(|_| RankState::default()).collect(),
        edges: BTreeMap::new(),
        free_slots: slots_needed(program)
            .into_iter()
            .map(|(s, n)| (s, VecDeque::from(std::vec![None; n])))
            .collect(),
        slots: BTreeMap::new(),
        done: BTreeSet::new(),
        accumulated: BTreeMap::new(),
        reduced: BTreeMap::new(),
        stepped: BTreeSet::new(),
        tied_added: BTreeSet::new(),
    };
    loop {
        let mut progressed = false;
        for rank in (0..program.rows.len() as u32).map(PipelineRank) {
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

/// The most micro-batches of a stage at once, one more where an evaluation sends.
fn slots_needed(program: &Program) -> BTreeMap<Stage, usize> {
    let chain = &program.chain;
    let mut needed = BTreeMap::new();
    for stage in (0..chain.num_stages() as u32).map(Stage) {
        let (mut now, mut most) = (0i64, 0i64);
        for instruction in program.row(chain.placement().rank(stage)) {
            let first = chain.first_unit(stage);
            match instruction {
                Instruction::Forward { unit, .. } if *unit == first => now += 1,
                Instruction::Backward { unit, .. } | Instruction::BackwardWeight { unit, .. }
                    if *unit == first =>
                {
                    now -= 1;
                }
                _ => {}
            }
            most = most.max(now);
        }
        if program.purpose == Purpose::Evaluation {
            most = 1 + i64::from(chain.crosses_ranks(Edge::Up(stage)));
        }
        needed.insert(stage, most as usize);
    }
    needed
}

fn wrong<T>(wrong: Wrong) -> Result<T, Stop> {
    Err(Stop::Wrong(wrong))
}

fn need(holds: bool) -> Outcome {
    if holds { Ok(()) } else { wrong(Wrong::NoOperand) }
}

impl Reference<'_> {
    fn execute(&mut self, rank: PipelineRank, instruction: Instruction) -> Outcome {
        use Instruction as I;
        let is_tail = matches!(
            instruction,
            I::AddTied { .. } | I::GradientNorm | I::OptimizerStep { .. } | I::GatherAfterStep { .. }
        );
        if self.ranks[rank.index()].in_norm && !is_tail {
            return wrong(Wrong::Incomplete);
        }
        if self.done.contains(&instruction)
            && !matches!(
                instruction,
                I::Unshard { .. } | I::Reshard { .. } | I::AddTied { .. } | I::GradientNorm
            )
        {
            return wrong(Wrong::Twice);
        }
        match instruction {
            I::Forward { unit, micro_batch } => self.forward(rank, instruction, unit, micro_batch)?,
            I::Backward { unit, micro_batch } => {
                self.input_gradient(rank, instruction, unit, micro_batch)?;
                self.weight_gradient(rank, unit, micro_batch)?;
            }
            I::BackwardInput { unit, micro_batch } => {
                self.input_gradient(rank, instruction, unit, micro_batch)?
            }
            I::BackwardWeight { unit, micro_batch } => {
                need(self.done.contains(&I::BackwardInput { unit, micro_batch }))?;
                self.weight_gradient(rank, unit, micro_batch)?;
            }
            I::Unshard { unit } => {
                let state = &mut self.ranks[rank.index()];
                state.held += 1;
                if state.held > self.program.options.weights.budget().unwrap() {
                    return wrong(Wrong::Overwritten);
                }
                state.copies.entry(unit).or_default().push_back(false);
            }
            I::Reshard { unit } => {
                let state = &mut self.ranks[rank.index()];
                state.held = state.held.saturating_sub(1);
                match state.copies.entry(unit).or_default().pop_front() {
                    Some(true) => {}
                    Some(false) => return wrong(Wrong::Wasted),
                    None => return wrong(Wrong::NoOperand),
                }
            }
            I::Reduce { unit, micro_batch } => {
                let gradients = &mut self.ranks[rank.index()].gradients;
                let Some(at) = gradients.iter().position(|&made| made == (unit, micro_batch)) else {
                    return wrong(Wrong::NoOperand);
                };
                gradients.remove(at);
                self.reduced.entry(unit).or_default().push(micro_batch);
            }
            I::ReduceLast { unit } | I::AllReduce { unit } => {
                let sum = self.accumulated.entry(unit).or_default().clone();
                self.reduced.insert(unit, sum);
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

    fn read_weights(&mut self, rank: PipelineRank, unit: Unit, reads: bool) -> Outcome {
        if self.program.options.weights == Weights::Replicated || !reads {
            return Ok(());
        }
        match self.ranks[rank.index()].copies.entry(unit).or_default().front_mut() {
            Some(used) => *used = true,
            None => return wrong(Wrong::NoOperand),
        }
        Ok(())
    }

    /// Whether the message is there: blocks while it is under way, fails if it is not.
    fn incoming(&mut self, edge: Edge, micro_batch: MicroBatch) -> Outcome {
        let incoming = self.edges.entry(edge).or_default().incoming;
        match incoming.iter().flatten().find(|(held, _)| *held == micro_batch) {
            Some((_, true)) => Ok(()),
            Some((_, false)) => Err(Stop::Blocked),
            None => wrong(Wrong::NoOperand),
        }
    }

    fn consume(&mut self, edge: Edge, micro_batch: MicroBatch) {
        for buffer in &mut self.edges.entry(edge).or_default().incoming {
            buffer.take_if(|(held, _)| *held == micro_batch);
        }
    }

    fn forward(
        &mut self,
        rank: PipelineRank,
        instruction: Instruction,
        unit: Unit,
        micro_batch: MicroBatch,
    ) -> Outcome {
        let chain = &self.program.chain;
        let stage = chain.stage(unit);
        let (first, last) = (chain.first_unit(stage), chain.last_unit(stage));
        let input = stage.0.checked_sub(1).map(|before| Edge::Up(Stage(before)));
        if unit == first {
            if let Some(edge) = input {
                self.incoming(edge, micro_batch)?;
            }
            match self.free_slots[&stage].front() {
                None => return wrong(Wrong::Overwritten),
                Some(Some(Outgoing::Unsent(_))) => return wrong(Wrong::Overwritten),
                Some(Some(Outgoing::UnderWay(_))) => return Err(Stop::Blocked),
                Some(None) => {}
            }
        } else {
            need(self.ranks[rank.index()].running_forward == Some((Unit(unit.0 - 1), micro_batch)))?;
        }
        self.read_weights(rank, unit, chain.facts(unit).forward_reads_weights)?;
        if self.done.contains(&instruction) {
            return wrong(Wrong::Twice);
        }
        if unit == first {
            if let Some(edge) = input {
                self.consume(edge, micro_batch);
            }
            self.free_slots.get_mut(&stage).unwrap().pop_front();
            self.slots.insert((stage, micro_batch), None);
        }
        self.ranks[rank.index()].running_forward = Some((unit, micro_batch));
        if unit == last {
            let sends = stage.index() + 1 < chain.num_stages();
            let output = sends.then_some(Outgoing::Unsent(micro_batch));
            self.slots.insert((stage, micro_batch), output);
            if self.program.purpose == Purpose::Evaluation {
                self.free_slot(stage, micro_batch);
            }
        }
        Ok(())
    }

    fn free_slot(&mut self, stage: Stage, micro_batch: MicroBatch) {
        let output = self.slots.remove(&(stage, micro_batch)).unwrap();
        self.free_slots.get_mut(&stage).unwrap().push_back(output);
    }

    fn input_gradient(
        &mut self,
        rank: PipelineRank,
        instruction: Instruction,
        unit: Unit,
        micro_batch: MicroBatch,
    ) -> Outcome {
        let chain = &self.program.chain;
        let stage = chain.stage(unit);
        need(self.done.contains(&Instruction::Forward { unit, micro_batch }))?;
        let has_next = stage.index() + 1 < chain.num_stages();
        if unit == chain.last_unit(stage) {
            if has_next {
                self.incoming(Edge::Down(stage), micro_batch)?;
            }
        } else {
            need(self.ranks[rank.index()].running_gradient == Some((Unit(unit.0 + 1), micro_batch)))?;
        }
        if unit == chain.first_unit(stage)
            && let Some(before) = stage.0.checked_sub(1)
        {
            let edge = self.edges.entry(Edge::Down(Stage(before))).or_default();
            let buffer = edge.num_made % 2;
            match edge.outgoing[buffer] {
                Some(Outgoing::Unsent(_)) => return wrong(Wrong::Overwritten),
                Some(Outgoing::UnderWay(_)) => return Err(Stop::Blocked),
                None => {}
            }
            edge.outgoing[buffer] = Some(Outgoing::Unsent(micro_batch));
            edge.num_made += 1;
        }
        self.read_weights(rank, unit, chain.facts(unit).backward_reads_weights)?;
        if self.done.contains(&instruction) {
            return wrong(Wrong::Twice);
        }
        if unit == chain.last_unit(stage) && has_next {
            self.consume(Edge::Down(stage), micro_batch);
        }
        self.ranks[rank.index()].running_gradient = Some((unit, micro_batch));
        Ok(())
    }

    fn weight_gradient(&mut self, rank: PipelineRank, unit: Unit, micro_batch: MicroBatch) -> Outcome {
        let stage = self.program.chain.stage(unit);
        if self.program.options.reduction == Reduction::ScatterEvery {
            let gradients = &mut self.ranks[rank.index()].gradients;
            if gradients.len() == 2 {
                return wrong(Wrong::Overwritten);
            }
            gradients.push((unit, micro_batch));
        } else {
            self.accumulated.entry(unit).or_default().push(micro_batch);
        }
        if unit == self.program.chain.first_unit(stage) {
            self.free_slot(stage, micro_batch);
        }
        Ok(())
    }

    fn send(&mut self, edge: Edge, micro_batch: MicroBatch) -> Outcome {
        let unsent = Some(Outgoing::Unsent(micro_batch));
        let under_way = Some(Outgoing::UnderWay(micro_batch));
        let state = self.edges.entry(edge).or_default();
        let mut buffers: Vec<&mut Option<Outgoing>> = match edge {
            Edge::Down(_) => state.outgoing.iter_mut().collect(),
            Edge::Up(stage) => {
                let free = self.free_slots.get_mut(&stage).unwrap().iter_mut();
                let in_use =
                    self.slots.iter_mut().filter(|((of, _), _)| *of == stage).map(|(_, output)| output);
                free.chain(in_use).collect()
            }
        };
        let Some(buffer) = buffers.iter_mut().find(|buffer| ***buffer == unsent) else {
            return wrong(Wrong::NoOperand);
        };
        **buffer = under_way;
        state.sends.push_back(micro_batch);
        self.pass_messages(edge)
    }

    fn receive(&mut self, edge: Edge, micro_batch: MicroBatch) -> Outcome {
        let state = self.edges.entry(edge).or_default();
        let buffer = &mut state.incoming[state.num_received % 2];
        if buffer.is_some() {
            return wrong(Wrong::Overwritten);
        }
        *buffer = Some((micro_batch, false));
        state.num_received += 1;
        state.receives.push_back(micro_batch);
        self.pass_messages(edge)
    }

    /// Both ends issued: the message passes and its outgoing buffer is free.
    fn pass_messages(&mut self, edge: Edge) -> Outcome {
        let state = self.edges.get_mut(&edge).unwrap();
        let (Some(&sent), Some(&received)) = (state.sends.front(), state.receives.front()) else {
            return Ok(());
        };
        if sent != received {
            return wrong(Wrong::OtherMessage);
        }
        state.sends.pop_front();
        state.receives.pop_front();
        for buffer in state.incoming.iter_mut().flatten() {
            buffer.1 |= buffer.0 == received;
        }
        let under_way = Some(Outgoing::UnderWay(sent));
        let clear = |buffer: &mut Option<Outgoing>| {
            if *buffer == under_way {
                *buffer = None;
            }
        };
        match edge {
            Edge::Down(_) => state.outgoing.iter_mut().for_each(clear),
            Edge::Up(stage) => {
                self.free_slots.get_mut(&stage).unwrap().iter_mut().for_each(clear);
                self.slots
                    .iter_mut()
                    .filter(|((of, _), _)| *of == stage)
                    .for_each(|(_, output)| clear(output));
            }
        }
        Ok(())
    }

    fn reduced_fully(&self, unit: Unit) -> bool {
        let mut micro_batches = self.reduced.get(&unit).cloned().unwrap_or_default();
        micro_batches.sort_unstable();
        micro_batches == (0..self.program.num_micro_batches).map(MicroBatch).collect::<Vec<_>>()
    }

    fn add_tied(&mut self, rank: PipelineRank, embedding: Unit, head: Unit) -> Outcome {
        let ranks = [embedding, head].map(|unit| self.program.chain.rank(unit));
        for (unit, on) in [embedding, head].into_iter().zip(ranks) {
            need(on != rank || self.reduced_fully(unit))?;
        }
        if self.ranks[rank.index()].in_norm {
            return wrong(Wrong::Incomplete);
        }
        self.tied_added.insert(rank);
        if ranks.iter().all(|on| self.tied_added.contains(on)) { Ok(()) } else { Err(Stop::Blocked) }
    }

    fn norm(&mut self, rank: PipelineRank) -> Outcome {
        let chain = &self.program.chain;
        for unit in chain.units_on(rank) {
            need(self.reduced_fully(unit))?;
            let is_tied = chain.tied().is_some_and(|(embedding, head)| unit == embedding || unit == head);
            need(!is_tied || self.tied_added.contains(&rank))?;
        }
        self.ranks[rank.index()].in_norm = true;
        if self.ranks.iter().all(|state| state.in_norm) { Ok(()) } else { Err(Stop::Blocked) }
    }

    fn finish(&self) -> Result<(), Wrong> {
        let ended = |(state, row): (&RankState, &Vec<Instruction>)| state.at == row.len();
        if !self.ranks.iter().zip(&self.program.rows).all(ended) {
            return Err(Wrong::Deadlock);
        }
        if self.ranks.iter().any(|state| state.held > 0) {
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
            let one_weight = |(embedding, head)| unit == head && chain.rank(embedding) == chain.rank(head);
            let is_stepped = !chain.tied().is_some_and(one_weight);
            let gather = Instruction::GatherAfterStep { unit };
            let is_gathered = is_stepped && self.program.options.gather_after_step;
            if self.stepped.contains(&unit) != is_stepped || self.done.contains(&gather) != is_gathered {
                return Err(Wrong::Incomplete);
            }
        }
        let normed = self.done.contains(&Instruction::GradientNorm);
        if normed { Ok(()) } else { Err(Wrong::Incomplete) }
    }
}
