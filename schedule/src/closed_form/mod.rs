//! Closed forms that the figures of generated programs are held against.

mod in_flight;

pub use in_flight::{
    bfs_in_flight, eager_1f1b_in_flight, gpipe_in_flight, interleaved_in_flight, longest_group,
    one_f_one_b_in_flight,
};

/// The share of a step that a rank of GPipe or 1F1B idles when all stages take the same time and transfers none:
/// `(p - 1) / (m + p - 1)` (arXiv:2104.04473, section 2.2, there as a ratio to the ideal time).
pub fn bubble_share(num_ranks: u32, num_micro_batches: u32) -> f64 {
    let idle = f64::from(num_ranks.saturating_sub(1));
    let slots = f64::from(num_micro_batches) + idle;
    if slots > 0.0 { idle / slots } else { 0.0 }
}

/// All-gathers of a rank in a step of 1F1B or GPipe when every use has its own: `2 m U` for `U` units that both
/// forward and backward read.
pub fn strict_gathers(num_micro_batches: u32, num_units: u32) -> u64 {
    2 * u64::from(num_micro_batches) * u64::from(num_units)
}

/// Fewest all-gathers of the last rank of 1F1B with `U` equal units and room for `c <= U`: `c + 2 m (U - c)`.
///
/// The rank runs its units `0 .. U-1` forwards and `U-1 .. 0` backwards for each micro-batch, `2 m` ways along the
/// chain. The first way gathers all `U`; each later one finds the `c` units that the way before touched last still
/// gathered and gathers the other `U - c`: `U + (2 m - 1) (U - c)`.
pub fn last_rank_gathers(num_micro_batches: u32, num_units: u32, num_resident: u32) -> u64 {
    let (m, units, resident) =
        (u64::from(num_micro_batches), u64::from(num_units), u64::from(num_resident.min(num_units)));
    resident + 2 * m * (units - resident)
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;
    use std::vec;

    use super::*;
    use crate::generate::{gpipe, one_f_one_b};
    use crate::order::{ComputeKind, ComputeOrder, StageAction};

    /// When the last action ends, a forward taking 1 and a backward `backward`, by playing the order: an action starts
    /// when its rank is free and its neighbour stage's has ended.
    fn makespan(order: &ComputeOrder, backward: u64) -> u64 {
        let last = order.placement.num_stages() as u32 - 1;
        let mut ends: BTreeMap<(bool, u32, u32), u64> = BTreeMap::new();
        let mut free = vec![0; order.rows.len()];
        let mut next = vec![0; order.rows.len()];
        while let Some(rank) = (0..order.rows.len()).find(|&rank| {
            let Some(action) = order.rows[rank].get(next[rank]) else { return false };
            operands(action, last).iter().all(|operand| ends.contains_key(operand))
        }) {
            let action = order.rows[rank][next[rank]];
            let ready = operands(&action, last).iter().map(|operand| ends[operand]).max().unwrap_or(0);
            let is_backward = action.kind != ComputeKind::Forward;
            let end = ready.max(free[rank]) + if is_backward { backward } else { 1 };
            ends.insert((is_backward, action.stage.0, action.micro_batch.0), end);
            (free[rank], next[rank]) = (end, next[rank] + 1);
        }
        free.into_iter().max().unwrap_or(0)
    }

    fn operands(action: &StageAction, last: u32) -> vec::Vec<(bool, u32, u32)> {
        let (stage, micro_batch) = (action.stage.0, action.micro_batch.0);
        match action.kind {
            ComputeKind::Forward if stage == 0 => vec![],
            ComputeKind::Forward => vec![(false, stage - 1, micro_batch)],
            _ if stage == last => vec![(false, stage, micro_batch)],
            _ => vec![(true, stage + 1, micro_batch), (false, stage, micro_batch)],
        }
    }

    #[test]
    fn the_bubble_of_gpipe_and_one_f_one_b_is_what_playing_them_gives() {
        for (p, m, backward) in
            (1..=5).flat_map(|p| (1..=9).flat_map(move |m| [1, 2, 3].map(|backward| (p, m, backward))))
        {
            for order in [gpipe(p, m).unwrap(), one_f_one_b(p, m).unwrap()] {
                let busy = u64::from(m) * (1 + backward);
                let share = 1.0 - busy as f64 / makespan(&order, backward) as f64;
                // Two roundings of f64 on either side.
                assert!((share - bubble_share(p, m)).abs() < 1e-15, "p {p}, m {m}, backward {backward}");
            }
        }
    }
}
