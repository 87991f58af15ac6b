//! What a member tells the others of an operation that it has started.

use std::ops::Range;

use pipezero_models::ElementType;
use xxhash_rust::xxh3::Xxh3;

use crate::group::{Channel, ChannelKey};
use crate::operation::Operation;

/// Bytes of an announcement.
pub(super) const NUM_BYTES: usize = 7 * 8;

/// Which operation of which members it is: the same on all of them, and no other's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Identity {
    /// Of the members, their channel and the world that they belong to.
    pub(super) key: u64,
    /// The operation's number among those of the key.
    pub(super) round: u64,
}

/// An announcement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Announcement {
    pub(super) identity: Identity,
    pub(super) operation: Operation,
    /// The tag of the messages that it sends to whom it tells.
    pub(super) tag: u16,
}

/// A key as a number. `world` numbers the worlds that a process has had, which all processes count alike.
pub(super) fn number_of(world: u64, (members, channel): &ChannelKey) -> u64 {
    let channel = match channel {
        Channel::Gather => [0, 0],
        Channel::Reduce => [1, 0],
        Channel::Tied => [2, 0],
        Channel::Words => [3, 0],
        Channel::Collect => [4, 0],
        Channel::Edge(number) => [5, u64::from(*number)],
    };
    let mut hash = Xxh3::new();
    let members = members.iter().map(|&rank| rank as u64);
    for word in [world].into_iter().chain(channel).chain(members) {
        hash.update(&word.to_le_bytes());
    }
    hash.digest()
}

impl Announcement {
    pub(super) fn to_bytes(&self) -> [u8; NUM_BYTES] {
        let of_range = |range: &Range<usize>| [range.start as u64, range.end as u64];
        let (kind, [first, second], element) = match &self.operation {
            Operation::AllGather { range, element_type } => (0, of_range(range), number(*element_type)),
            Operation::ReduceScatter { range } => (1, of_range(range), 0),
            Operation::AllReduce { range } => (2, of_range(range), 0),
            Operation::Transfer { num_elements, element_type } => {
                (3, [*num_elements as u64, 0], number(*element_type))
            }
            Operation::AddWords { num_words } => (4, [*num_words as u64, 0], 0),
        };
        let Identity { key, round } = self.identity;
        let words = [key, round, kind, first, second, element, self.tag.into()];
        let mut bytes = [0; NUM_BYTES];
        for (to, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *to = word.to_le_bytes();
        }
        bytes
    }

    /// `None` where they are no announcement's.
    pub(super) fn from_bytes(bytes: &[u8; NUM_BYTES]) -> Option<Self> {
        let mut words = bytes.as_chunks::<8>().0.iter().map(|&word| u64::from_le_bytes(word));
        let mut next = || words.next();
        let identity = Identity { key: next()?, round: next()? };
        let [kind, first, second, element, tag] = [next()?, next()?, next()?, next()?, next()?];
        let (first, second) = (usize::try_from(first).ok()?, usize::try_from(second).ok()?);
        let element_type = *ELEMENTS.get(usize::try_from(element).ok()?)?;
        let range = first..second;
        let operation = match kind {
            0 => Operation::AllGather { range, element_type },
            1 => Operation::ReduceScatter { range },
            2 => Operation::AllReduce { range },
            3 => Operation::Transfer { num_elements: first, element_type },
            4 => Operation::AddWords { num_words: first },
            _ => return None,
        };
        Some(Self { identity, operation, tag: u16::try_from(tag).ok()? })
    }
}

const ELEMENTS: [ElementType; 4] = [ElementType::F32, ElementType::Bf16, ElementType::F16, ElementType::U32];

fn number(element_type: ElementType) -> u64 {
    let number = ELEMENTS.iter().position(|&known| known == element_type);
    number.expect("every type has a number") as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announcements_are_read_as_they_were_written() {
        let element_type = ElementType::F16;
        for (round, operation) in [
            Operation::AllGather { range: 4..16, element_type },
            Operation::ReduceScatter { range: 0..8 },
            Operation::AllReduce { range: 3..9 },
            Operation::Transfer { num_elements: 1 << 40, element_type },
            Operation::AddWords { num_words: 12 },
        ]
        .into_iter()
        .enumerate()
        {
            let identity = Identity { key: u64::MAX, round: round as u64 };
            let announcement = Announcement { identity, operation, tag: 777 };
            assert_eq!(Announcement::from_bytes(&announcement.to_bytes()), Some(announcement));
        }
        assert_eq!(Announcement::from_bytes(&[0xff; NUM_BYTES]), None);
    }

    #[test]
    fn keys_of_other_members_channels_and_worlds_have_other_numbers() {
        let mut numbers: Vec<u64> = Vec::new();
        for world in [0, 1] {
            for members in [vec![0, 1], vec![1, 0], vec![0, 1, 2]] {
                for channel in [Channel::Gather, Channel::Reduce, Channel::Edge(0), Channel::Edge(1)] {
                    numbers.push(number_of(world, &(members.clone(), channel)));
                }
            }
        }
        numbers.sort_unstable();
        let num_keys = numbers.len();
        numbers.dedup();
        assert_eq!((num_keys, numbers.len()), (24, 24));
    }
}
