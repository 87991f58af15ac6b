//! When the state of a run is kept.

use std::time::Duration;

use serde::Serialize;

/// When checkpoints are written, and how many are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CheckpointConfig {
    /// After every so many steps; `None` = never.
    pub every: Option<u64>,
    /// After the step in which so much time has passed since the last one; `None` = never.
    pub interval: Option<Duration>,
    /// Whether training goes on while one is written, out of a copy of the state.
    pub background: bool,
    /// How many are kept, at least 1.
    pub keep: usize,
    /// What becomes of the run when one cannot be written.
    pub on_error: OnCheckpointError,
    /// The signal that ends the run with a checkpoint, beside those that end every process.
    pub signal: EndSignal,
    /// Whether hosts may have run directories of their own although others share one.
    pub per_host: bool,
}

/// What becomes of a run when a checkpoint cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OnCheckpointError {
    /// It goes on, with a warning.
    Continue,
    /// It ends.
    Stop,
}

/// A signal that a scheduler may be told to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum EndSignal {
    /// SIGUSR1
    #[serde(rename = "SIGUSR1")]
    Usr1,
    /// SIGUSR2
    #[serde(rename = "SIGUSR2")]
    Usr2,
    /// No other than those that end every process.
    #[serde(rename = "none")]
    None,
}

impl CheckpointConfig {
    /// Whether the run file asks for any.
    pub fn is_asked_for(&self) -> bool {
        self.every.is_some() || self.interval.is_some()
    }

    /// Whether ranks hold a copy of what they write. The one of a run that a signal ends needs none.
    pub fn is_copied(&self) -> bool {
        self.background && self.is_asked_for()
    }
}

impl Default for CheckpointConfig {
    /// None but those of a run that a signal ends.
    fn default() -> Self {
        Self {
            every: None,
            interval: None,
            background: true,
            keep: 2,
            on_error: OnCheckpointError::Continue,
            signal: EndSignal::Usr1,
            per_host: false,
        }
    }
}
