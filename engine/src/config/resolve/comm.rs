//! `comm`: backend, time limit and imitated links.

use std::time::Duration;

use crate::config::raw::RawComm;
use crate::config::resolved::{BackendName, CommConfig, ParallelConfig};

use super::links;

pub(super) fn resolve(raw: &RawComm, grid: Option<&ParallelConfig>) -> Option<CommConfig> {
    let timeout = raw.timeout_s.or(300.0).and_then(|seconds| {
        let timeout = Duration::try_from_secs_f64(seconds).ok().filter(|timeout| !timeout.is_zero());
        timeout.or_else(|| {
            let rule = "every wait has a limit: it must be a positive number of seconds, below 2^64";
            raw.timeout_s.broken(seconds, rule, "use a value such as 300")
        })
    });
    let links = links::resolve(&raw.links, grid, timeout);
    Some(CommConfig { backend: raw.backend.or(BackendName::Threads)?, timeout: timeout?, links: links? })
}
