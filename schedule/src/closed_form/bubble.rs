//! The share of a step in which a rank idles.

/// The share of a step that a rank of GPipe, 1F1B or eager 1F1B idles when all stages take the same time and
/// transfers none: `(p - 1) / (m + p - 1)` (arXiv:2104.04473, section 2.2, there as a ratio to the ideal time).
pub fn bubble_share(num_ranks: u32, num_micro_batches: u32) -> f64 {
    share(num_ranks.saturating_sub(1).into(), num_micro_batches.into())
}

/// The same for breadth first and interleaved 1F1B, whatever its groups: with `v` stages on each rank the turns of the
/// pipeline are `v` times shorter, `(p - 1) / (m v + p - 1)` for `m >= p` (arXiv:2104.04473, section 2.2.2).
///
/// Fewer micro-batches than ranks do not fill a turn: `p - m` times of a stage more are idle in each turn but the last.
pub fn looped_bubble_share(num_ranks: u32, num_virtual: u32, num_micro_batches: u32) -> f64 {
    let unfilled = num_ranks.saturating_sub(num_micro_batches);
    let between_turns = u64::from(num_virtual.saturating_sub(1)) * u64::from(unfilled);
    let idle = u64::from(num_ranks.saturating_sub(1)) + between_turns;
    share(idle, u64::from(num_virtual) * u64::from(num_micro_batches))
}

/// Idle slots among all, in times of a stage.
fn share(idle: u64, busy: u64) -> f64 {
    let all = idle + busy;
    if all > 0 { idle as f64 / all as f64 } else { 0.0 }
}
