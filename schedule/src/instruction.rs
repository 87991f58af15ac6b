//! One thing that a rank does: the words of a program.

use core::fmt;

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

impl Edge {
    /// The stage that sends.
    pub fn sender(self) -> Stage {
        match self {
            Self::Up(stage) => stage,
            Self::Down(stage) => Stage(stage.0 + 1),
        }
    }

    /// The stage that receives.
    pub fn receiver(self) -> Stage {
        match self {
            Self::Up(stage) => Stage(stage.0 + 1),
            Self::Down(stage) => stage,
        }
    }

    /// A position in a table of all edges: see [`Chain::num_edges`] and [`Chain::edges`].
    ///
    /// [`Chain::num_edges`]: crate::Chain::num_edges
    /// [`Chain::edges`]: crate::Chain::edges
    pub fn index(self) -> usize {
        match self {
            Self::Up(stage) => 2 * stage.index(),
            Self::Down(stage) => 2 * stage.index() + 1,
        }
    }
}

/// `s0>s1` up, `s1>s0` down.
impl fmt::Display for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (low, high) = match self {
            Self::Up(stage) | Self::Down(stage) => (*stage, u64::from(stage.0) + 1),
        };
        match self {
            Self::Up(_) => write!(f, "{low}>s{high}"),
            Self::Down(_) => write!(f, "s{high}>{low}"),
        }
    }
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
///
/// Each variant begins with its text form, whose letters stand for its fields.
#[expect(missing_docs, reason = "the fields are the operands that each variant's text form names")]
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
    /// `R u m`: recomputes what the unit's forward would have saved, from its saved input and the gathered weights.
    ///
    /// Stands before the unit's `B` and needs no incoming gradient, so it may run while that is on its way. `R` and
    /// `B` are one use of the weights.
    Recompute { unit: Unit, micro_batch: MicroBatch },
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
    /// `GATHER_STEP u`: all-gathers the updated weights of a unit that is whole during the step.
    GatherAfterStep { unit: Unit },
}

/// An instruction without its operands; what traffic and work are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InstructionKind {
    /// `F`
    Forward,
    /// `B`
    Backward,
    /// `I`
    BackwardInput,
    /// `W`
    BackwardWeight,
    /// `R`
    Recompute,
    /// `UNSHARD`
    Unshard,
    /// `RESHARD`
    Reshard,
    /// `REDUCE`
    Reduce,
    /// `REDUCE_LAST`
    ReduceLast,
    /// `ALL_REDUCE`
    AllReduce,
    /// `SEND`
    Send,
    /// `RECV`
    Receive,
    /// `ADD_TIED`
    AddTied,
    /// `GRAD_NORM`
    GradientNorm,
    /// `STEP`
    OptimizerStep,
    /// `GATHER_STEP`
    GatherAfterStep,
}

impl Instruction {
    /// What the instruction does, without its operands.
    pub fn kind(self) -> InstructionKind {
        match self {
            Self::Forward { .. } => InstructionKind::Forward,
            Self::Backward { .. } => InstructionKind::Backward,
            Self::BackwardInput { .. } => InstructionKind::BackwardInput,
            Self::BackwardWeight { .. } => InstructionKind::BackwardWeight,
            Self::Recompute { .. } => InstructionKind::Recompute,
            Self::Unshard { .. } => InstructionKind::Unshard,
            Self::Reshard { .. } => InstructionKind::Reshard,
            Self::Reduce { .. } => InstructionKind::Reduce,
            Self::ReduceLast { .. } => InstructionKind::ReduceLast,
            Self::AllReduce { .. } => InstructionKind::AllReduce,
            Self::Send { .. } => InstructionKind::Send,
            Self::Receive { .. } => InstructionKind::Receive,
            Self::AddTied { .. } => InstructionKind::AddTied,
            Self::GradientNorm => InstructionKind::GradientNorm,
            Self::OptimizerStep { .. } => InstructionKind::OptimizerStep,
            Self::GatherAfterStep { .. } => InstructionKind::GatherAfterStep,
        }
    }

