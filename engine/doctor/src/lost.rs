//! Why an examination ends before its last part: processes that are lost take part in none of the next.

use std::time::Duration;

use pipezero_comm::CommError;
use pipezero_comm::world::{World, WorldError};
use pipezero_run::engine::{EngineError, Report, gave_up, stopped};

/// How long processes may take to say that they are still there.
const TIME: Duration = Duration::from_secs(5);

/// What keeps a process from going on, and so all of them.
#[derive(Debug)]
pub(super) enum Lost {
    /// What processes tell each other between parts has not come.
    Comm(CommError),
    /// A rank of a part's own world does not answer, or not all processes have come to such a world.
    Rank(EngineError),
}

impl From<CommError> for Lost {
    fn from(error: CommError) -> Self {
        Self::Comm(error)
    }
}

impl Lost {
    /// Stops all processes, and finds out who is still there: how the ranks of each have failed, the cause first.
    pub(super) fn stop(self, world: &dyn World) -> Report {
        match self {
            Self::Comm(error) => stopped(world, error, TIME),
            // It says more than the processes can.
            Self::Rank(EngineError::Stopped(report)) => {
                gave_up(world, report.first_cause(), TIME);
                report
            }
            Self::Rank(error) => gave_up(world, error.to_string(), TIME),
        }
    }
}

/// The text of an error with which a part's own world has ended, if all processes are still there.
///
/// # Errors
/// [`Lost::Rank`] if one of them may have ended: the others do not wait for it between parts.
pub(super) fn survived(error: EngineError) -> Result<String, Lost> {
    let is_lost = match &error {
        EngineError::Stopped(report) => report.misses_a_rank(),
        EngineError::World(error) => {
            use WorldError::{NotConnected, SaidByAnother, SaidByFirst};
            matches!(error, NotConnected { .. } | SaidByFirst | SaidByAnother)
        }
        _ => false,
    };
    if is_lost { Err(Lost::Rank(error)) } else { Ok(error.to_string()) }
}
