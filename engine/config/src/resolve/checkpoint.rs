//! `checkpoint`: when the state of the run is kept.

use std::time::Duration;

use crate::raw::RawCheckpoint;
use crate::resolved::{CheckpointConfig, EndSignal, OnCheckpointError};

pub(super) fn resolve(raw: &RawCheckpoint) -> Option<CheckpointConfig> {
    // A century; beyond it a duration overflows, and nobody waits for it.
    const MINUTES_MAX: f64 = 60.0 * 24.0 * 36_525.0;
    let holds = |minutes| (0.0..=MINUTES_MAX).contains(&minutes);
    let rule = "it must be from 0 to 52596000, a century";
    let minutes =
        raw.minutes.keep(raw.minutes.or(0.0), holds, rule, "use a value such as 30, or 0 for never");
    let keep = raw.keep.at_least_one(raw.keep.or(2));
    let (every, minutes) = (raw.every.or(0), minutes);
    Some(CheckpointConfig {
        every: Some(every?).filter(|&every| every > 0),
        interval: Some(minutes?)
            .filter(|&minutes| minutes > 0.0)
            .map(|minutes| Duration::from_secs_f64(60.0 * minutes)),
        background: raw.background.or(true)?,
        keep: keep?,
        on_error: raw.on_error.or(OnCheckpointError::Continue)?,
        signal: raw.signal.or(EndSignal::Usr1)?,
        per_host: raw.per_host.or(false)?,
    })
}
