//! How the ranks of a job lie on its hosts.

use pipezero_files::host;
use serde::{Deserialize, Serialize};

use super::World;
use super::control_channel::ControlChannel;
use crate::CommError;

/// How ranks lie on hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RanksOnHosts {
    /// So many on each host, and on the last perhaps fewer; those of a host follow each other.
    Each {
        /// On every host but the last.
        number: usize,
        /// On the last host.
        last: usize,
    },
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
    pub(super) fn of_job(channel: &ControlChannel) -> Result<Self, CommError> {
        let names = channel.gather(host::name().into_bytes())?;
        // What other processes than that of rank 0 give does not count.
        let found = channel.broadcast(postcard::to_stdvec(&Self::of(&names)).expect("a number"))?;
        Ok(postcard::from_bytes(&found).expect("every process runs this program"))
    }

    /// What is worth knowing of them.
    pub fn warning(self) -> Option<&'static str> {
        (self == Self::Mixed).then_some(
            "the ranks of a host do not follow each other, so that data ranks, which send most, are on several hosts: have the launcher fill one host \
             after the other",
        )
    }

    /// How many each host has, of which the last may have fewer; `None` where one number does not say it.
    pub fn ranks_per_node(self) -> Option<usize> {
        match self {
            Self::Each { number, .. } => Some(number),
            Self::Uneven | Self::Mixed => None,
        }
    }

    /// Whether `size` ranks lie as a run file says, by which each host has so many: on the last, which may be the only one, there may be fewer.
    fn are_as_said(self, size: usize, said: usize) -> bool {
        self.ranks_per_node().is_some_and(|number| number == said || number == size && size <= said)
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
            Some(first) if are_filled(first.len()) => Self::Each { number: first.len(), last: last.len() },
            _ => Self::Uneven,
        }
    }
}

impl std::fmt::Display for RanksOnHosts {
    /// As what follows on "the hosts of this job have".
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Each { number, last } if number == last => write!(f, "{number} each"),
            Self::Each { number, last } => write!(f, "{number} each, the last {last}"),
            Self::Uneven => f.write_str("different numbers of ranks"),
            Self::Mixed => f.write_str("ranks that do not follow each other"),
        }
    }
}

/// The hosts of a job are filled otherwise than the run file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherHosts {
    /// What the run file says.
    said: usize,
    /// What the processes see.
    found: RanksOnHosts,
}

impl OtherHosts {
    /// Checks the ranks of a world, of processes, against what a run file says, if it says anything.
    ///
    /// # Errors
    /// When they lie otherwise.
    pub fn check(said: Option<usize>, world: &dyn World) -> Result<(), Self> {
        match (said, world.on_hosts()) {
            (Some(said), Some(found)) if !found.are_as_said(world.size(), said) => Err(Self { said, found }),
            _ => Ok(()),
        }
    }

    /// What is wrong.
    pub fn fault(&self) -> String {
        let Self { said, found } = self;
        format!("`comm.ranks_per_node` is {said}, and the hosts of this job have {found}")
    }

    /// What to do.
    pub fn repair(&self) -> String {
        let processes =
            if self.said == 1 { "1 process".to_owned() } else { format!("{} processes", self.said) };
        format!(
            "have the launcher start {processes} on each host, one host after the other, or leave the key out"
        )
    }
}

impl std::fmt::Display for OtherHosts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.fault(), self.repair())
    }
}

impl std::error::Error for OtherHosts {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_a_host_are_as_many_as_of_others_and_follow_each_other_or_not() {
        let each = |number, last| RanksOnHosts::Each { number, last };
        for (hosts, expected) in [
            ("", RanksOnHosts::Uneven),
            ("a", each(1, 1)),
            ("aaaa", each(4, 4)),
            ("aabb", each(2, 2)),
            ("bbaacc", each(2, 2)),
            ("abc", each(1, 1)),
            ("aab", each(2, 1)),
            ("aabbb", RanksOnHosts::Uneven),
            ("abb", RanksOnHosts::Uneven),
            ("abab", RanksOnHosts::Mixed),
            ("aba", RanksOnHosts::Mixed),
            ("aabba", RanksOnHosts::Mixed),
        ] {
            assert_eq!(RanksOnHosts::of(hosts.as_bytes()), expected, "{hosts}");
        }
        for (found, size, said, expected) in [
            (each(4, 4), 8, 4, true),
            (each(4, 2), 6, 4, true),
            (each(4, 4), 4, 8, true),
            (each(4, 4), 8, 8, false),
            (each(4, 4), 4, 2, false),
            (RanksOnHosts::Uneven, 8, 8, false),
        ] {
            assert_eq!(found.are_as_said(size, said), expected, "{found:?}, {size} ranks, {said} said");
        }
    }

    #[test]
    fn hosts_that_are_filled_otherwise_are_said_in_words() {
        let text = |found| OtherHosts { said: 1, found }.to_string();
        for (found, expected) in [
            (
                RanksOnHosts::Each { number: 4, last: 4 },
                "have 4 each: have the launcher start 1 process on each host, ",
            ),
            (RanksOnHosts::Each { number: 3, last: 1 }, "have 3 each, the last 1: "),
            (RanksOnHosts::Uneven, "have different numbers of ranks: "),
            (RanksOnHosts::Mixed, "have ranks that do not follow each other: "),
        ] {
            assert!(text(found).contains(expected), "{}", text(found));
            assert_eq!(found.warning().is_some(), found == RanksOnHosts::Mixed, "{found}");
        }
    }
}
