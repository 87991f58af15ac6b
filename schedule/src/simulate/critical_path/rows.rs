//! For each instruction of a row: what is before it, and which messages are completed for it.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;

use crate::check::CheckedProgram;
use crate::id::PipelineRank;
use crate::instruction::Lane;
use crate::simulate::costs::{Costs, Links};

/// What is known of each instruction of a row, and in one more place of the row's end.
pub(super) struct RowFacts {
    /// `[index]`: the last instruction of the compute lane before it.
    pub(super) issued_after: Vec<Option<usize>>,
    /// `[index]`: the message before it on its link, if it is one.
    pub(super) link_after: Vec<Option<usize>>,
    /// `[index]`: how long the rank is busy with issuing since then, this message included.
    pub(super) issuing: Vec<u64>,
    /// `[index]`: the messages that are completed for it, in that order.
    pub(super) landings: Vec<Vec<usize>>,
}

impl RowFacts {
    pub(super) fn new(program: &CheckedProgram, costs: &Costs, rank: PipelineRank) -> Self {
        let row = program.row(rank);
        let none = || vec![None; row.len() + 1];
        let mut facts = Self {
            issued_after: none(),
            link_after: none(),
            issuing: vec![0; row.len() + 1],
            landings: vec![Vec::new(); row.len() + 1],
        };
        let (mut last_compute, mut issuing) = (None, 0u64);
        let mut last_on_link: BTreeMap<Lane, usize> = BTreeMap::new();
        let mut under_way: BTreeMap<Lane, VecDeque<usize>> = BTreeMap::new();
        for (index, &instruction) in row.iter().enumerate() {
            facts.issued_after[index] = last_compute;
            for &wait in program.waits(rank.at(index)) {
                // The messages of a lane are completed in the order of their issue.
                let lane = under_way.entry(row[wait].lane()).or_default();
                while let Some(message) = lane.pop_front_if(|message| *message <= wait) {
                    facts.landings[index].push(message);
                }
            }
            match instruction.lane() {
                Lane::Compute => {
                    facts.issuing[index] = issuing;
                    (last_compute, issuing) = (Some(index), 0);
                }
                lane => {
                    issuing = issuing.saturating_add(costs.message(instruction).issue);
                    facts.issuing[index] = issuing;
                    under_way.entry(lane).or_default().push_back(index);
                    facts.link_after[index] = last_on_link.insert(link(lane, costs.links), index);
                }
            }
        }
        // Messages that nothing waited for are completed at the end, lane after lane.
        facts.landings[row.len()].extend(under_way.into_values().flatten());
        (facts.issued_after[row.len()], facts.issuing[row.len()]) = (last_compute, issuing);
        facts
    }
}

/// The lane that stands for the link of another.
fn link(lane: Lane, links: Links) -> Lane {
    match (lane, links) {
        (Lane::Reduce, Links::SharedByCollectives) => Lane::Gather,
        (lane, _) => lane,
    }
}
