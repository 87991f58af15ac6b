//! How processes send each other reports of failures directly. The control channel goes through the process of rank 0, which may be the one
//! that has ended. By a report a process also learns that ranks have stopped.
#![allow(unsafe_code, reason = "MPI reads and writes reports while they are under way")]

use super::wire::{Message, MpiError, Wire};

/// Bytes of a message at most: the number of the world, the length of a report, and the report. A rank's is far shorter.
const NUM_BYTES: usize = 64 << 10;
const WORD_BYTES: usize = size_of::<u64>();

/// The reports of a process's ranks on their way to others, and the next of another process on its way here.
pub(super) struct Reports {
    tag: u16,
    bytes: Box<[u8]>,
    heard: Option<Message>,
}

impl Reports {
    /// With messages of this tag.
    pub(super) fn new(tag: u16) -> Self {
        Self { tag, bytes: vec![0; NUM_BYTES].into_boxed_slice(), heard: None }
    }

    /// Sends a report of a world to other ranks of it. MPI usually hands on at once what is as short, so that most arrive even if this process then ends; nobody waits
    /// for that.
    pub(super) fn send(
        &self,
        wire: &Wire,
        (world, report): (u64, &[u8]),
        others: &[usize],
    ) -> Result<(), MpiError> {
        let sent: &'static [u8] = Box::leak(packed(world, report));
        for &rank in others {
            // SAFETY: the bytes are never freed, nor written.
            unsafe { wire.send(rank, self.tag, sent) }?;
        }
        Ok(())
    }

    /// The next report, with the rank of its process and the number of its world.
    pub(super) fn hear(&mut self, wire: &Wire) -> Result<Option<(usize, u64, Vec<u8>)>, MpiError> {
        let mut report = None;
        if let Some(message) = &mut self.heard {
            let Some(rank) = wire.done(message)? else { return Ok(None) };
            report = unpacked(&self.bytes).map(|(world, report)| (rank, world, report));
        }
        // SAFETY: the bytes stay where they are, and are read after the message is done.
        self.heard = Some(unsafe { wire.receive(None, self.tag, &mut self.bytes) }?);
        Ok(report)
    }

    /// Listens no more.
    pub(super) fn cancel(&mut self, wire: &Wire) {
        if let Some(message) = self.heard.take() {
            wire.cancel(message);
        }
    }
}

/// A report that is too long is none.
fn packed(world: u64, report: &[u8]) -> Box<[u8]> {
    let report = if report.len() <= NUM_BYTES - 2 * WORD_BYTES { report } else { &[] };
    [&world.to_le_bytes(), &(report.len() as u64).to_le_bytes(), report].concat().into_boxed_slice()
}

fn unpacked(bytes: &[u8]) -> Option<(u64, Vec<u8>)> {
    let (world, rest) = word(bytes)?;
    let (len, rest) = word(rest)?;
    let report = rest.get(..usize::try_from(len).ok()?)?;
    Some((world, report.to_vec()))
}

fn word(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (word, rest) = bytes.split_at_checked(WORD_BYTES)?;
    Some((u64::from_le_bytes(word.try_into().ok()?), rest))
}

#[cfg(test)]
mod tests {
    use super::{NUM_BYTES, packed, unpacked};

    #[test]
    fn reports_are_unpacked_as_they_were_packed() {
        for report in [&b""[..], b"rank 3 is frozen", &[7; NUM_BYTES - 16]] {
            let mut bytes = packed(5, report).into_vec();
            assert!(bytes.len() <= NUM_BYTES);
            bytes.resize(NUM_BYTES, 0xff);
            assert_eq!(unpacked(&bytes), Some((5, report.to_vec())));
        }
        assert_eq!(unpacked(&packed(5, &[7; NUM_BYTES])), Some((5, Vec::new())));
        assert_eq!(unpacked(&[0xff; NUM_BYTES]), None);
        assert_eq!(unpacked(&[0; 8]), None);
    }
}