    /// The lane that the instruction runs on.
    pub fn lane(self) -> Lane {
        match self {
            Self::Forward { .. }
            | Self::Backward { .. }
            | Self::BackwardInput { .. }
            | Self::BackwardWeight { .. }
            | Self::Recompute { .. }
            | Self::Reshard { .. }
            | Self::AddTied { .. }
            | Self::GradientNorm
            | Self::OptimizerStep { .. } => Lane::Compute,
            Self::Unshard { .. } | Self::GatherAfterStep { .. } => Lane::Gather,
            Self::Reduce { .. } | Self::ReduceLast { .. } | Self::AllReduce { .. } => Lane::Reduce,
            Self::Send { edge, .. } | Self::Receive { edge, .. } => Lane::Edge(edge),
        }
    }

    /// The unit that it names; none for a transfer, nor for a tied addition, which names two.
    pub fn unit(self) -> Option<Unit> {
        match self {
            Self::Forward { unit, .. }
            | Self::Backward { unit, .. }
            | Self::BackwardInput { unit, .. }
            | Self::BackwardWeight { unit, .. }
            | Self::Recompute { unit, .. }
            | Self::Unshard { unit }
            | Self::Reshard { unit }
            | Self::Reduce { unit, .. }
            | Self::ReduceLast { unit }
            | Self::AllReduce { unit }
            | Self::OptimizerStep { unit }
            | Self::GatherAfterStep { unit } => Some(unit),
            Self::Send { .. } | Self::Receive { .. } | Self::AddTied { .. } | Self::GradientNorm => None,
        }
    }

    /// The micro-batch that it names; none for what is done once a step, or for all micro-batches alike.
    pub fn micro_batch(self) -> Option<MicroBatch> {
        match self {
            Self::Forward { micro_batch, .. }
            | Self::Backward { micro_batch, .. }
            | Self::BackwardInput { micro_batch, .. }
            | Self::BackwardWeight { micro_batch, .. }
            | Self::Recompute { micro_batch, .. }
            | Self::Reduce { micro_batch, .. }
            | Self::Send { micro_batch, .. }
            | Self::Receive { micro_batch, .. } => Some(micro_batch),
            Self::Unshard { .. }
            | Self::Reshard { .. }
            | Self::ReduceLast { .. }
            | Self::AllReduce { .. }
            | Self::AddTied { .. }
            | Self::GradientNorm
            | Self::OptimizerStep { .. }
            | Self::GatherAfterStep { .. } => None,
        }
    }

    /// Whether it computes on a micro-batch: `F`, `B`, `I`, `W` or `R`. What a rank's part of the step, up to the norm over
    /// all ranks, is made of.
    pub fn is_micro_batch_compute(self) -> bool {
        self.lane() == Lane::Compute && self.micro_batch().is_some()
    }
}

/// The text form of an instruction, as in each variant's documentation: `F u3 m0`, `SEND s0>s1 m2`.
impl fmt::Display for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forward { unit, micro_batch } => write!(f, "F {unit} {micro_batch}"),
            Self::Backward { unit, micro_batch } => write!(f, "B {unit} {micro_batch}"),
            Self::BackwardInput { unit, micro_batch } => write!(f, "I {unit} {micro_batch}"),
            Self::BackwardWeight { unit, micro_batch } => write!(f, "W {unit} {micro_batch}"),
            Self::Recompute { unit, micro_batch } => write!(f, "R {unit} {micro_batch}"),
            Self::Unshard { unit } => write!(f, "UNSHARD {unit}"),
            Self::Reshard { unit } => write!(f, "RESHARD {unit}"),
            Self::Reduce { unit, micro_batch } => write!(f, "REDUCE {unit} {micro_batch}"),
            Self::ReduceLast { unit } => write!(f, "REDUCE_LAST {unit}"),
            Self::AllReduce { unit } => write!(f, "ALL_REDUCE {unit}"),
            Self::Send { edge, micro_batch } => write!(f, "SEND {edge} {micro_batch}"),
            Self::Receive { edge, micro_batch } => write!(f, "RECV {edge} {micro_batch}"),
            Self::AddTied { embedding, head } => write!(f, "ADD_TIED {embedding} {head}"),
            Self::GradientNorm => f.write_str("GRAD_NORM"),
            Self::OptimizerStep { unit } => write!(f, "STEP {unit}"),
            Self::GatherAfterStep { unit } => write!(f, "GATHER_STEP {unit}"),
        }
    }
}
