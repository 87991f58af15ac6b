//! How pictures name lanes.

use alloc::format;
use alloc::string::String;

use crate::instruction::Lane;

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
