//! Whether the processes of a host together have the memory that they need, before any of them allocates.
//!
//! Each process has compared its own needs with all that is left, which the others want too.

use std::collections::BTreeMap;

use pipezero_comm::world::{World, judged_by_first};
use pipezero_config::DeviceName;
use pipezero_files::host::{self, MemoryLeft};
use pipezero_plan::Plan;
use serde::{Deserialize, Serialize};

use super::{Held, ProcessNeeds};
use crate::engine::error::EngineError;

/// The message of a process to that of rank 0.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Wanted {
    /// The memories that bound the process, by [`MemoryLeft::identity`].
    memories: Vec<String>,
    needed_bytes: u64,
    /// The part of `needed_bytes` that it holds already.
    held_bytes: u64,
}

/// The needs of all processes that share a memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Sum {
    num_processes: usize,
    needed_bytes: u64,
    held_bytes: u64,
}

/// A memory that has too little.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct TooLittle {
    /// The first rank of the process that found it.
    rank: usize,
    host: String,
    group: Option<String>,
    sum: Sum,
    available_bytes: u64,
}

/// Refuses a plan where the processes of a host need more than is left of its memory, or of that of a control group which they are in. Every process of
/// the world calls it.
///
/// # Errors
/// [`EngineError::MemoryOfProcesses`] in the first process that finds it, [`EngineError::Elsewhere`] in the others; when another process stops.
pub(in crate::engine) fn check_processes(
    plan: &Plan,
    world: &dyn World,
    held: Held,
) -> Result<(), EngineError> {
    if world.has_all_ranks() {
        return Ok(());
    }
    // Looked at again once every process is here: until then another one may hold memory that it gives back.
    let sums = judged_by_first(world, &wanted(plan, world, held), sums)?;
    let rank = world.local_ranks().start;
    let own = too_little(&host::memories_left(), &sums, rank);
    let found = judged_by_first(world, &own, |all| all.into_iter().flatten().next())?;
    match found {
        None => Ok(()),
        Some(TooLittle { rank: finder, host, group, sum, available_bytes }) if finder == rank => {
            let Sum { num_processes, needed_bytes, .. } = sum;
            Err(EngineError::MemoryOfProcesses { host, num_processes, needed_bytes, available_bytes, group })
        }
        Some(_) => Err(EngineError::Elsewhere),
    }
}

fn wanted(plan: &Plan, world: &dyn World, held: Held) -> Wanted {
    // Ranks on a GPU share its memory, not the host's. Such a process answers too, since the others wait for it.
    if plan.run().device != DeviceName::Cpu {
        return Wanted { memories: Vec::new(), needed_bytes: 0, held_bytes: 0 };
    }
    let ranks: Vec<usize> = world.local_ranks().collect();
    let needs = ProcessNeeds::of(plan, &ranks);
    Wanted {
        memories: host::memories_left().into_iter().map(|left| left.identity).collect(),
        needed_bytes: needs.bytes_from_now(held),
        held_bytes: needs.held_bytes(held),
    }
}

/// Adds up the needs for each memory.
fn sums(all: Vec<Wanted>) -> BTreeMap<String, Sum> {
    let mut sums: BTreeMap<String, Sum> = BTreeMap::new();
    for Wanted { memories, needed_bytes, held_bytes } in all {
        for memory in memories {
            let sum = sums.entry(memory).or_default();
            sum.num_processes += 1;
            sum.needed_bytes = sum.needed_bytes.saturating_add(needed_bytes);
            sum.held_bytes = sum.held_bytes.saturating_add(held_bytes);
        }
    }
    sums
}

