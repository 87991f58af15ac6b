//! Spare control channels, whose coordinators are in other processes than that of rank 0. Over them processes learn of each other's
//! failures when the process of rank 0 is killed or frozen, and others with it.
//!
//! NCCL moves elements only: it cannot carry a report from one process to another, least of all after a failure. Without these channels
//! each process would only know that nobody answers, and each would name all others. Over MPI, reports go from process to process.
//! Rejected: to connect only once a process is lost, because a frozen one would be waited for.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use pipezero_models::queue::Cuda;
use serde::{Deserialize, Serialize};

use super::super::control_channel::{ControlChannel, ControlChannelError, Member, fallback_reporters};
use crate::CommError;

/// Why processes have no spare channels.
#[derive(Debug, thiserror::Error)]
pub(super) enum SpareChannelError {
    /// They cannot tell each other where to connect.
    #[error(transparent)]
    First(#[from] CommError),
    /// Nobody listens.
    #[error("the process of rank {rank} cannot listen for the others: {reason}")]
    NoListener {
        /// The rank whose process has the coordinator.
        rank: usize,
        /// Why not.
        reason: String,
    },
    /// Nobody answers.
    #[error(
        "the process of rank {rank} does not answer on {address}: {source}; between hosts, processes connect to each other on any free port, \
         as NCCL does: see whether a firewall is between them"
    )]
    Connect {
        /// The rank whose process has the coordinator.
        rank: usize,
        /// Where.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// One is lost.
    #[error("the connection with the process of rank {rank} failed: {source}")]
    Lost {
        /// The rank whose process has the coordinator.
        rank: usize,
        /// The system's error.
        source: io::Error,
    },
    /// Not all are there.
    #[error(transparent)]
    Other(ControlChannelError),
}

/// Where a process listens, or why it does not.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Listens(Result<SocketAddr, String>);

/// Connects all processes, which `first` connects already, once for each fallback reporter: on any port of the address by which that one reaches rank 0.
/// The last rank is none, since there is nobody left that it could tell.
///
/// # Errors
/// When a process cannot be reached.
pub(super) fn spare_channels(
    first: &Arc<ControlChannel>,
    member: Member,
) -> Result<Vec<ControlChannel>, SpareChannelError> {
    let coordinator_ranks =
        fallback_reporters(member.world_size).into_iter().filter(|rank| rank + 1 < member.world_size);
    let coordinator_ranks: Vec<usize> = coordinator_ranks.collect();
    if coordinator_ranks.is_empty() {
        return Ok(Vec::new());
    }
    let mut listener =
        member.ranks.clone().find(|rank| coordinator_ranks.contains(rank)).map(|_| listener(first));
    let own = match &listener {
        None => Vec::new(),
        Some(listening) => {
            let address = listening.as_ref().map(|(address, _)| *address).map_err(ToString::to_string);
            written(&Listens(address))
        }
    };
    let all = first.gather(own)?;
    let of_coordinators: Vec<Vec<u8>> =
        coordinator_ranks.iter().filter_map(|&rank| all.get(rank).cloned()).collect();
    // What other processes than that of rank 0 give does not count.
    let of_coordinators: Vec<Vec<u8>> = read(&first.broadcast(written(&of_coordinators))?);
    let connect = |(&rank, listens): (&usize, &Vec<u8>)| {
        let Listens(address) = read(listens);
        let address = address.map_err(|reason| SpareChannelError::NoListener { rank, reason })?;
        let own = listener.take_if(|_| member.ranks.contains(&rank)).and_then(Result::ok);
        let connected = match own {
            Some((_, listener)) => ControlChannel::host(listener, Cuda::now_ns, member.clone()),
            None => ControlChannel::join(address, member.clone()),
        };
        let spare = connected.map_err(|error| match error {
            ControlChannelError::Connect { source, .. } => {
                SpareChannelError::Connect { rank, address, source }
            }
            ControlChannelError::Io(source) => SpareChannelError::Lost { rank, source },
            error => SpareChannelError::Other(error),
        })?;
        spare.pass_to(first, rank);
        Ok(spare)
    };
    coordinator_ranks.iter().zip(&of_coordinators).map(connect).collect()
}

fn listener(first: &ControlChannel) -> io::Result<(SocketAddr, TcpListener)> {
    let listener = TcpListener::bind((first.local_ip()?, 0))?;
    Ok((listener.local_addr()?, listener))
}

fn written(message: &impl Serialize) -> Vec<u8> {
    postcard::to_stdvec(message).expect("addresses and texts can be written")
}

fn read<T: serde::de::DeserializeOwned>(message: &[u8]) -> T {
    postcard::from_bytes(message).expect("every process runs this program")
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::{Duration, Instant};

    use pipezero_files::host::JobSecret;

    use super::*;

    const LONGEST: Duration = Duration::from_secs(20);

    fn member(rank: usize, size: usize) -> Member {
        Member::of_process(("pipezero 1.2".to_owned(), JobSecret::new(b"x".to_vec())), [rank, size], LONGEST)
    }

    /// What a process receives from the others after the processes of the first `num_ended` ranks have ended.
    fn heard(first: ControlChannel, [rank, size]: [usize; 2], num_ended: usize) -> Vec<Option<Vec<u8>>> {
        let first = Arc::new(first);
        let spare = spare_channels(&first, member(rank, size)).unwrap();
        if rank < num_ended {
            return Vec::new();
        }
        let start = Instant::now();
        while !(0..num_ended).all(|rank| first.has_ended(rank)) {
            assert!(
                start.elapsed() < LONGEST,
                "rank {rank} does not see that the first {num_ended} have ended"
            );
            thread::yield_now();
        }
        let report = vec![rank as u8];
        for spare in &spare {
            // A channel whose coordinator's process has ended too sends nothing.
            let _ = spare.report(report.clone());
        }
        first.exchange_failures(report, LONGEST).into_iter().map(|(_, report)| report).collect()
    }

    #[test]
    fn reports_reach_all_that_are_left_after_the_first_coordinators_have_ended() {
        for (size, num_ended) in [(3, 1), (3, 2), (4, 2), (8, 4)] {
            let listener = ControlChannel::listen(([127, 0, 0, 1], 0).into()).unwrap();
            let address = listener.local_addr().unwrap();
            let others: Vec<_> = (1..size)
                .map(|rank| {
                    let join = move || ControlChannel::join(address, member(rank, size)).unwrap();
                    thread::spawn(move || heard(join(), [rank, size], num_ended))
                })
                .collect();
            let first = ControlChannel::host(listener, || 0, member(0, size)).unwrap();
            heard(first, [0, size], num_ended);
            let expected: Vec<_> =
                (0..size).map(|rank| (rank >= num_ended).then(|| vec![rank as u8])).collect();
            for (rank, other) in (1..).zip(others) {
                let heard = other.join().unwrap();
                assert!(rank < num_ended || heard == expected, "rank {rank} of {size}: {heard:?}");
            }
        }
    }
}
