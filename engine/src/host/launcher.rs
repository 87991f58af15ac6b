//! What a launcher has told this process in its environment.

use std::env;

/// A process among those that a launcher has started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Launched {
    /// Its rank.
    pub(crate) rank: usize,
    /// Number of processes.
    pub(crate) size: usize,
    /// How many of them run on this host, if the launcher says.
    pub(crate) local_size: Option<usize>,
}

/// The variables of a launcher: rank, number of processes, number of those on this host.
type Variables = [&'static str; 3];

/// Open MPI's mpirun, and what speaks PMI (MPICH's and Intel MPI's).
const LAUNCHERS: [Variables; 2] = [
    ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"],
    ["PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"],
];

impl Launched {
    /// This process; `None` if no launcher has started it.
    pub(crate) fn this() -> Option<Self> {
        Self::among(|name| env::var(name).ok())
    }

    fn among(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let number = |name: &str| variable(name)?.trim().parse::<usize>().ok();
        LAUNCHERS.iter().find_map(|[rank, size, local_size]| {
            let (rank, size) = (number(rank)?, number(size)?);
            (rank < size).then(|| Self { rank, size, local_size: number(local_size) })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_of_the_launcher_that_says_all() {
        let launched = |variables: &[(&str, &str)]| {
            let find = |name: &str| {
                variables.iter().find(|(key, _)| *key == name).map(|(_, text)| (*text).to_owned())
            };
            Launched::among(find)
        };
        let [rank, size, local] = LAUNCHERS[0];
        let of = |rank, size, local_size| Some(Launched { rank, size, local_size });
        assert_eq!(launched(&[(rank, "1"), (size, "4"), (local, "2")]), of(1, 4, Some(2)));
        assert_eq!(launched(&[("PMI_RANK", "3"), ("PMI_SIZE", "4")]), of(3, 4, None));
        for none in [&[][..], &[(rank, "1")], &[(rank, "4"), (size, "4")], &[(rank, "-1"), (size, "4")]] {
            assert_eq!(launched(none), None, "{none:?}");
        }
    }
}
