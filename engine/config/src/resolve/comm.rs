//! `comm`: backend, time limit, port and emulated links.

use std::time::Duration;

use crate::raw::{RawComm, RawRun};
use crate::resolved::{BackendName, CommConfig, ParallelConfig, ReductionOrder};
use crate::resources::Resources;

use super::rules::count_or_auto;
use super::{gpu, links};

/// The highest port.
const PORT_MAX: u64 = 65_535;

/// The backend, which says what ranks can compute on.
pub(super) fn backend(raw: &RawRun, resources: Resources) -> Option<BackendName> {
    raw.comm.backend.auto_or_else(|| match resources.ranks {
        None => BackendName::Threads,
        Some(_) if gpu::is_wanted(raw, resources) => BackendName::Nccl,
        Some(_) => BackendName::Mpi,
    })
}

pub(super) fn resolve(
    raw: &RawComm,
    backend: Option<BackendName>,
    grid: Option<&ParallelConfig>,
    resources: Resources,
) -> Option<CommConfig> {
    let timeout = raw.timeout_s.or(300.0).and_then(|seconds| {
        let timeout = Duration::try_from_secs_f64(seconds).ok().filter(|timeout| !timeout.is_zero());
        timeout.or_else(|| {
            let rule = "every wait has a limit: it must be a positive number of seconds, below 2^64";
            raw.timeout_s.broken(seconds, rule, "use a value such as 300")
        })
    });
    let ranks_per_node = count_or_auto(&raw.ranks_per_node);
    let all_ranks = grid.map(ParallelConfig::num_ranks);
    let links = links::resolve(&raw.links, ranks_per_node.and_then(|said| said.or(all_ranks)), timeout);
    hint_of_real_links(raw, backend);
    let reduction = reduction(raw, backend);
    Some(CommConfig {
        backend: backend?,
        timeout: timeout?,
        port: port(raw)?,
        ranks_per_node: ranks_per_node?,
        first_rank: resources.part.map(|part| part.first),
        reduction: reduction?,
        links: links?,
    })
}

/// Processes, and ranks with a GPU each, send over whatever there is.
fn hint_of_real_links(raw: &RawComm, backend: Option<BackendName>) {
    let name = match backend {
        Some(BackendName::Mpi) => "mpi",
        Some(BackendName::Nccl) => "nccl",
        Some(BackendName::Threads) | None => return,
    };
    let head = &raw.links.head;
    if head.is_written {
        head.site.hint(format!(
            "no effect on ranks: `comm.backend` is \"{name}\", which emulates no links; `simulate` takes them"
        ));
    }
}

fn reduction(raw: &RawComm, backend: Option<BackendName>) -> Option<ReductionOrder> {
    let order = raw.reduction.or(ReductionOrder::Ordered)?;
    if order == ReductionOrder::Library && backend? != BackendName::Nccl {
        let rule = "only `comm.backend` \"nccl\" has a library that adds";
        return raw.reduction.broken("\"library\"", rule, "remove it, or use that backend");
    }
    Some(order)
}

fn port(raw: &RawComm) -> Option<Option<u16>> {
    if !raw.port.is_written() {
        return Some(None);
    }
    let rule = "a port is a number from 1 to 65535";
    let port = raw.port.keep(
        raw.port.given(),
        |port| (1..=PORT_MAX).contains(&port),
        rule,
        "use one that is free, such as 29600",
    )?;
    u16::try_from(port).ok().map(Some)
}
