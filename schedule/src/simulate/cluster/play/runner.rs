//! Where a rank is in its row, and what it does there.

use crate::simulate::cluster::load::WorkKind;
use crate::simulate::lanes::RankLane;

/// What a rank does with its own time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// Completes the next message of a lane.
    Land(RankLane),
    /// Issues the message at its position.
    Issue,
    /// The compute at its position.
    Compute,
    /// Its own part of a synchronization, which it then joins.
    Join,
}

impl Task {
    pub(super) fn kind(self) -> WorkKind {
        match self {
            Self::Land(_) | Self::Issue => WorkKind::Message,
            Self::Compute | Self::Join => WorkKind::Compute,
        }
    }
}

/// What a rank does next.
pub(super) enum Next {
    /// With a task that takes this many ticks at full speed.
    Task(Task, u64),
    /// It waits for another rank or a message, or has ended.
    Wait,
}

/// Where a rank is.
#[derive(Clone, Default)]
pub(super) struct Runner {
    /// Its position in the row.
    pub(super) next: usize,
    /// How many of the waits of that position are over.
    pub(super) num_waited: usize,
    /// Its present task, and since when.
    pub(super) task: Option<(Task, u64)>,
    /// The position of the message that it waits for, while its end is not known.
    pub(super) waits_for: Option<usize>,
    /// Whether it waits for the other members of a synchronization.
    pub(super) is_joined: bool,
    /// When its row had ended and all its messages were completed.
    pub(super) ended: u64,
}

impl Runner {
    /// Ends its synchronization: the position of that in the row.
    pub(super) fn leave_synchronization(&mut self) -> usize {
        self.is_joined = false;
        self.go_on();
        self.next - 1
    }

    pub(super) fn go_on(&mut self) {
        self.next += 1;
        self.num_waited = 0;
    }
}
