//! Whether a rank waited for a message: only then the recording shows when the message came.

use crate::recording::{Place, Recording};

/// A wait that was no longer may have been no more than a look: the message was there.
const LOOK_NS: u64 = 20_000;

/// Whether a rank waited for a message.
pub(super) fn was_waited_for(recording: &Recording<'_>, message: Place) -> bool {
    let times = recording.times(message);
    times.exposed_ns() > LOOK_NS || times.awaited_ns <= recording.ready_ns(message)
}
