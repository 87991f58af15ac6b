//! What goes over a connection: frames, each with its length before it.

use std::io::{self, Read, Write};
use std::ops::Range;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::super::Position;

/// Bytes of a frame at most: the recorded step of a process, or its report, is far smaller.
const MAX_BYTES: u32 = 1 << 30;
/// Of the first frame of a connection, which an unknown program may send.
const MAX_HELLO_BYTES: u32 = 1 << 12;

/// The first frame of a connection: who connects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hello {
    /// [`Hello::GREETING`].
    pub(super) greeting: [u8; 8],
    /// The program and its version, which must be those of rank 0.
    pub(super) program: String,
    /// Ranks in all processes.
    pub(super) world_size: usize,
    /// The ranks of this process.
    pub(super) ranks: Range<usize>,
}

impl Hello {
    /// Every hello begins with it, so that any other program that connects is recognised.
    pub(super) const GREETING: [u8; 8] = *b"pipezero";
}

/// What processes do together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Exchange {
    /// Adds words; all get the sums.
    AddWords {
        /// How many.
        num_words: usize,
    },
    /// Messages to the process of rank 0.
    Gather,
    /// A message of the process of rank 0 to all.
    Broadcast,
}

/// A frame from a process to the coordinator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum ToCoordinator {
    /// Its part of an exchange; each process numbers them from 0.
    Give { number: u64, exchange: Exchange, message: Vec<u8> },
    /// It asks what the clock of rank 0's process shows.
    AskTime,
    /// Where its ranks are.
    Positions(Vec<Position>),
    /// One of its ranks has failed.
    Stop,
    /// After a stop: how its ranks have failed.
    Report(Vec<u8>),
    /// It ends, and needs nothing more.
    End,
    /// The same, from the process that has the coordinator.
    EndOfCoordinator,
    /// It has received that the coordinator ends, and so everything before that.
    Heard,
}

/// A frame from the coordinator to a process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum FromCoordinator {
    /// All ranks are there: those of each process, ascending.
    Begin(Vec<Range<usize>>),
    /// The process cannot take part, or another cannot that should have: why.
    Refuse(String),
    /// What an exchange gives this process.
    Take { number: u64, messages: Vec<Vec<u8>> },
    /// A process with this first rank takes part in another exchange than those before it.
    Mismatch { rank: usize, exchange: Exchange, expected: Exchange },
    /// An exchange will never be whole: the process with this first rank has ended or stopped without its part.
    Lost { number: u64, first_rank: usize },
    /// The clock of rank 0's process, nanoseconds.
    Time(u64),
    /// Where the ranks of the processes are, by the first rank of each.
    Positions(Vec<(usize, Vec<Position>)>),
    /// A rank of another process has failed.
    Stop,
    /// How the ranks of a process have failed, by its first rank.
    Report { first_rank: usize, report: Vec<u8> },
    /// A process has ended, by its first rank.
    Ended { first_rank: usize, has_said_so: bool },
    /// The coordinator's process ends and sends nothing more: it waits for [`ToCoordinator::Heard`].
    EndOfCoordinator,
}

/// Writes a frame.
pub(super) fn write(to: &mut impl Write, frame: &impl Serialize) -> io::Result<()> {
    let body = postcard::to_stdvec(frame).map_err(io::Error::other)?;
    let len = u32::try_from(body.len()).ok().filter(|&len| len <= MAX_BYTES);
    let len =
        len.ok_or_else(|| io::Error::other(format!("a message of {} bytes is too long", body.len())))?;
    let mut bytes = len.to_le_bytes().to_vec();
    bytes.extend(body);
    to.write_all(&bytes)
}

/// Reads a frame; `None` where the connection was closed between two.
pub(super) fn read<F: DeserializeOwned>(from: &mut impl Read) -> io::Result<Option<F>> {
    read_up_to(from, MAX_BYTES)
}

/// Reads the first frame of a connection.
///
/// # Errors
/// When it is no [`Hello`], whatever it is.
pub(super) fn read_hello(from: &mut impl Read) -> io::Result<Hello> {
    match read_up_to::<Hello>(from, MAX_HELLO_BYTES)? {
        Some(hello) if hello.greeting == Hello::GREETING => Ok(hello),
        Some(_) => Err(io::Error::other("it does not greet as pipezero does")),
        None => Err(io::Error::other("it said nothing")),
    }
}

fn read_up_to<F: DeserializeOwned>(from: &mut impl Read, max_bytes: u32) -> io::Result<Option<F>> {
    let mut len = [0; 4];
    if from.read(&mut len[..1])? == 0 {
        return Ok(None);
    }
    from.read_exact(&mut len[1..])?;
    let len = u32::from_le_bytes(len);
    if len > max_bytes {
        return Err(io::Error::other(format!("a frame of {len} bytes, of at most {max_bytes}")));
    }
    let mut body = Vec::new();
    let num_read = from.take(len.into()).read_to_end(&mut body)?;
    if num_read < len as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    postcard::from_bytes(&body).map(Some).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_as_they_were_written_and_nothing_else_is() {
        let frames = [
            ToCoordinator::Give {
                number: 7,
                exchange: Exchange::AddWords { num_words: 2 },
                message: vec![1; 16],
            },
            ToCoordinator::AskTime,
            ToCoordinator::Positions(vec![Position::Idle, Position::AddingLosses]),
            ToCoordinator::Stop,
            ToCoordinator::Report(Vec::new()),
            ToCoordinator::End,
            ToCoordinator::EndOfCoordinator,
            ToCoordinator::Heard,
        ];
        let mut bytes = Vec::new();
        frames.iter().for_each(|frame| write(&mut bytes, frame).unwrap());
        let mut from = &bytes[..];
        for frame in &frames {
            assert_eq!(read::<ToCoordinator>(&mut from).unwrap().as_ref(), Some(frame));
        }
        assert_eq!(read::<ToCoordinator>(&mut from).unwrap(), None);
        for len in 1..bytes.len() {
            let mut from = &bytes[..len];
            while let Ok(Some(_)) = read::<ToCoordinator>(&mut from) {}
        }
    }

    #[test]
    fn an_unknown_program_is_recognised_by_the_first_bytes() {
        let hello =
            Hello { greeting: Hello::GREETING, program: "pipezero 1".to_owned(), world_size: 4, ranks: 1..2 };
        let mut bytes = Vec::new();
        write(&mut bytes, &hello).unwrap();
        assert_eq!(read_hello(&mut &bytes[..]).unwrap(), hello);
        bytes[4] = b'q';
        for unknown in [&b""[..], b"x", b"GET / HTTP/1.1\r\n\r\n", &[0xff; 64], &[0; 64], &bytes] {
            assert!(read_hello(&mut &*unknown).is_err(), "{unknown:?}");
        }
    }
}
