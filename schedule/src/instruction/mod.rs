//! One instruction of a rank.

mod activity;
mod edge;
mod kind;

use core::fmt;

use crate::id::{MicroBatch, Unit};

pub use activity::Activity;
pub use edge::{Edge, Lane};
pub use kind::InstructionKind;

/// One instruction of one rank, at the granularity of units.
///
/// Each variant begins with its text form, whose letters stand for its fields.
#[expect(missing_docs, reason = "the fields are the operands that each variant's text form names")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Instruction {
    /// `F u m`: forward of a unit. Reads its gathered weights; leaves saved activations.
    Forward { unit: Unit, micro_batch: MicroBatch },
    /// `B u m`: full backward, input and weight gradient; of a frozen unit the input gradient alone.
    Backward { unit: Unit, micro_batch: MicroBatch },
    /// `I u m`: input gradient alone.
    BackwardInput { unit: Unit, micro_batch: MicroBatch },
    /// `W u m`: weight gradient alone; reads no weights. Of a frozen unit it does nothing.
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

/// What an instruction names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operands {
    /// `u m`
    UnitAndMicroBatch(Unit, MicroBatch),
    /// `u`
    Unit(Unit),
    /// `e m`
    Message(Edge, MicroBatch),
    /// `a b`
    TiedUnits { embedding: Unit, head: Unit },
    /// Nothing.
    None,
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

    /// What the instruction names.
    pub(crate) fn operands(self) -> Operands {
        match self {
            Self::Forward { unit, micro_batch }
            | Self::Backward { unit, micro_batch }
            | Self::BackwardInput { unit, micro_batch }
            | Self::BackwardWeight { unit, micro_batch }
            | Self::Recompute { unit, micro_batch }
            | Self::Reduce { unit, micro_batch } => Operands::UnitAndMicroBatch(unit, micro_batch),
            Self::Unshard { unit }
            | Self::Reshard { unit }
            | Self::ReduceLast { unit }
            | Self::AllReduce { unit }
            | Self::OptimizerStep { unit }
            | Self::GatherAfterStep { unit } => Operands::Unit(unit),
            Self::Send { edge, micro_batch } | Self::Receive { edge, micro_batch } => {
                Operands::Message(edge, micro_batch)
            }
            Self::AddTied { embedding, head } => Operands::TiedUnits { embedding, head },
            Self::GradientNorm => Operands::None,
        }
    }

    /// What the instruction spends time on.
    pub(crate) fn activity(self) -> Activity {
        self.kind().activity()
    }

    /// The lane that the instruction runs on.
    pub fn lane(self) -> Lane {
        match self {
            Self::Send { edge, .. } | Self::Receive { edge, .. } => Lane::Edge(edge),
            Self::Unshard { .. } | Self::GatherAfterStep { .. } => Lane::Gather,
            Self::Reduce { .. } | Self::ReduceLast { .. } | Self::AllReduce { .. } => Lane::Reduce,
            _ => Lane::Compute,
        }
    }

    /// The unit that it names; none for a transfer, nor for a tied addition, which names two.
    pub fn unit(self) -> Option<Unit> {
        match self.operands() {
            Operands::UnitAndMicroBatch(unit, _) | Operands::Unit(unit) => Some(unit),
            Operands::Message(..) | Operands::TiedUnits { .. } | Operands::None => None,
        }
    }

    /// The micro-batch that it names; none for what is done once a step, or for all micro-batches alike.
    pub fn micro_batch(self) -> Option<MicroBatch> {
        match self.operands() {
            Operands::UnitAndMicroBatch(_, micro_batch) | Operands::Message(_, micro_batch) => {
                Some(micro_batch)
            }
            Operands::Unit(_) | Operands::TiedUnits { .. } | Operands::None => None,
        }
    }

    /// Whether it computes on a micro-batch: `F`, `B`, `I`, `W` or `R`. These make up a rank's part of the step, up to the
    /// gradient norm.
    pub fn is_micro_batch_compute(self) -> bool {
        self.lane() == Lane::Compute && self.micro_batch().is_some()
    }
}

/// The text form of an instruction, as in each variant's documentation: `F u3 m0`, `SEND s0>s1 m2`.
impl fmt::Display for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind().word())?;
        match self.operands() {
            Operands::UnitAndMicroBatch(unit, micro_batch) => write!(f, " {unit} {micro_batch}"),
            Operands::Unit(unit) => write!(f, " {unit}"),
            Operands::Message(edge, micro_batch) => write!(f, " {edge} {micro_batch}"),
            Operands::TiedUnits { embedding, head } => write!(f, " {embedding} {head}"),
            Operands::None => Ok(()),
        }
    }
}
