//! Why processes are not connected.

use std::net::SocketAddr;
use std::time::Duration;

use pipezero_files::host::JobSecret;

/// Why a process has no control channel.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlChannelError {
    /// The process of rank 0 cannot listen.
    #[error(
        "rank 0 cannot listen on {address}: {source}; set MASTER_ADDR to an address of its host, and `comm.port` to a port that is free there"
    )]
    Listen {
        /// Where.
        address: SocketAddr,
        /// The system's error.
        source: std::io::Error,
    },
    /// The host of rank 0 has no address.
    #[error(
        "the host of rank 0 is \"{host}\", and its address is not known ({reason}): set MASTER_ADDR to an address of that host in every process"
    )]
    UnknownHost {
        /// Its name.
        host: String,
        /// The system's error.
        reason: String,
    },
    /// The process of rank 0 does not answer.
    #[error(
        "the process of rank 0 does not answer on {address} ({source}), after {waited:.1?}: see whether it has started, and whether this host \
         reaches the address"
    )]
    Connect {
        /// Where.
        address: SocketAddr,
        /// How long it was tried.
        waited: Duration,
        /// The system's error of the last try.
        source: std::io::Error,
    },
    /// The program that answers on the address is no process of the job.
    #[error(
        "what listens on {address} does not greet as the process of rank 0 does ({source}), after {waited:.1?}: see which program has the port, and \
         give each job a port of its own"
    )]
    NotGreeted {
        /// Where.
        address: SocketAddr,
        /// How long it was tried.
        waited: Duration,
        /// The error of the last try.
        source: std::io::Error,
    },
    /// The processes of the job have different secrets, or this one has found another job.
    #[error(
        "the process that listens on {address} has another job secret than this one: give every process of the job the same value of {}, which \
         mpirun passes on with -x {}, and each job a port of its own",
        JobSecret::VARIABLE,
        JobSecret::VARIABLE
    )]
    OtherSecret {
        /// Where.
        address: SocketAddr,
    },
    /// Not all ranks have connected.
    #[error(
        "waited {waited:.1?} for all ranks to connect{}: see whether their processes have started{}",
        missing_ranks(missing),
        dropped(*num_dropped)
    )]
    Missing {
        /// How long.
        waited: Duration,
        /// The ranks; empty where the process of rank 0 alone knows.
        missing: Vec<usize>,
        /// Connections that the process of rank 0 has dropped because they did not greet.
        num_dropped: usize,
    },
    /// The processes of the job do not fit together.
    #[error("{0}")]
    Refused(String),
    /// The connection failed.
    #[error("the connection with the process of rank 0 failed: {0}")]
    Io(#[from] std::io::Error),
}

fn dropped(num: usize) -> String {
    let what = match num {
        0 => return String::new(),
        1 => "1 connection".to_owned(),
        num => format!("{num} connections"),
    };
    format!(
        ", and have the same {}: rank 0 has dropped {what} of programs that did not prove it (PIPEZERO_LOG=warn names them)",
        JobSecret::VARIABLE
    )
}

fn missing_ranks(missing: &[usize]) -> String {
    const SHOWN: usize = 8;
    let shown: Vec<String> = missing.iter().take(SHOWN).map(usize::to_string).collect();
    match missing.len() {
        0 => String::new(),
        num if num <= SHOWN => format!(", missing {}", shown.join(", ")),
        num => format!(", missing {} and {} more", shown.join(", "), num - SHOWN),
    }
}
