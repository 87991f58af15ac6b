//! One rank's part in the messages of a lane: first one whose contents are compared, then some that are timed.

use std::time::{Duration, Instant};

use pipezero_comm::memory::{Allocator, Category, TrackedBuffer};
use pipezero_comm::{Channel, CommError, Communicator, Group};
use pipezero_models::ElementType;
use pipezero_partition::NORM_RECORD_WORDS;
use pipezero_plan::costs::MessageKind;

use super::lane::Lane;
use super::pattern::{part, sum, word};

/// Bytes of an element: words and floats have as many.
const ELEMENT_BYTES: usize = ElementType::F32.num_bytes();

/// What a rank found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    /// The first element that is not what it has to be.
    pub(super) fault: Option<String>,
    /// The median time of a message; of a transfer, at the sender, half of the way there and back. `None` at the receiver.
    pub(super) median: Option<Duration>,
}

/// Elements of a message of so many bytes, of which each member has an equal part.
pub(super) fn num_elements(bytes: u64, num_members: usize) -> usize {
    (bytes as usize / ELEMENT_BYTES).max(1).next_multiple_of(num_members)
}

/// Sends messages of a lane that this rank is a member of.
pub(super) fn exercise(
    comm: &mut dyn Communicator,
    memory: &Allocator,
    lane: &Lane,
    bytes: u64,
    num_timed: usize,
) -> Result<Outcome, CommError> {
    match lane.kind {
        MessageKind::GradientNorm => words(comm, lane, num_timed),
        kind if kind.is_transfer() => transfer(comm, memory, lane, bytes, num_timed),
        MessageKind::Unshard | MessageKind::GatherAfterStep => gather(comm, memory, lane, bytes, num_timed),
        _ => reduction(comm, memory, lane, bytes, num_timed),
    }
}

/// Sums of words, as at the end of a step.
fn words(comm: &mut dyn Communicator, lane: &Lane, num_timed: usize) -> Result<Outcome, CommError> {
    let group = Group::new(lane.members.iter().copied());
    let own = |index: usize| u64::from(word(comm.rank(), index)) << 32;
    let mut sums: Vec<u64> = (0..NORM_RECORD_WORDS as usize).map(own).collect();
    comm.all_reduce_words(&group, &mut sums)?;
    let expected = |index: usize| {
        lane.members.iter().fold(0_u64, |sum, &rank| sum.wrapping_add(u64::from(word(rank, index)) << 32))
    };
    let fault = first_fault(&sums, 0, expected, |found, expected| found == expected);
    let mut times = Vec::new();
    for _ in 0..num_timed {
        let start = Instant::now();
        comm.all_reduce_words(&group, &mut sums)?;
        times.push(start.elapsed());
    }
    Ok(Outcome { fault, median: median(times) })
}

fn gather(
    comm: &mut dyn Communicator,
    memory: &Allocator,
    lane: &Lane,
    bytes: u64,
    num_timed: usize,
) -> Result<Outcome, CommError> {
    let group = Group::new(lane.members.iter().copied());
    let len = num_elements(bytes, group.size());
    let part_len = len / group.size();
    let mut buffer = memory.zeros_of(len, ElementType::U32, Category::Communication)?;
    let position = position(comm, lane);
    let own: Vec<u32> = (0..part_len).map(|index| word(comm.rank(), index)).collect();
    comm.queue().upload(&own, buffer.view_mut().range(position * part_len..(position + 1) * part_len));
    buffer = comm.start_all_gather(&group, buffer, 0..len)?.wait()?;
    let expected = |index: usize| word(lane.members[index / part_len], index % part_len);
    let fault = first_fault(&downloaded(comm, &buffer)?, 0, expected, |found, expected| found == expected);
    let times = timed(num_timed, buffer, |buffer| comm.start_all_gather(&group, buffer, 0..len)?.wait())?;
    Ok(Outcome { fault, median: median(times) })
}

