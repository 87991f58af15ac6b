//! Who takes part in an operation, and which operations are matched with each other.

use super::error::CommError;

/// World ranks that take part in a collective, ascending; every member names the same ones.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Group(Vec<usize>);

impl Group {
    /// A group of these world ranks.
    ///
    /// # Panics
    /// If the ranks are not strictly ascending, or there are no ranks; groups are made by the engine, not by users.
    pub fn new(ranks: impl IntoIterator<Item = usize>) -> Self {
        let ranks: Vec<usize> = ranks.into_iter().collect();
        assert!(!ranks.is_empty() && ranks.is_sorted_by(|a, b| a < b), "a group is ascending and not empty");
        Self(ranks)
    }

    /// The members.
    pub fn ranks(&self) -> &[usize] {
        &self.0
    }

    /// Number of members.
    pub fn size(&self) -> usize {
        self.0.len()
    }
}

/// A rank's place among the members of an operation.
///
/// # Errors
/// [`CommError::UnknownRank`] for a member that does not exist, [`CommError::NotAMember`] if the rank is none of them.
pub(super) fn place(members: &[usize], rank: usize, world_size: usize) -> Result<usize, CommError> {
    if let Some(&rank) = members.iter().find(|&&member| member >= world_size) {
        return Err(CommError::UnknownRank { rank, world_size });
    }
    let place = members.iter().position(|&member| member == rank);
    place.ok_or_else(|| CommError::NotAMember { rank, group: members.to_vec() })
}

/// What operations of one kind share: those of the same members and channel are matched in the order in which each member
/// starts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Channel {
    /// All-gathers of weights.
    Gather,
    /// Reductions of gradients.
    Reduce,
    /// The tied weight's gradients.
    Tied,
    /// Words at the end of a step.
    Words,
    /// What one rank hands to another outside a program.
    Collect,
    /// One directed stage edge, by a number that both ends agree on.
    Edge(u32),
}

/// Members and channel; for a stage edge the members are sender and receiver.
pub(super) type ChannelKey = (Vec<usize>, Channel);
