//! Spare side channels, whose hubs are in other processes than that of rank 0: by them processes hear of each other's failures where that one is
//! killed or frozen, and others with it.
//!
//! NCCL carries nothing that one process could tell another, least of all after a failure. Without these channels each process would only know that it
//! hears from nobody, and all of them would name all others. Over MPI reports go from process to process. Rejected: that processes connect once some
//! are lost, since one that is frozen may be waited for.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use pipezero_models::queue::Cuda;
use serde::{Deserialize, Serialize};

use super::super::side_channel::{Member, SideChannel, SideChannelError, heirs};
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
        /// The rank whose process has the hub.
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
        /// The rank whose process has the hub.
        rank: usize,
        /// Where.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// One is lost.
    #[error("the connection with the process of rank {rank} failed: {source}")]
    Lost {
        /// The rank whose process has the hub.
        rank: usize,
        /// The system's error.
        source: io::Error,
    },
    /// Not all are there.
    #[error(transparent)]
    Other(SideChannelError),
}

/// Where a process listens, or why it does not.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Listens(Result<SocketAddr, String>);

/// Connects all processes, which `first` connects already, once for each heir of rank 0: on any port of the address by which that one reaches rank 0.
/// The last rank is none, since there is nobody left that it could tell.
///
/// # Errors
/// When a process cannot be reached.
pub(super) fn spare_channels(
    first: &Arc<SideChannel>,
    member: Member,
) -> Result<Vec<SideChannel>, SpareChannelError> {
    let hub_ranks = heirs(member.world_size).into_iter().filter(|rank| rank + 1 < member.world_size);
    let hub_ranks: Vec<usize> = hub_ranks.collect();
    if hub_ranks.is_empty() {
        return Ok(Vec::new());
    }
    let mut listener = member.ranks.clone().find(|rank| hub_ranks.contains(rank)).map(|_| listener(first));
    let own = match &listener {
        None => Vec::new(),
        Some(listening) => {
            let address = listening.as_ref().map(|(address, _)| *address).map_err(ToString::to_string);
            written(&Listens(address))
        }
    };
    let all = first.gather(own)?;
    let of_hubs: Vec<Vec<u8>> = hub_ranks.iter().filter_map(|&rank| all.get(rank).cloned()).collect();
    // What other processes than that of rank 0 give does not count.
    let of_hubs: Vec<Vec<u8>> = read(&first.broadcast(written(&of_hubs))?);
    let connect = |(&rank, listens): (&usize, &Vec<u8>)| {
        let Listens(address) = read(listens);
        let address = address.map_err(|reason| SpareChannelError::NoListener { rank, reason })?;
        let own = listener.take_if(|_| member.ranks.contains(&rank)).and_then(Result::ok);
        let connected = match own {
            Some((_, listener)) => SideChannel::host(listener, Cuda::now_ns, member.clone()),
            None => SideChannel::join(address, member.clone()),
        };
        let spare = connected.map_err(|error| match error {
            SideChannelError::Connect { source, .. } => SpareChannelError::Connect { rank, address, source },
            SideChannelError::Io(source) => SpareChannelError::Lost { rank, source },
            error => SpareChannelError::Other(error),
        })?;
        spare.pass_to(first, rank);
        Ok(spare)
    };
    hub_ranks.iter().zip(&of_hubs).map(connect).collect()
}

fn listener(first: &SideChannel) -> io::Result<(SocketAddr, TcpListener)> {
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

    use super::*;

    const LONGEST: Duration = Duration::from_secs(20);

    fn member(rank: usize, size: usize) -> Member {
        Member::of_process("pipezero 1.2".to_owned(), [rank, size], LONGEST)
    }

    /// What a process hears from the others after those of the first ranks, so many, are gone.
    fn heard(first: SideChannel, [rank, size]: [usize; 2], num_gone: usize) -> Vec<Option<Vec<u8>>> {
        let first = Arc::new(first);
        let spare = spare_channels(&first, member(rank, size)).unwrap();
        if rank < num_gone {
            return Vec::new();
        }
        let start = Instant::now();
        while !(0..num_gone).all(|gone| first.has_ended(gone)) {
            assert!(
                start.elapsed() < LONGEST,
                "rank {rank} does not see that the first {num_gone} have ended"
            );
            thread::yield_now();
        }
        let report = vec![rank as u8];
        for spare in &spare {
            // Those whose hub is gone too carry nothing.
            let _ = spare.report(report.clone());
        }
        first.exchange_failures(report, LONGEST).into_iter().map(|(_, report)| report).collect()
    }

    #[test]
    fn reports_reach_all_that_are_left_where_the_first_hubs_are_gone() {
        for (size, num_gone) in [(3, 1), (3, 2), (4, 2), (8, 4)] {
            let listener = SideChannel::listen(([127, 0, 0, 1], 0).into()).unwrap();
            let address = listener.local_addr().unwrap();
            let others: Vec<_> = (1..size)
                .map(|rank| {
                    let join = move || SideChannel::join(address, member(rank, size)).unwrap();
                    thread::spawn(move || heard(join(), [rank, size], num_gone))
                })
                .collect();
            let first = SideChannel::host(listener, || 0, member(0, size)).unwrap();
            heard(first, [0, size], num_gone);
            let expected: Vec<_> =
                (0..size).map(|rank| (rank >= num_gone).then(|| vec![rank as u8])).collect();
            for (rank, other) in (1..).zip(others) {
                let heard = other.join().unwrap();
                assert!(rank < num_gone || heard == expected, "rank {rank} of {size}: {heard:?}");
            }
        }
    }
}
