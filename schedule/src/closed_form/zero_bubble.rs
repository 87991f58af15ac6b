//! How long a step with split backwards takes (arXiv:2401.10241), when all stages take the same time.
//!
//! There are two lengths. The *makespan* is that of all ranks, and of a step whose gradient norm is taken over all of
//! them. The *longest rank's span*, from its first action to its last, is what the zero-bubble papers count: their
//! ranks begin the next step without waiting for each other, and roll back where the norm turns out to clip.

/// The times of one stage and one micro-batch, in any unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitTimes {
    /// A forward.
    pub forward: u64,
    /// An input gradient.
    pub input: u64,
    /// A weight gradient.
    pub weight: u64,
    /// From one rank to another.
    pub hop: u64,
}

impl SplitTimes {
    fn all(self) -> u64 {
        self.forward + self.input + self.weight
    }
}

/// ZB-H1 with `m >= 2 p`, `T_W <= min(T_F, T_I)` and `c <= min(T_F, T_I, T_W) / 2`:
/// `m (T_F + T_I + T_W) + (p - 1) (T_F + T_I - T_W) + 4 (p - 1) c`.
pub fn zb_h1_makespan(num_ranks: u32, num_micro_batches: u32, times: SplitTimes) -> Option<u64> {
    let (p, m) = (u64::from(num_ranks), u64::from(num_micro_batches));
    let SplitTimes { forward, input, weight, hop } = times;
    let holds = p > 0 && m >= 2 * p && weight <= forward.min(input) && 2 * hop <= weight;
    holds.then(|| m * times.all() + (p - 1) * (forward + input - weight + 4 * hop))
}

/// ZB-H2 without latency, `m >= 2 p - 1` and all times equal: `m (T_F + T_I + T_W) + (p - 1) T_F`.
pub fn zb_h2_makespan(num_ranks: u32, num_micro_batches: u32, times: SplitTimes) -> Option<u64> {
    let longest = zb_h2_longest_rank_span(num_ranks, num_micro_batches, times)?;
    Some(longest + u64::from(num_ranks - 1) * times.forward)
}

/// The longest rank of ZB-H2 without latency, `m >= 2 p - 1` and all times equal: `m (T_F + T_I + T_W)`, no bubble.
pub fn zb_h2_longest_rank_span(num_ranks: u32, num_micro_batches: u32, times: SplitTimes) -> Option<u64> {
    let (p, m) = (u64::from(num_ranks), u64::from(num_micro_batches));
    let holds = p > 0 && m + 1 >= 2 * p && are_equal(times);
    holds.then(|| m * times.all())
}

/// ZB-V of two stages per rank, with the times of a stage, without latency, `m >= 2 p - 1` and all times equal:
/// `2 m (t_F + t_I + t_W) + (p - 1) t_F`.
pub fn zb_v_makespan(num_ranks: u32, num_micro_batches: u32, times: SplitTimes) -> Option<u64> {
    let longest = zb_v_longest_rank_span(num_ranks, num_micro_batches, times)?;
    Some(longest + u64::from(num_ranks - 1) * times.forward)
}

/// The longest rank of ZB-V, where [`zb_v_makespan`] holds: `2 m (t_F + t_I + t_W)`, no bubble.
pub fn zb_v_longest_rank_span(num_ranks: u32, num_micro_batches: u32, times: SplitTimes) -> Option<u64> {
    Some(2 * zb_h2_longest_rank_span(num_ranks, num_micro_batches, times)?)
}

fn are_equal(times: SplitTimes) -> bool {
    times.hop == 0 && times.forward == times.input && times.input == times.weight
}
