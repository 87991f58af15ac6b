//! What is wrong with a launcher's variables.

/// Why a process does not know its rank or its peers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LauncherError {
    /// A variable is no number.
    #[error(
        "the environment variable {name} is \"{text}\", but it must be a whole number: it is the launcher that sets it"
    )]
    NoNumber {
        /// The variable.
        name: &'static str,
        /// Its value.
        text: String,
    },
    /// One variable of several is missing.
    #[error(
        "the environment variable {name} is not set, but others of {launcher} are: start pipezero by {launcher}, or unset those"
    )]
    Missing {
        /// The variable.
        name: &'static str,
        /// The program that sets it.
        launcher: String,
    },
    /// There is no such rank.
    #[error("{rank_name} is {rank}, but {size_name} is {size}: ranks count from 0")]
    RankTooLarge {
        /// The variable of the rank.
        rank_name: &'static str,
        /// The rank.
        rank: usize,
        /// The variable of the number of processes.
        size_name: &'static str,
        /// The number.
        size: usize,
    },
    /// Variables of two jobs.
    #[error(
        "{size_name} is {size}, but {around_size_name} is {around_size}, so the first is left from another job: unset {rank_name}, {size_name} and what \
         was set with them"
    )]
    OtherJob {
        /// The variable of the launcher's rank.
        rank_name: &'static str,
        /// The variable of its number of processes.
        size_name: &'static str,
        /// The number.
        size: usize,
        /// The same of the launcher that has started more.
        around_size_name: &'static str,
        /// Its number.
        around_size: usize,
    },
    /// Nothing says where the process of rank 0 is.
    #[error(
        "MASTER_ADDR is not set: set it in every process to the name or address of the host of rank 0, as torchrun does"
    )]
    NoAddress,
    /// That is no host.
    #[error("MASTER_ADDR is \"{host}\", which is neither the name of a host nor an address")]
    Address {
        /// The value.
        host: String,
    },
    /// That is no port.
    #[error(
        "MASTER_PORT is {port}, but pipezero takes the port behind it, which must be below 65536: use a lower one, or set `comm.port`"
    )]
    Port {
        /// The value.
        port: usize,
    },
}
