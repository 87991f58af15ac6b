//! How ranks talk: the backend, its time limit, and the links that it imitates.

use std::time::Duration;

use serde::Serialize;

/// How ranks talk.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CommConfig {
    /// The backend.
    pub backend: BackendName,
    /// Every wait is bounded by this.
    pub timeout: Duration,
    /// Links that the threads backend imitates by delaying messages; `None` = as fast as memory.
    pub links: Option<Links>,
}

/// Latency and bandwidth of links, by class.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Links {
    /// Ranks that share a node: ranks `n k` to `n k + n - 1` are near each other.
    pub ranks_per_node: usize,
    /// Links within a node.
    pub near: Link,
    /// Links between nodes.
    pub far: Link,
    /// Whether a rank's gathers and reductions share one link, so that each waits for the other.
    pub shared: bool,
}

/// One class of links.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Link {
    /// Delay of a message, beside the time of its bytes; it does not occupy the link.
    pub latency: Duration,
    /// Bytes that a rank sends in a second.
    pub bytes_per_s: f64,
}

/// A communication backend by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BackendName {
    /// Ranks are threads of this process.
    Threads,
}
