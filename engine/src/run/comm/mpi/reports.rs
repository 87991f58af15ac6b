//! How processes tell each other of their failures directly: the connections of the side channel go over the process of rank 0, which may be
//! the one that is gone. A report is also how a process hears that ranks have stopped.
#![allow(unsafe_code, reason = "MPI reads and writes reports while they are under way")]

use super::wire::{Message, MpiError, Wire};

/// Bytes of a message at most: the length of a report, and the report. A rank's is far shorter.
const NUM_BYTES: usize = 64 << 10;
const LEN_BYTES: usize = size_of::<u64>();

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

    /// Sends a report to other ranks. MPI usually hands on at once what is as short, so that most arrive even if this process then ends; nobody waits
    /// for that.
    pub(super) fn send(&self, wire: &Wire, report: &[u8], others: &[usize]) -> Result<(), MpiError> {
        let sent: &'static [u8] = Box::leak(packed(report));
        for &rank in others {
            // SAFETY: the bytes are never freed, nor written.
            unsafe { wire.send(rank, self.tag, sent) }?;
        }
        Ok(())
    }

    /// The next report, with the rank of its process.
    pub(super) fn hear(&mut self, wire: &Wire) -> Result<Option<(usize, Vec<u8>)>, MpiError> {
        let mut report = None;
        if let Some(message) = &mut self.heard {
            let Some(rank) = wire.done(message)? else { return Ok(None) };
            report = unpacked(&self.bytes).map(|report| (rank, report));
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
fn packed(report: &[u8]) -> Box<[u8]> {
    let report = if report.len() <= NUM_BYTES - LEN_BYTES { report } else { &[] };
    [&(report.len() as u64).to_le_bytes(), report].concat().into_boxed_slice()
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
            let mut bytes = packed(report).into_vec();
            assert!(bytes.len() <= NUM_BYTES);
            bytes.resize(NUM_BYTES, 0xff);
            assert_eq!(unpacked(&bytes).as_deref(), Some(report));
        }
        assert_eq!(unpacked(&packed(&[7; NUM_BYTES])), Some(Vec::new()));
        assert_eq!(unpacked(&[0xff; NUM_BYTES]), None);
    }
}
