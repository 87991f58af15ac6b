//! One thing that a rank does: the words of a program.

use crate::id::{MicroBatch, Stage, Unit};

/// A directed neighbour link between stages; each has a lane of its own.
///
/// Never a pair of ranks: with finite buffers, rank-pair lanes deadlock V-shaped placements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Edge {
    /// `s -> s + 1`: activations. Holds `s`.
    Up(Stage),
    /// `s + 1 -> s`: gradients. Holds `s`, the receiver.
    Down(Stage),
}

/// Where an instruction runs; a lane runs its instructions one after the other, in issue order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// Forward, backward, optimizer and bookkeeping.
    Compute,
    /// All-gathers of weights.
    Gather,
    /// Reductions of gradients.
    Reduce,
    /// Transfers over one directed stage edge.
    Edge(Edge),
}

/// One instruction of one rank, at the granularity of units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Instruction {
    /// `F u m`: forward of a unit. Reads its gathered weights; leaves saved activations.
    Forward { unit: Unit, micro_batch: MicroBatch },
    /// `B u m`: full backward, input and weight gradient.
    Backward { unit: Unit, micro_batch: MicroBatch },
    /// `I u m`: input gradient alone.
    BackwardInput { unit: Unit, micro_batch: MicroBatch },
    /// `W u m`: weight gradient alone; reads no weights.
    BackwardWeight { unit: Unit, micro_batch: MicroBatch },
    /// `UNSHARD u`: all-gathers a unit's weights over the data ranks into a free gather buffer.
    ///
    /// A unit may be gathered while an older gathered copy of it is still in use; uses read the oldest copy.
    Unshard { unit: Unit },
    /// `RESHARD u`: frees the oldest gathered copy of the unit.
    Reshard { unit: Unit },
    /// `REDUCE u m`: reduce-scatters the unit's gradient of one micro-batch and adds it to the gradient shard.
    Reduce { unit: Unit, micro_batch: MicroBatch },
    /// `REDUCE_LAST u`: reduce-scatters the unit's gradient, accumulated over all micro-batches, once.
    ReduceLast { unit: Unit },
    /// `ALL_REDUCE u`: all-reduces the unit's accumulated gradient, once; every data rank keeps all of it.
    AllReduce { unit: Unit },
    /// `SEND e m`: sends an activation (up) or a gradient (down).
    Send { edge: Edge, micro_batch: MicroBatch },
    /// `RECV e m`: receives an activation (up) or a gradient (down) into a free receive buffer of the edge.
    Receive { edge: Edge, micro_batch: MicroBatch },
    /// `ADD_TIED a b`: makes the gradient of both uses of a tied weight `a + b`; `a` is the embedding's unit, `b` the
    /// head's. Issued by the rank of each use; the two exchange their parts where they differ.
    AddTied { embedding: Unit, head: Unit },
    /// `GRAD_NORM`: the norm of all gradients over the whole grid, with loss and target count; every rank joins.
    GradientNorm,
    /// `STEP u`: optimizer step on the part of the unit that this rank owns.
    OptimizerStep { unit: Unit },
    /// `GATHER_STEP u`: all-gathers the updated weights of a unit that is not sharded during the step.
    GatherAfterStep { unit: Unit },
}

impl Instruction {
    /// The lane that the instruction runs on.
    pub fn lane(self) -> Lane {
        match self {
            Self::Forward { .. }
            | Self::Backward { .. }
            | Self::BackwardInput { .. }
            | Self::BackwardWeight { .. }
            | Self::Reshard { .. }
            | Self::AddTied { .. }
            | Self::GradientNorm
            | Self::OptimizerStep { .. } => Lane::Compute,
            Self::Unshard { .. } | Self::GatherAfterStep { .. } => Lane::Gather,
            Self::Reduce { .. } | Self::ReduceLast { .. } | Self::AllReduce { .. } => Lane::Reduce,
            Self::Send { edge, .. } | Self::Receive { edge, .. } => Lane::Edge(edge),
        }
    }
}
