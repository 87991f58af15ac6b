//! How the processes that are left tell each other of their failures when that of rank 0, with which they were connected, is gone.
#![allow(unsafe_code, reason = "MPI reads and writes the reports while they are under way")]

use std::thread;
use std::time::{Duration, Instant};

use super::wire::{Message, MpiError, Wire};

/// Bytes of a message: the length of a report, and the report. A rank's is far shorter.
const NUM_BYTES: usize = 64 << 10;
const LEN_BYTES: usize = size_of::<u64>();

/// A report that is awaited, by the rank that sends it.
struct Awaited {
    rank: usize,
    message: Message,
    /// Never freed: the message may never be done.
    bytes: &'static mut [u8],
}

/// Sends a report to the other ranks, and returns what comes from them in this time, by rank; nothing of those with which MPI fails. What is
/// under way then stays so: the process is about to end.
pub(super) fn exchange(
    wire: &Wire,
    tag: u16,
    own: &[u8],
    others: &[usize],
    time: Duration,
) -> Vec<(usize, Vec<u8>)> {
    let start = Instant::now();
    let sent: &'static [u8] = Box::leak(packed(own));
    let begun = others.iter().filter_map(|&rank| begin(wire, tag, sent, rank).ok());
    let mut awaited: Vec<Awaited> = begun.collect();
    let mut reports = Vec::new();
    while !awaited.is_empty() && start.elapsed() < time {
        awaited.retain_mut(|Awaited { rank, message, bytes }| match wire.done(message) {
            Ok(None) => true,
            Ok(Some(_)) => {
                reports.extend(unpacked(bytes).map(|report| (*rank, report)));
                false
            }
            Err(_) => false,
        });
        thread::yield_now();
    }
    reports.sort_by_key(|(rank, _)| *rank);
    reports
}

fn begin(wire: &Wire, tag: u16, sent: &'static [u8], rank: usize) -> Result<Awaited, MpiError> {
    let bytes = Box::leak(vec![0; NUM_BYTES].into_boxed_slice());
    // SAFETY: the bytes are never freed, and are read after the message is done.
    let message = unsafe { wire.receive(Some(rank), tag, bytes) }?;
    // SAFETY: the bytes are never freed, nor written.
    unsafe { wire.send(rank, tag, sent) }?;
    Ok(Awaited { rank, message, bytes })
}

/// A report that is too long is none.
fn packed(report: &[u8]) -> Box<[u8]> {
    let report = if report.len() <= NUM_BYTES - LEN_BYTES { report } else { &[] };
    let mut bytes = (report.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(report);
    bytes.resize(NUM_BYTES, 0);
    bytes.into_boxed_slice()
}

fn unpacked(bytes: &[u8]) -> Option<Vec<u8>> {
    let (len, rest) = bytes.split_at_checked(LEN_BYTES)?;
    let len = usize::try_from(u64::from_le_bytes(len.try_into().ok()?)).ok()?;
    rest.get(..len).map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests {
    use super::{NUM_BYTES, packed, unpacked};

    #[test]
    fn reports_are_unpacked_as_they_were_packed() {
        for report in [&b""[..], b"rank 3 is frozen", &[7; NUM_BYTES - 8]] {
            assert_eq!(unpacked(&packed(report)).as_deref(), Some(report));
        }
        assert_eq!(unpacked(&packed(&[7; NUM_BYTES])), Some(Vec::new()));
        assert_eq!(unpacked(&[0xff; NUM_BYTES]), None);
    }
}
