//! How ranks communicate: the backend, its time limit, and the links that it emulates.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How ranks communicate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CommConfig {
    /// The backend.
    pub backend: BackendName,
    /// Every wait is bounded by this.
    pub timeout: Duration,
    /// Where the process of rank 0 listens for the others; `None` = the port that the launcher names, or else a free one.
    pub port: Option<u16>,
    /// Ranks on each host, if the run file says so.
    pub ranks_per_node: Option<usize>,
    /// Of an engine that has some of the ranks of a job: which of them is its rank 0. `None` = it has them all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_rank: Option<usize>,
    /// In which order the nccl backend adds gradients.
    pub reduction: ReductionOrder,
    /// Links that the threads backend emulates by delaying messages; `None`: messages are as fast as memory.
    pub links: Option<Links>,
}

/// Latency and bandwidth of links, by class.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Links {
    /// Ranks that share a node: ranks `n k` to `n k + n - 1` are near each other; 0 puts all ranks on one.
    pub ranks_per_node: usize,
    /// Links within a node.
    pub near: Link,
    /// Links between nodes.
    pub far: Link,
    /// Whether a rank's gathers and reductions share one link, so that each waits for the other.
    pub shared: bool,
}

impl Links {
    /// The class of the links between these ranks: far if they lie on more than one node.
    pub fn between(&self, ranks: &[usize]) -> Link {
        let mut nodes = ranks.iter().map(|rank| rank.checked_div(self.ranks_per_node));
        let first = nodes.next();
        if nodes.all(|node| Some(node) == first) { self.near } else { self.far }
    }
}

/// One class of links.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Link {
    /// Delay of a message, beside the time of its bytes; it does not occupy the link.
    pub latency: Duration,
    /// Bytes that a rank sends in a second. Infinity leaves the latency alone; 0 lets nothing through.
    pub bytes_per_s: f64,
}

impl Link {
    /// How long a message's bytes occupy the link, to the nearest nanosecond.
    pub fn occupied_ns(self, num_bytes: u64) -> u64 {
        // Casts to integers saturate, and NaN is not the maximum: a link that lets nothing through is busy for ever.
        match num_bytes {
            0 => 0,
            _ => (num_bytes as f64 * 1e9 / self.bytes_per_s.max(0.0)).round() as u64,
        }
    }

    /// The latency in nanoseconds.
    pub fn latency_ns(self) -> u64 {
        u64::try_from(self.latency.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// A communication backend by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BackendName {
    /// Ranks are threads of this process.
    Threads,
    /// Ranks are processes that the system's MPI connects.
    Mpi,
    /// Ranks have a GPU each, which NCCL connects.
    Nccl,
}

/// In which order NCCL adds gradients, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReductionOrder {
    /// Data ranks ascending, as every other backend.
    Ordered,
    /// The library's, which depends on sizes and on how the GPUs are connected.
    Library,
}

/// What computes, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceName {
    /// The host's cores.
    Cpu,
    /// The GPUs of the host, which its ranks use in turn.
    Cuda,
}

impl DeviceName {
    /// Whether buffers lie elsewhere than in the host's memory.
    pub fn has_own_memory(self) -> bool {
        self == Self::Cuda
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(latency_ns: u64, bytes_per_s: f64) -> Link {
        Link { latency: Duration::from_nanos(latency_ns), bytes_per_s }
    }

    #[test]
    fn ranks_are_near_when_they_share_a_node() {
        let (near, far) = (link(1, 1.0), link(2, 2.0));
        for (ranks_per_node, ranks, expected) in [
            (2, &[0, 1][..], near),
            (2, &[2, 3], near),
            (2, &[3, 2], near),
            (2, &[1, 2], far),
            (2, &[0, 1, 2, 3], far),
            (2, &[1, 0, 5], far),
            (3, &[0, 1, 2], near),
            (1, &[0, 1], far),
            (8, &[1, 5, 7], near),
            (0, &[1, 500], near),
        ] {
            let links = Links { ranks_per_node, near, far, shared: false };
            assert_eq!(links.between(ranks), expected, "{ranks:?} with {ranks_per_node} ranks per node");
        }
    }
}
