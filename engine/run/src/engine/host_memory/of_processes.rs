//! The memory that all processes of a host need together. Each of them fits alone, and finds free what the others have not allocated yet.

use std::collections::BTreeMap;

use pipezero_comm::world::{World, judged_by_first};
use pipezero_files::host;
use pipezero_plan::Bytes;
use serde::{Deserialize, Serialize};

use super::super::error::EngineError;

/// The processes of a job on one host need more memory together than a bound of theirs leaves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error(
    "the {num_processes} processes of the run on host {host} need {} of memory together, but {} is left {within}; start fewer ranks on a host, or lower what one needs, as \
     `pipezero plan` says",
    Bytes(*needed_bytes).distinct(Bytes(*available_bytes))[0],
    Bytes(*available_bytes).distinct(Bytes(*needed_bytes))[0]
)]
pub struct TooManyProcesses {
    /// The host.
    pub host: String,
    /// Processes that share the bound.
    pub num_processes: usize,
    /// The bytes that they will still allocate.
    pub needed_bytes: u64,
    /// The bytes that are left.
    pub available_bytes: u64,
    /// Of which bound: `on this host`, or `to its control group FOLDER`.
    pub within: String,
}

/// A process and its needs.
#[derive(Debug, Serialize, Deserialize)]
struct Told {
    host: String,
    needed_bytes: u64,
    /// What each bound leaves, by its name.
    available: Vec<(String, u64)>,
}

/// Checks that each host has the memory that the processes of a job on it will still allocate; each process calls it with its own bytes.
///
/// # Errors
/// [`EngineError::MemoryOfHost`] in all processes, of the first such host; when another process stops.
pub(in super::super) fn check_all_processes(world: &dyn World, needed_bytes: u64) -> Result<(), EngineError> {
    let told = Told { host: host::name(), needed_bytes, available: host::available_by_bound() };
    match judged_by_first(world, &told, |all| first_excess(&all)).map_err(EngineError::of_others)? {
        Some(found) => Err(found.into()),
        None => Ok(()),
    }
}

/// The first bound that several processes exceed together.
fn first_excess(all: &[Told]) -> Option<TooManyProcesses> {
    let mut bounds: BTreeMap<(&str, &str), TooManyProcesses> = BTreeMap::new();
    for Told { host, needed_bytes, available } in all {
        for (number, (name, available_bytes)) in available.iter().enumerate() {
            let within =
                if number == 0 { format!("on {name}") } else { format!("to its control group {name}") };
            let bound = bounds.entry((host, name)).or_insert(TooManyProcesses {
                host: host.clone(),
                num_processes: 0,
                needed_bytes: 0,
                available_bytes: *available_bytes,
                within,
            });
            bound.num_processes += 1;
            bound.needed_bytes = bound.needed_bytes.saturating_add(*needed_bytes);
            bound.available_bytes = bound.available_bytes.min(*available_bytes);
        }
    }
    bounds.into_values().find(|bound| bound.num_processes > 1 && bound.needed_bytes > bound.available_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(host: &str, mebibytes: u64, available: &[(&str, u64)]) -> Told {
        let available =
            available.iter().map(|&(name, mebibytes)| (name.to_owned(), mebibytes << 20)).collect();
        Told { host: host.to_owned(), needed_bytes: mebibytes << 20, available }
    }

    #[test]
    fn processes_share_what_their_host_and_their_group_leave() {
        let of =
            |told: &[Told]| first_excess(told).map(|found| (found.host, found.num_processes, found.within));
        let on_host = |host: &str, num| Some((host.to_owned(), num, "on this host".to_owned()));
        let free = |mebibytes| [("this host", mebibytes)];
        assert_eq!(of(&[told("a", 60, &free(130)), told("a", 60, &free(120))]), None);
        assert_eq!(of(&[told("a", 60, &free(130)), told("a", 60, &free(119))]), on_host("a", 2));
        assert_eq!(
            of(&[told("a", 60, &free(100)), told("b", 60, &free(100)), told("b", 60, &free(100))]),
            on_host("b", 2)
        );
        // One that does not fit alone has said so itself, with what would make it fit.
        assert_eq!(of(&[told("a", 60, &free(50)), told("b", 60, &free(60))]), None);
        // Groups of their own, and one that they share.
        let in_group = |group, left| [("this host", 1000), (group, left)];
        assert_eq!(of(&[told("a", 60, &in_group("/1", 70)), told("a", 60, &in_group("/2", 70))]), None);
        let found = of(&[told("a", 60, &in_group("/1", 70)), told("a", 60, &in_group("/1", 70))]);
        assert_eq!(found, Some(("a".to_owned(), 2, "to its control group /1".to_owned())));
    }

    #[test]
    fn the_error_says_what_is_needed_and_what_is_left() {
        let found =
            first_excess(&[told("a", 60, &[("this host", 100)]), told("a", 60, &[("this host", 100)])])
                .unwrap();
        expect_test::expect!["the 2 processes of the run on host a need 120.00 MiB of memory together, but 100.00 MiB is left on this host; start fewer ranks on a host, or lower what one needs, as `pipezero plan` says"].assert_eq(&found.to_string());
    }
}
