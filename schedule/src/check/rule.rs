//! The rules of programs, with the values that break them.

use alloc::vec::Vec;
use core::fmt;

use crate::id::{MicroBatch, PipelineRank, Unit};
use crate::instruction::{Edge, Instruction};
use crate::options::OptionsError;

/// Why an instruction of a cycle waits for the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wait {
    /// The next one is the compute before it in its row, which holds up the row.
    Issue,
    /// The next one is before it on its lane.
    Lane,
    /// It may not start before the next one, of its rank, has ended: see [`crate::Dependencies`].
    Need,
    /// They end together, and the next one cannot: the other end of a transfer, or of a norm or tied addition.
    Partner,
}

/// An instruction of a deadlock's cycle, and why it waits for the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The rank.
    pub rank: PipelineRank,
    /// Position in its row.
    pub step: usize,
    /// The instruction.
    pub instruction: Instruction,
    /// Why it waits for the next one.
    pub wait: Wait,
}

/// What can be wrong with how a unit is gathered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GatherFault {
    /// An instruction reads weights that are not gathered.
    NotGathered {
        /// The reader.
        reader: Instruction,
    },
    /// What is given back is not held.
    NotHeld,
    /// A copy is given back before any use.
    Unused,
    /// A copy is held past its last use.
    HeldPastLastUse {
        /// Position of the last use.
        last_use: usize,
    },
    /// A copy is never given back.
    NeverResharded,
    /// Under strict residency, a copy serves a second use.
    UsedAgain {
        /// The reader.
        reader: Instruction,
    },
    /// Where every unit stays until its last use, one is gathered a second time.
    GatheredAgain,
    /// A copy is given back between a recompute and its backward, which are one use.
    RecomputeNotUsed {
        /// The backward that reads the same weights.
        reader: Instruction,
    },
}

/// A rule of programs, with the values that break it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rule {
    /// There is one row per rank.
    NumRows {
        /// Rows of the program.
        num_rows: usize,
        /// Ranks of the placement.
        num_ranks: usize,
    },
    /// A step has a micro-batch.
    NoMicroBatch,
    /// The policies go together.
    Options(OptionsError),
    /// An instruction names units, micro-batches and edges that exist; an edge joins different ranks.
    NotThere(Instruction),
    /// An instruction stands on the rank that holds what it names.
    WrongRank {
        /// The instruction.
        instruction: Instruction,
        /// Where it belongs.
        belongs_on: PipelineRank,
    },
    /// An instruction belongs to the program's purpose and policies.
    NotOfPolicy(Instruction),
    /// A step has everything that belongs to it.
    Missing(Instruction),
    /// Nothing is done twice.
    Repeated {
        /// The instruction.
        instruction: Instruction,
        /// Where it stood first.
        first: usize,
    },
    /// A unit and micro-batch has either a full backward or the two halves.
    BothBackwards {
        /// The unit.
        unit: Unit,
        /// The micro-batch.
        micro_batch: MicroBatch,
    },
    /// A unit that recomputes has full backwards: recomputed activations are kept for one instruction only.
    SplitRecompute(Instruction),
    /// An instruction runs after what it needs.
    RunsBefore {
        /// The instruction.
        instruction: Instruction,
        /// What it needs.
        needed: Instruction,
    },
    /// The units of a stage run one after the other, without another forward or input gradient between them.
    Interrupted {
        /// The instruction that comes between.
        instruction: Instruction,
        /// What was due.
        expected: Instruction,
    },
    /// Weights are gathered when they are read, resharded right after the last use, and never gathered without a use.
    Gathering {
        /// The unit whose weights it is about.
        unit: Unit,
        /// What is wrong.
        fault: GatherFault,
    },
    /// No more gathered copies are held than the policy allows.
    OverBudget {
        /// Copies held with this one.
        held: usize,
        /// Copies allowed.
        budget: usize,
    },
    /// A gathered copy has a buffer of its own that is large enough, from its gather to its reshard.
    NoGatherBuffer {
        /// The unit that finds none.
        unit: Unit,
        /// Its bytes.
        num_bytes: u64,
        /// Bytes of the copies held beside it.
        held_bytes: u64,
        /// Bytes of all buffers: of the largest units, as many as the policy allows.
        budget_bytes: u64,
    },
    /// Reductions after every micro-batch follow their gradients one for one.
    ReducedOutOfTurn {
        /// The reduction.
        instruction: Instruction,
        /// The one that was due.
        expected: Instruction,
    },
    /// A buffer is free when it is filled again.
    BufferTaken {
        /// What fills it.
        instruction: Instruction,
        /// What has to come first, to free it.
        freed_by: Instruction,
    },
    /// Both ends of an edge have its messages in the same order.
    ReceivedOutOfOrder {
        /// The edge.
        edge: Edge,
        /// The micro-batch received.
        received: MicroBatch,
        /// The micro-batch sent at that place.
        sent: MicroBatch,
    },
    /// The step ends with its tail, and with nothing else.
    Tail {
        /// What stands there; `None` at the end of the row.
        found: Option<Instruction>,
        /// What was due; `None` after the end of the tail.
        expected: Option<Instruction>,
    },
    /// No deadlock: each of these waits for the next one, and the last for the first.
    Deadlock(Vec<Blocked>),
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NumRows { num_rows, num_ranks } => {
                write!(f, "the program has {num_rows} rows for {num_ranks} ranks; write one row per rank")
            }
            Self::NoMicroBatch => f.write_str("the step has 0 micro-batches; it needs at least 1"),
            Self::Options(error) => error.fmt(f),
            Self::NotThere(instruction) => write!(
                f,
                "`{instruction}` names a unit, micro-batch, tied pair or edge between ranks that the program does \
                 not have, or a gradient for a stage in front of all that is trained"
            ),
            Self::WrongRank { instruction, belongs_on } => {
                write!(f, "`{instruction}` belongs on rank {}, which holds what it names", belongs_on.0)
            }
            Self::NotOfPolicy(instruction) => write!(
                f,
                "`{instruction}` does not belong to a program of this purpose and these options; change them or remove it"
            ),
            Self::Missing(instruction) => write!(f, "`{instruction}` is missing; a step has it exactly once"),
            Self::Repeated { instruction, first } => write!(
                f,
                "`{instruction}` runs a second time, after step {first}; a step has it exactly once"
            ),
            Self::BothBackwards { unit: Unit(unit), micro_batch: MicroBatch(micro_batch) } => write!(
                f,
                "unit {unit} has a full backward of micro-batch {micro_batch} and one of its halves; keep `B`, or \
                 `I` and `W`"
            ),
            Self::SplitRecompute(half) => write!(
                f,
                "`{half}` is half a backward of a unit that recomputes its activations, which are kept for a full \
                 `B` only; use that, or do not recompute"
            ),
            Self::RunsBefore { instruction, needed } => {
                write!(f, "`{instruction}` runs before `{needed}`, which it needs")
            }
            Self::Interrupted { instruction, expected } => write!(
                f,
                "`{instruction}` comes between the units of a stage, which run together; `{expected}` is due"
            ),
            Self::ReducedOutOfTurn { instruction, expected } => write!(
                f,
                "`{instruction}` is out of turn: gradients are reduced in the order in which they are made; `{expected}` is due"
            ),
            Self::ReceivedOutOfOrder { edge, received, sent } => write!(
                f,
                "micro-batch {} is received over {edge} where micro-batch {} is sent; both ends keep one order",
                received.0, sent.0
            ),
            Self::Tail { found: Some(found), expected: Some(expected) } => {
                write!(f, "`{found}` stands in the tail of the step where `{expected}` is due")
            }
            Self::Tail { found: Some(found), expected: None } => {
                write!(f, "the step is over, but `{found}` follows its tail; drop it")
            }
            Self::Tail { found: None, expected: Some(expected) } => {
                write!(f, "the row ends where `{expected}` is due in the tail of the step")
            }
            Self::Tail { found: None, expected: None } => f.write_str("the tail of the step is wrong"),
            Self::Deadlock(cycle) => fmt_cycle(f, cycle),
            Self::Gathering { .. }
            | Self::OverBudget { .. }
            | Self::NoGatherBuffer { .. }
            | Self::BufferTaken { .. } => self.fmt_buffers(f),
        }
    }
}

