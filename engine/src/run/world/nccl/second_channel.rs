//! A second side channel, whose hub is in the process of rank 1: by it processes hear of each other's failures where that of rank 0 is killed or
//! frozen.
//!
//! NCCL carries nothing that one process could tell another, least of all after a failure. Without this channel each process would only know that it
//! hears from nobody, and all of them would name all others. Over MPI reports go from process to process.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use pipezero_models::queue::Cuda;

use super::super::side_channel::{Member, SideChannel, SideChannelError};
use crate::run::comm::CommError;

/// The rank whose process has the hub.
const HUB_RANK: usize = 1;

/// Why processes are not connected a second time.
#[derive(Debug, thiserror::Error)]
pub(super) enum SecondChannelError {
    /// They cannot tell each other where to connect.
    #[error(transparent)]
    First(#[from] CommError),
    /// Nobody listens.
    #[error("the process of rank {HUB_RANK} cannot listen for the others: {reason}")]
    NoListener {
        /// Why not.
        reason: String,
    },
    /// Nobody answers.
    #[error(
        "the process of rank {HUB_RANK} does not answer on {address}: {source}; between hosts, processes connect to each other on any free port, \
         as NCCL does: see whether a firewall is between them"
    )]
    Connect {
        /// Where.
        address: SocketAddr,
        /// The system's error.
        source: std::io::Error,
    },
    /// One is lost.
    #[error("the connection with the process of rank {HUB_RANK} failed: {0}")]
    Lost(io::Error),
    /// Not all are there.
    #[error(transparent)]
    Other(SideChannelError),
}

/// Connects all processes, which `first` connects already, a second time: on any port of the address by which the process of rank 1 reaches that of
/// rank 0. Two processes need no second channel: where one fails, the other has nobody to tell.
///
/// # Errors
/// When a process cannot be reached.
pub(super) fn second_channel(
    first: &Arc<SideChannel>,
    member: Member,
) -> Result<Option<SideChannel>, SecondChannelError> {
    if member.world_size <= 2 {
        return Ok(None);
    }
    let listener =
        member.ranks.contains(&HUB_RANK).then(|| listener(first).map_err(|error| error.to_string()));
    // An address, or why there is none.
    let own = match &listener {
        None => String::new(),
        Some(Ok((address, _))) => address.to_string(),
        Some(Err(reason)) => reason.clone(),
    };
    let all = first.gather(own.into_bytes())?;
    let of_hub = first.broadcast(all.into_iter().nth(HUB_RANK).unwrap_or_default())?;
    let of_hub = String::from_utf8_lossy(&of_hub);
    let address =
        of_hub.parse().map_err(|_| SecondChannelError::NoListener { reason: of_hub.to_string() })?;
    let second = match listener {
        Some(Ok((_, listener))) => SideChannel::host(listener, Cuda::now_ns, member),
        _ => SideChannel::join(address, member),
    };
    let second = second.map_err(|error| match error {
        SideChannelError::Connect { source, .. } => SecondChannelError::Connect { address, source },
        SideChannelError::Io(source) => SecondChannelError::Lost(source),
        error => SecondChannelError::Other(error),
    })?;
    second.pass_to(first, HUB_RANK);
    Ok(Some(second))
}

fn listener(first: &SideChannel) -> io::Result<(SocketAddr, TcpListener)> {
    let listener = TcpListener::bind((first.local_ip()?, 0))?;
    Ok((listener.local_addr()?, listener))
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    const SIZE: usize = 3;
    const LONGEST: Duration = Duration::from_secs(20);

    fn member(rank: usize) -> Member {
        Member::of_process("pipezero 1.2".to_owned(), [rank, SIZE], LONGEST)
    }

    /// What a process hears from the others after that of rank 0 is gone.
    fn heard(first: SideChannel, rank: usize) -> Vec<Option<Vec<u8>>> {
        let first = Arc::new(first);
        let second = second_channel(&first, member(rank)).unwrap().unwrap();
        if rank == 0 {
            return Vec::new();
        }
        let start = Instant::now();
        while !first.has_ended(0) {
            assert!(start.elapsed() < LONGEST, "rank {rank} does not see that rank 0 has ended");
            thread::yield_now();
        }
        let report = vec![rank as u8];
        second.report(report.clone()).unwrap();
        first.exchange_failures(report, LONGEST).into_iter().map(|(_, report)| report).collect()
    }

    #[test]
    fn reports_reach_all_that_are_left_where_the_first_hub_is_gone() {
        let listener = SideChannel::listen(([127, 0, 0, 1], 0).into()).unwrap();
        let address = listener.local_addr().unwrap();
        let others = [1, 2].map(|rank| {
            thread::spawn(move || heard(SideChannel::join(address, member(rank)).unwrap(), rank))
        });
        heard(SideChannel::host(listener, || 0, member(0)).unwrap(), 0);
        for other in others {
            assert_eq!(other.join().unwrap(), [None, Some(vec![1]), Some(vec![2])]);
        }
    }
}