/// A reduce-scatter or an all-reduce.
fn reduction(
    comm: &mut dyn Communicator,
    memory: &Allocator,
    lane: &Lane,
    bytes: u64,
    num_timed: usize,
) -> Result<Outcome, CommError> {
    let group = Group::new(lane.members.iter().copied());
    let len = num_elements(bytes, group.size());
    let is_of_all = matches!(lane.kind, MessageKind::AllReduce | MessageKind::AddTied);
    let owned = if is_of_all { 0..len } else { part_of(len, group.size(), position(comm, lane)) };
    let buffer = memory.zeros(len, Category::Communication)?;
    let mut reduce = |mut buffer: TrackedBuffer| {
        let own: Vec<f32> = (0..len).map(|index| part(comm.rank(), index)).collect();
        comm.queue().upload_floats(&own, buffer.view_mut());
        let start = Instant::now();
        let pending = if is_of_all {
            comm.start_all_reduce(&group, lane.channel, buffer, 0..len)
        } else {
            comm.start_reduce_scatter(&group, buffer, 0..len)
        };
        let buffer = pending?.wait()?;
        Ok::<_, CommError>((buffer, start.elapsed()))
    };
    let (mut buffer, _) = reduce(buffer)?;
    let mut times = Vec::new();
    for _ in 0..num_timed {
        let took;
        (buffer, took) = reduce(buffer)?;
        times.push(took);
    }
    let mut found = vec![0.0; owned.len()];
    comm.queue().download_floats(buffer.view().range(owned.clone()), &mut found)?;
    let expected = |index: usize| sum(&lane.members, index);
    let is_equal = |found: &f32, expected: &f32| found.to_bits() == expected.to_bits();
    Ok(Outcome { fault: first_fault(&found, owned.start, expected, is_equal), median: median(times) })
}

/// A transfer and one back outside the lane, by which the sender knows that it has come.
fn transfer(
    comm: &mut dyn Communicator,
    memory: &Allocator,
    lane: &Lane,
    bytes: u64,
    num_timed: usize,
) -> Result<Outcome, CommError> {
    let [from, to] = [lane.members[0], lane.members[1]];
    let is_sender = comm.rank() == from;
    let Channel::Edge(edge) = lane.channel else { unreachable!("a transfer goes over an edge") };
    let len = num_elements(bytes, 1);
    let mut buffer = memory.zeros_of(len, ElementType::U32, Category::Communication)?;
    if is_sender {
        let own: Vec<u32> = (0..len).map(|index| word(from, index)).collect();
        comm.queue().upload(&own, buffer.view_mut());
    }
    let expected = |index: usize| word(from, index);
    let mut fault = None;
    let mut there_and_back = |buffer: TrackedBuffer, is_first: bool| {
        if is_sender {
            let buffer = comm.start_send(to, edge, buffer)?.wait()?;
            return comm.start_collect(to, from, buffer)?.wait();
        }
        let buffer = comm.start_receive(from, edge, buffer)?.wait()?;
        if is_first {
            fault =
                first_fault(&downloaded(comm, &buffer)?, 0, expected, |found, expected| found == expected);
        }
        comm.start_collect(to, from, buffer)?.wait()
    };
    buffer = there_and_back(buffer, true)?;
    let times = timed(num_timed, buffer, |buffer| there_and_back(buffer, false))?;
    let median = median(times).filter(|_| is_sender).map(|both| both / 2);
    Ok(Outcome { fault, median })
}

/// What each of so many rounds takes, in which the buffer goes in and comes back.
fn timed(
    num_timed: usize,
    mut buffer: TrackedBuffer,
    mut round: impl FnMut(TrackedBuffer) -> Result<TrackedBuffer, CommError>,
) -> Result<Vec<Duration>, CommError> {
    let mut times = Vec::new();
    for _ in 0..num_timed {
        let start = Instant::now();
        buffer = round(buffer)?;
        times.push(start.elapsed());
    }
    Ok(times)
}

pub(super) fn median(mut times: Vec<Duration>) -> Option<Duration> {
    times.sort_unstable();
    times.get(times.len() / 2).copied()
}

fn position(comm: &dyn Communicator, lane: &Lane) -> usize {
    let position = lane.members.iter().position(|&rank| rank == comm.rank());
    position.expect("a rank exercises lanes that it is a member of")
}

fn part_of(len: usize, num_parts: usize, position: usize) -> std::ops::Range<usize> {
    let part_len = len / num_parts;
    position * part_len..(position + 1) * part_len
}

fn downloaded(comm: &dyn Communicator, buffer: &TrackedBuffer) -> Result<Vec<u32>, CommError> {
    let mut words = vec![0; buffer.len()];
    comm.queue().download(buffer.view(), &mut words)?;
    Ok(words)
}

/// The first element that differs, where the first of those found is element `first` of the message.
fn first_fault<T: std::fmt::Debug>(
    found: &[T],
    first: usize,
    expected: impl Fn(usize) -> T,
    is_equal: impl Fn(&T, &T) -> bool,
) -> Option<String> {
    found.iter().enumerate().find_map(|(index, found)| {
        let index = first + index;
        let expected = expected(index);
        (!is_equal(found, &expected)).then(|| format!("element {index} is {found:?} instead of {expected:?}"))
    })
}
