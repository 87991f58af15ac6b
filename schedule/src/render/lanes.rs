//! The lanes of a rank as rows of a picture: what stands in one row never overlaps.
//!
//! A link is free again before its message has arrived, so with a latency the messages of a lane overlap in time,
//! and neither trace viewers nor readers could distinguish them. Such a lane gets as many rows as messages are under way at once.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use crate::check::CheckedProgram;
use crate::id::PipelineRank;
use crate::instruction::Lane;
use crate::simulate::Timeline;

/// A row of a picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LaneRow {
    /// The lane that it shows.
    pub(super) lane: Lane,
    /// Its number among the rows of the lane.
    pub(super) number: usize,
    /// Positions in the rank's row of what it shows, by time.
    pub(super) indices: Vec<usize>,
}

/// The rows of a rank: compute first, then gathers, reductions, and each edge.
pub(super) fn lane_rows(program: &CheckedProgram, timeline: &Timeline, rank: PipelineRank) -> Vec<LaneRow> {
    let mut lanes: BTreeMap<Lane, Vec<usize>> = BTreeMap::new();
    for (index, instruction) in program.row(rank).iter().enumerate() {
        lanes.entry(instruction.lane()).or_default().push(index);
    }
    let spans = timeline.row(rank);
    let mut rows = Vec::new();
    for (lane, mut indices) in lanes {
        // A measured lane need not start in the order of its issue.
        indices.sort_by_key(|&index| (spans[index].start, spans[index].end));
        let mut of_lane: Vec<(u64, Vec<usize>)> = Vec::new();
        for index in indices {
            match of_lane.iter_mut().find(|(free, _)| *free <= spans[index].start) {
                Some((free, row)) => {
                    *free = spans[index].end;
                    row.push(index);
                }
                None => of_lane.push((spans[index].end, vec![index])),
            }
        }
        let numbered = of_lane.into_iter().enumerate();
        rows.extend(numbered.map(|(number, (_, indices))| LaneRow { lane, number, indices }));
    }
    rows
}

/// The name of a row of a lane: the lane's own, with its number where the lane has several and this is not the first.
pub(super) fn lane_name(lane: Lane, number: usize) -> String {
    let name = match lane {
        Lane::Compute => String::from("compute"),
        Lane::Gather => String::from("gather"),
        Lane::Reduce => String::from("reduce"),
        Lane::Edge(edge) => format!("{edge}"),
    };
    if number == 0 { name } else { format!("{name} ({})", number + 1) }
}
