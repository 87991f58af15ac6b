//! `comm`: backend, time limit and imitated links.

use std::time::Duration;

use crate::config::findings::Findings;
use crate::config::raw::RawComm;
use crate::config::resolved::{BackendName, CommConfig};
use crate::config::words::{BackendWord, Unoffered, refuse};

use super::grid::Grid;
use super::links;

const UNOFFERED: Unoffered = Unoffered { later: &["mpi", "nccl"], never: &["gloo", "ccl", "hccl"] };

pub(super) fn resolve(raw: &RawComm, grid: Option<&Grid>, findings: &mut Findings) -> Option<CommConfig> {
    let backend = match raw.backend.or(BackendWord::Threads) {
        Some(BackendWord::Threads) => Some(BackendName::Threads),
        Some(BackendWord::Other(word)) => {
            refuse(findings, &raw.backend.place, &word, BackendWord::OFFERED, &UNOFFERED);
            None
        }
        None => None,
    };
    let timeout = raw.timeout_s.or(300.0).and_then(|seconds| {
        let timeout = Duration::try_from_secs_f64(seconds).ok().filter(|timeout| !timeout.is_zero());
        if timeout.is_none() {
            let rule = "every wait has a limit: it must be a positive number of seconds, below 2^64";
            findings.broken(&raw.timeout_s.place, seconds, rule, "use a value such as 300");
        }
        timeout
    });
    let links = links::resolve(&raw.links, grid, timeout, findings);
    Some(CommConfig { backend: backend?, timeout: timeout?, links: links? })
}
