//! How the ranks of a job lie on its hosts.

use serde::{Deserialize, Serialize};

use super::side_channel::SideChannel;
use crate::host;
use crate::run::comm::CommError;

/// How ranks lie on hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RanksOnHosts {
    /// So many on each host, and perhaps fewer on the last; those of a host follow each other.
    Each(usize),
    /// Ranks of a host follow each other, on some hosts more than on others.
    Uneven,
    /// Between two ranks of a host there are ranks of others.
    Mixed,
}

impl RanksOnHosts {
    /// What the processes of a job see, in which each has one rank.
    ///
    /// # Errors
    /// When they cannot tell each other.
    pub(super) fn of_job(channel: &SideChannel) -> Result<Self, CommError> {
        let names = channel.gather(host::name().into_bytes())?;
        let is_first = !names.is_empty();
        // What other processes than that of rank 0 give does not count.
        let found = channel.broadcast(postcard::to_stdvec(&Self::of(&names)).expect("a number"))?;
        let found: Self = postcard::from_bytes(&found).expect("every process runs this program");
        if found == Self::Mixed && is_first {
            tracing::warn!(
                "the ranks of a host do not follow each other, so that data ranks, which send most, are on several hosts: have the launcher fill one \
                 host after the other"
            );
        }
        Ok(found)
    }

    /// Whether `size` ranks lie as a run file says, by which each host has so many: a smaller job may have one host with fewer.
    pub(super) fn are_as_said(self, size: usize, said: usize) -> bool {
        self == Self::Each(said) || (self == Self::Each(size) && size <= said)
    }

    /// By rank, the name of its host.
    fn of<T: Ord>(names: &[T]) -> Self {
        let hosts: Vec<&[T]> = names.chunk_by(|one, next| one == next).collect();
        let mut different: Vec<&T> = hosts.iter().map(|host| &host[0]).collect();
        different.sort_unstable();
        different.dedup();
        let (last, others) = hosts.split_last().map_or((&[][..], &[][..]), |(last, others)| (*last, others));
        let are_filled = |number| others.iter().all(|host| host.len() == number) && last.len() <= number;
        match hosts.first() {
            _ if different.len() < hosts.len() => Self::Mixed,
            Some(first) if are_filled(first.len()) => Self::Each(first.len()),
            _ => Self::Uneven,
        }
    }
}

impl std::fmt::Display for RanksOnHosts {
    /// As what follows on "the hosts of this job have".
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Each(number) => write!(f, "{number} each"),
            Self::Uneven => f.write_str("different numbers of ranks"),
            Self::Mixed => f.write_str("ranks that do not follow each other"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_a_host_are_as_many_as_of_others_and_follow_each_other_or_not() {
        for (hosts, expected) in [
            ("", RanksOnHosts::Uneven),
            ("a", RanksOnHosts::Each(1)),
            ("aaaa", RanksOnHosts::Each(4)),
            ("aabb", RanksOnHosts::Each(2)),
            ("bbaacc", RanksOnHosts::Each(2)),
            ("abc", RanksOnHosts::Each(1)),
            ("aab", RanksOnHosts::Each(2)),
            ("aabbb", RanksOnHosts::Uneven),
            ("abb", RanksOnHosts::Uneven),
            ("abab", RanksOnHosts::Mixed),
            ("aba", RanksOnHosts::Mixed),
            ("aabba", RanksOnHosts::Mixed),
        ] {
            assert_eq!(RanksOnHosts::of(hosts.as_bytes()), expected, "{hosts}");
        }
        for (found, size, said, expected) in [
            (RanksOnHosts::Each(4), 8, 4, true),
            (RanksOnHosts::Each(4), 4, 8, true),
            (RanksOnHosts::Each(4), 8, 8, false),
            (RanksOnHosts::Each(4), 4, 2, false),
            (RanksOnHosts::Uneven, 8, 8, false),
        ] {
            assert_eq!(found.are_as_said(size, said), expected, "{found:?}, {size} ranks, {said} said");
        }
    }
}
