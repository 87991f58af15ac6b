//! Why a rank stopped.

use std::path::PathBuf;
use std::time::Duration;

use pipezero_comm::CommError;
use pipezero_comm::world::Position;
use pipezero_models::ModelError;
use serde::{Deserialize, Serialize};

use crate::checkpoint::CheckpointError;

/// What stopped a rank.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Cause {
    /// An operation between ranks failed.
    #[error(transparent)]
    Comm(#[from] CommError),
    /// A buffer could not be allocated.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// This rank's part of the weights could not be read.
    #[error("{}: {source}", path.display())]
    Weights {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// This rank's part of a checkpoint could not be read.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The rank's code panicked.
    #[error("panicked{}: {message}", of(layers))]
    Panicked {
        /// The panic's message.
        message: String,
        /// The layers that it was computing, if any.
        layers: Vec<String>,
    },
    /// The rank did not answer after the others had stopped.
    #[error("does not answer")]
    Stalled,
    /// The rank's process was suspended for a while.
    #[error("answers again: its process was suspended for {time:.1?}, and then {then}")]
    Suspended {
        /// How long.
        time: Duration,
        /// What became of the rank when the process went on.
        then: Box<Cause>,
    },
    /// The rank runs in another process, for which others have waited in vain, and which did not answer either.
    #[error("does not answer")]
    Silent,
    /// The rank runs in another process, which has ended without a word.
    #[error("does not answer: its process has ended")]
    Ended,
    /// The rank runs in another process, which nobody has missed, and which did not answer in time.
    #[error("did not answer in {waited:.1?}, and may be alive")]
    Late {
        /// How long it was waited for.
        waited: Duration,
    },
    /// The rank ran no program, and its process cannot go on.
    #[error("{message}")]
    GaveUp {
        /// Its kind.
        kind: CauseKind,
        /// Why.
        message: String,
    },
    /// The rank runs in another process, which reported this.
    #[error("{message}")]
    Elsewhere {
        /// Its kind.
        kind: CauseKind,
        /// What the other process says.
        message: String,
        /// The ranks that this one waited for.
        waits_for: Vec<usize>,
    },
}

/// ` in layer h.1.attn or h.1.mlp`.
fn of(layers: &[String]) -> String {
    match layers {
        [] => String::new(),
        [layer] => format!(" in layer {layer}"),
        [before @ .., last] => format!(" in layer {} or {last}", before.join(", ")),
    }
}

/// Kinds of causes, in the order in which a report lists them: causes before their effects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum CauseKind {
    /// The rank failed by itself.
    Failed,
    /// Its device failed, perhaps at what another rank asked of it.
    DeviceFailed,
    /// A link would deliver too late.
    TooSlow,
    /// The rank's process has ended.
    Ended,
    /// The rank did not answer.
    Stalled,
    /// Its process was suspended.
    Suspended,
    /// The rank did not answer, and nobody has missed it.
    Late,
    /// It waited too long.
    TimedOut,
    /// It stopped because another rank failed.
    Stopped,
}

impl CauseKind {
    /// Whether the rank itself has said why it stopped.
    pub(crate) fn has_answered(self) -> bool {
        !matches!(self, Self::Ended | Self::Stalled | Self::Late)
    }
}

impl Cause {
    /// The kind of the cause.
    pub fn kind(&self) -> CauseKind {
        match self {
            Self::Comm(CommError::Device { .. }) => CauseKind::DeviceFailed,
            Self::Comm(CommError::TooSlow { .. }) => CauseKind::TooSlow,
            Self::Comm(CommError::Timeout { .. } | CommError::Unfinished { .. }) => CauseKind::TimedOut,
            Self::Comm(error) if error.is_stop() => CauseKind::Stopped,
            Self::Ended => CauseKind::Ended,
            Self::Stalled | Self::Silent => CauseKind::Stalled,
            Self::Suspended { .. } => CauseKind::Suspended,
            Self::Late { .. } => CauseKind::Late,
            Self::GaveUp { kind, .. } | Self::Elsewhere { kind, .. } => *kind,
            _ => CauseKind::Failed,
        }
    }

    /// The ranks that this one waited for when it stopped.
    pub(crate) fn waits_for(&self) -> &[usize] {
        match self {
            Self::Comm(CommError::Timeout { missing, .. } | CommError::Interrupted { missing, .. }) => {
                missing
            }
            Self::Elsewhere { waits_for, .. } => waits_for,
            _ => &[],
        }
    }
}

/// A rank that stopped, and where.
#[derive(Debug, thiserror::Error)]
#[error("rank {rank} at {position}: {cause}")]
pub struct RankFailure {
    /// The world rank.
    pub rank: usize,
    /// Where it was.
    pub position: Position,
    /// Why it stopped.
    #[source]
    pub cause: Cause,
}

/// A [`RankFailure`] as one process reports it to another.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ReportedFailure {
    rank: usize,
    position: Position,
    kind: CauseKind,
    message: String,
    waits_for: Vec<usize>,
}

impl From<&RankFailure> for ReportedFailure {
    fn from(RankFailure { rank, position, cause }: &RankFailure) -> Self {
        let (message, waits_for) = (cause.to_string(), cause.waits_for().to_vec());
        Self { rank: *rank, position: *position, kind: cause.kind(), message, waits_for }
    }
}

impl From<ReportedFailure> for RankFailure {
    fn from(ReportedFailure { rank, position, kind, message, waits_for }: ReportedFailure) -> Self {
        Self { rank, position, cause: Cause::Elsewhere { kind, message, waits_for } }
    }
}
