//! What ranks found, put together: a row for each kind of lane.

use std::time::Duration;

use serde::Serialize;

use super::lane::Lane;
use super::ranks::{Measured, Stopped};

/// A lane is slow that takes so many times as long as the typical one of its kind, and so much longer.
pub(super) const SLOW: u32 = 4;
const SLOW_MIN: Duration = Duration::from_millis(2);

/// What the lanes of one kind take.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LaneRow {
    /// The kind, as costs files call it.
    pub kind: String,
    /// How many groups or lanes.
    pub num_lanes: usize,
    /// Ranks of each.
    pub num_ranks: usize,
    /// Bytes of the smallest messages.
    pub small_bytes: u64,
    /// What they take: the median lane, and the slowest, nanoseconds.
    pub latency_ns: [u64; 2],
    /// Bytes of the largest messages.
    pub large_bytes: u64,
    /// What they take.
    pub large_ns: [u64; 2],
    /// Bytes that a rank sends in a second in the slowest lane's largest messages.
    pub bytes_per_s: f64,
    /// The lane that is slowest with them.
    pub slowest: Vec<usize>,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LaneFacts {
    /// A row for each kind of lane.
    pub rows: Vec<LaneRow>,
    /// Contents that were compared: one message for each rank, lane and size.
    pub num_compared: usize,
    /// What was not as it has to be.
    pub faults: Vec<String>,
    /// Why ranks could not go on, the cause first.
    pub stopped: Vec<String>,
    /// Lanes that are much slower than others of their kind.
    pub slow: Vec<String>,
}

/// Puts together what all ranks found.
pub(super) fn facts(lanes: &[Lane], ranks: Vec<Result<Vec<Measured>, Stopped>>) -> LaneFacts {
    let (mut measured, mut stops) = (Vec::new(), Vec::new());
    for rank in ranks {
        match rank {
            Ok(of_rank) => measured.extend(of_rank),
            Err(stopped) => stops.push(stopped),
        }
    }
    stops.sort_by_key(|stopped| (stopped.is_stop, stopped.rank));
    let fault = |of: &Measured| {
        let lane = &lanes[of.lane];
        let ranks = &lane.members;
        let fault = of.fault.as_ref()?;
        Some(format!("rank {}, {} of ranks {ranks:?}, {} bytes: {fault}", of.rank, lane.kind, of.bytes))
    };
    let rows: Vec<(LaneRow, Option<String>)> = lanes
        .chunk_by(|one, next| one.kind == next.kind)
        .filter_map(|of_kind| row(lanes, of_kind, &measured))
        .collect();
    LaneFacts {
        num_compared: measured.len(),
        faults: measured.iter().filter_map(fault).collect(),
        stopped: stops.iter().map(|of| format!("rank {}: {}", of.rank, of.error)).collect(),
        slow: rows.iter().filter_map(|(_, slow)| slow.clone()).collect(),
        rows: rows.into_iter().map(|(row, _)| row).collect(),
    }
}

/// What the lanes of a kind take; and the slowest of them, if it is much slower than others.
fn row(lanes: &[Lane], of_kind: &[Lane], measured: &[Measured]) -> Option<(LaneRow, Option<String>)> {
    let first = &of_kind[0];
    let of_this = || measured.iter().filter(|of| lanes[of.lane].kind == first.kind);
    let small_bytes = of_this().map(|of| of.bytes).min()?;
    let large_bytes = of_this().map(|of| of.bytes).max()?;
    // A message takes as long as its slowest member.
    let times = |bytes: u64| {
        let mut times: Vec<(Duration, usize)> = Vec::new();
        for (index, _) in lanes.iter().enumerate().filter(|(_, lane)| lane.kind == first.kind) {
            let of_lane = of_this().filter(|of| of.lane == index && of.bytes == bytes);
            times.extend(of_lane.filter_map(|of| of.median).max().map(|time| (time, index)));
        }
        times.sort_unstable();
        times
    };
    let [small, large] = [small_bytes, large_bytes].map(times);
    let both = |times: &[(Duration, usize)]| {
        let [middle, last] = [times.get(times.len().saturating_sub(1) / 2)?, times.last()?];
        Some([middle, last].map(|(time, _)| time.as_nanos() as u64))
    };
    let (latency_ns, large_ns) = (both(&small)?, both(&large)?);
    let &(slowest_time, slowest) = large.last()?;
    let slowest = &lanes[slowest];
    let typical = large[(large.len() - 1) / 2].0;
    let is_slow = slowest_time > SLOW * typical && slowest_time > typical + SLOW_MIN;
    let slow = is_slow.then(|| {
        format!(
            "{} of ranks {:?} takes {slowest_time:.1?} for {large_bytes} bytes, a typical one {typical:.1?}",
            slowest.kind, slowest.members
        )
    });
    let row = LaneRow {
        kind: first.kind.to_string(),
        num_lanes: of_kind.len(),
        num_ranks: first.members.len(),
        small_bytes,
        latency_ns,
        large_bytes,
        large_ns,
        bytes_per_s: slowest.sent_bytes(large_bytes) as f64 / slowest_time.as_secs_f64().max(1e-9),
        slowest: slowest.members.clone(),
    };
    Some((row, slow))
}