/// The memory of this process that lacks most, where one has too little. A process that shares none has compared its needs by itself.
fn too_little(memories: &[MemoryLeft], sums: &BTreeMap<String, Sum>, rank: usize) -> Option<TooLittle> {
    let lacking = memories.iter().filter_map(|MemoryLeft { identity, group, bytes }| {
        let sum = *sums.get(identity).filter(|sum| sum.num_processes > 1)?;
        let available_bytes = bytes.saturating_add(sum.held_bytes);
        let group = group.as_ref().map(|folder| folder.display().to_string());
        let found = TooLittle { rank, host: host::name(), group, sum, available_bytes };
        (sum.needed_bytes > available_bytes).then_some(found)
    });
    lacking.max_by_key(|found| found.sum.needed_bytes - found.available_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn wants(memories: &[&str], needed_mib: u64) -> Wanted {
        let memories = memories.iter().map(|&name| name.to_owned()).collect();
        Wanted { memories, needed_bytes: needed_mib * MIB, held_bytes: 5 * MIB }
    }

    fn left(identity: &str, mib: u64) -> MemoryLeft {
        let group = identity.starts_with("group").then(|| format!("/groups/{identity}").into());
        MemoryLeft { identity: identity.to_owned(), group, bytes: mib * MIB }
    }

    /// Three processes on one host, two of them in a group of their own, and one on another host.
    fn job() -> BTreeMap<String, Sum> {
        sums(vec![
            wants(&["host a"], 100),
            wants(&["host a", "group 7"], 200),
            wants(&["host b"], 1000),
            wants(&["host a", "group 7"], 300),
        ])
    }

    #[test]
    fn needs_add_up_by_host_and_by_group() {
        let sum = |num_processes, mib: u64| Sum {
            num_processes,
            needed_bytes: mib * MIB,
            held_bytes: num_processes as u64 * 5 * MIB,
        };
        let expected = [("group 7", sum(2, 500)), ("host a", sum(3, 600)), ("host b", sum(1, 1000))];
        assert!(job().iter().map(|(name, &sum)| (name.as_str(), sum)).eq(expected), "{:?}", job());
    }

    /// Memory that the processes hold already, 15 MiB on the host and 10 MiB in the group, counts as available to them.
    #[test]
    fn a_memory_with_too_little_for_all_is_found_although_each_alone_has_enough() {
        let found = |host, group| {
            let found = too_little(&[left("host a", host), left("group 7", group)], &job(), 1)?;
            Some((found.group, found.sum.num_processes, found.available_bytes / MIB))
        };
        assert_eq!(found(585, 490), None);
        assert_eq!(found(584, 490), Some((None, 3, 599)));
        assert_eq!(found(585, 489), Some((Some("/groups/group 7".to_owned()), 2, 499)));
        // The one that lacks more.
        assert_eq!(found(580, 400), Some((Some("/groups/group 7".to_owned()), 2, 410)));
        // One process has been compared by itself, and of a memory that is not known nothing is said.
        assert_eq!(too_little(&[left("host b", 10), left("host c", 0)], &job(), 2), None);
    }

    #[test]
    fn the_error_names_host_sum_limit_and_processes() {
        let error = |group: Option<&str>, available_bytes| {
            let (host, group) = ("node7".to_owned(), group.map(str::to_owned));
            let needed_bytes = 6 << 30;
            EngineError::MemoryOfProcesses { host, num_processes: 3, needed_bytes, available_bytes, group }
                .to_string()
        };
        expect_test::expect!["the 3 processes on host `node7` together need 6.00 GiB of memory, but 5.00 GiB is available on it; start fewer processes on this host, or make each smaller: `pipezero plan RUN_FILE` shows what a process needs and which settings lower it"].assert_eq(&error(None, 5 << 30));
        expect_test::expect!["the 3 processes on host `node7` together need 6442450944 bytes of memory, but 6442450943 bytes is available to their control group `/sys/fs/cgroup/job` (a limit of a container, a service or a batch system); start fewer processes on this host, or make each smaller: `pipezero plan RUN_FILE` shows what a process needs and which settings lower it"].assert_eq(&error(Some("/sys/fs/cgroup/job"), (6 << 30) - 1));
    }
}