impl Rule {
    /// The rules about what lies in which buffer.
    fn fmt_buffers(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gathering { unit, fault } => fault.fmt(f, *unit),
            Self::OverBudget { held, budget } => write!(
                f,
                "{held} gathered units are held here, {budget} are allowed; reshard one first, or allow more"
            ),
            Self::NoGatherBuffer { unit, num_bytes, held_bytes, budget_bytes } => write!(
                f,
                "no gather buffer is free for the {num_bytes} bytes of unit {}: copies of {held_bytes} bytes lie in the \
                 buffers of {budget_bytes} bytes in all; reshard one first, gather in another order, or allow more",
                unit.0
            ),
            Self::BufferTaken { instruction, freed_by } => write!(
                f,
                "`{instruction}` fills a buffer that is in use until `{freed_by}`, which comes later"
            ),
            _ => unreachable!("the other rules are not about buffers"),
        }
    }
}

fn fmt_cycle(f: &mut fmt::Formatter<'_>, cycle: &[Blocked]) -> fmt::Result {
    write!(
        f,
        "deadlock: these {} instructions wait for each other; reorder a row so that one of them does not:",
        cycle.len()
    )?;
    let mut relation = "";
    for Blocked { rank, step, instruction, wait } in cycle {
        write!(f, "{relation}\n  rank {}, step {step}: `{instruction}`", rank.0)?;
        relation = match wait {
            Wait::Issue => ", which is issued after",
            Wait::Lane => ", which runs on its lane after",
            Wait::Need => ", which needs",
            Wait::Partner => ", which ends together with",
        };
    }
    match cycle.first() {
        Some(first) => write!(f, "{relation}\n  rank {}, step {}, where it began", first.rank.0, first.step),
        None => Ok(()),
    }
}

impl GatherFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>, unit: Unit) -> fmt::Result {
        let Unit(number) = unit;
        match self {
            Self::NotGathered { reader } => {
                write!(f, "`{reader}` reads weights that are not gathered; `UNSHARD {unit}` before it")
            }
            Self::NotHeld => write!(f, "`RESHARD {unit}` gives back a unit that is not gathered; drop it"),
            Self::Unused => {
                write!(f, "this gathered copy of unit {number} is given back before any use; drop the gather")
            }
            Self::HeldPastLastUse { last_use } => write!(
                f,
                "unit {number} is held past the last use of this copy at step {last_use}; `RESHARD {unit}` right after it"
            ),
            Self::RecomputeNotUsed { reader } => write!(
                f,
                "unit {number} is given back between a recompute and `{reader}`, which are one use of its weights; \
                 `RESHARD {unit}` after both"
            ),
            Self::UsedAgain { reader } => write!(
                f,
                "`{reader}` reads a copy of unit {number} that another use has read; strict residency gathers for every \
                 use: `RESHARD {unit}` and `UNSHARD {unit}` before it"
            ),
            Self::GatheredAgain => write!(
                f,
                "unit {number} is gathered a second time where every unit stays until its last use; drop the gather and \
                 the reshard before it"
            ),
            Self::NeverResharded => write!(
                f,
                "this gathered copy of unit {number} is never given back; `RESHARD {unit}` after its last use"
            ),
        }
    }
}
