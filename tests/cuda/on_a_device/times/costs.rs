//! What the instructions of a step cost, read off the step.

use std::collections::BTreeMap;

use pipezero_plan::Plan;
use pipezero_schedule::simulate::{Costs, Links, MessageCost, UnitCosts};
use pipezero_schedule::{Instruction, InstructionKind, Lane, PipelineRank, Unit};

use super::ran::{Ran, Step, is_joint_addition};

/// The least that instructions of one kind and unit or edge cost: one that took longer has waited for something, which is the simulator's to say.
#[derive(Debug, Default)]
struct Least(BTreeMap<(InstructionKind, usize), [u64; 3]>);

impl Least {
    /// Issue, time under way and landing of a message; of what is computed the time alone.
    fn add(&mut self, instruction: Instruction, ran: Ran) {
        let cost = match ran.under_way {
            None => [ran.ended - ran.started, 0, 0],
            Some(span) => [ran.issued - ran.started, span.end - span.start, ran.ended - ran.arrived],
        };
        let index = match instruction.lane() {
            Lane::Edge(edge) => edge.index(),
            _ => instruction.unit().map_or(0, Unit::index),
        };
        let least = self.0.entry((instruction.kind(), index)).or_insert(cost);
        *least = [0, 1, 2].map(|part| least[part].min(cost[part]));
    }

    fn of(&self, kind: InstructionKind, index: usize) -> [u64; 3] {
        self.0.get(&(kind, index)).copied().unwrap_or_default()
    }

    fn message(&self, kinds: &[InstructionKind], index: usize) -> MessageCost {
        let costs = kinds.iter().map(|&kind| self.of(kind, index));
        let [issue, occupied, landing] = costs.max().unwrap_or_default();
        MessageCost { issue, occupied, latency: 0, landing }
    }
}

/// What ranks do together on their compute queues: norms and tied additions.
#[derive(Debug, Default)]
struct Joint {
    /// `[pipeline rank]`: a rank's own part of the norm.
    own_norms: BTreeMap<usize, u64>,
    /// When the last rank had done its own part, and when all had ended.
    joined: BTreeMap<InstructionKind, u64>,
    ended: BTreeMap<InstructionKind, u64>,
}

impl Joint {
    fn add(&mut self, pipeline_rank: usize, kind: InstructionKind, ran: Ran, is_alone: bool) {
        let joins_ns = if is_alone { ran.started } else { ran.awaited };
        if kind == InstructionKind::GradientNorm {
            self.own_norms.insert(pipeline_rank, joins_ns - ran.started);
        }
        let last = self.joined.entry(kind).or_default();
        *last = joins_ns.max(*last);
        self.ended.insert(kind, ran.ended);
    }

    fn cost(&self, kind: InstructionKind) -> u64 {
        self.ended.get(&kind).map_or(0, |ended| ended - self.joined[&kind])
    }
}

/// What the instructions of a step cost.
pub(super) fn costs(plan: &Plan, step: &Step) -> Costs {
    use InstructionKind as Kind;
    let (program, grid) = (plan.training(), plan.grid());
    let (mut least, mut joint) = (Least::default(), Joint::default());
    for (rank, ran) in step.iter().enumerate() {
        let pipeline_rank = grid.pipeline_rank(rank);
        let row = program.row(PipelineRank(pipeline_rank as u32));
        for (&instruction, &ran) in row.iter().zip(ran) {
            let kind = instruction.kind();
            let is_addition = kind == Kind::AddTied;
            if is_addition || kind == Kind::GradientNorm {
                let is_alone = is_addition && !is_joint_addition(program, instruction);
                joint.add(pipeline_rank, kind, ran, is_alone);
            } else {
                least.add(instruction, ran);
            }
        }
    }
    let chain = program.chain();
    let unit = |unit: Unit| {
        let compute = |kind| least.of(kind, unit.index())[0];
        let message = |kinds: &[Kind]| least.message(kinds, unit.index());
        let rank = chain.rank(unit);
        // Only the sum over a rank counts, so its first unit stands for all.
        let is_first = chain.units_on(rank).next() == Some(unit);
        UnitCosts {
            forward: compute(Kind::Forward),
            backward: compute(Kind::Backward),
            backward_input: compute(Kind::BackwardInput),
            backward_weight: compute(Kind::BackwardWeight),
            recompute: compute(Kind::Recompute),
            optimizer_step: compute(Kind::OptimizerStep),
            gradient_norm: if is_first { joint.own_norms[&rank.index()] } else { 0 },
            gather: message(&[Kind::Unshard]),
            reduce: message(&[Kind::Reduce]),
            reduce_last: message(&[Kind::ReduceLast, Kind::AllReduce]),
            gather_after_step: message(&[Kind::GatherAfterStep]),
        }
    };
    Costs {
        units: (0..chain.num_units() as u32).map(|index| unit(Unit(index))).collect(),
        edges: chain.edges().map(|edge| least.message(&[Kind::Send, Kind::Receive], edge.index())).collect(),
        add_tied: joint.cost(Kind::AddTied),
        gradient_norm: joint.cost(Kind::GradientNorm),
        links: Links::Own,
    }
}
