//! How long a step takes from its first forward to its last backward, when all stages take the same time.
//!
//! Times are of *one stage* and micro-batch, so that everything is an integer: where a rank takes `T_F` for a forward
//! of all its `v` stages, a stage takes `T_F / v`. A message takes a hop from the end of the compute that makes it,
//! delays no other message, and costs nothing within a rank. Each form states where it holds, and is `None`
//! elsewhere; there only simulation gives the time.

/// The times of one stage and one micro-batch, in any unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageTimes {
    /// A forward.
    pub forward: u64,
    /// A full backward.
    pub backward: u64,
    /// From one rank to another.
    pub hop: u64,
}

impl StageTimes {
    fn both(self) -> u64 {
        self.forward + self.backward
    }

    fn shorter(self) -> u64 {
        self.forward.min(self.backward)
    }
}

/// GPipe with `c <= min(T_F, T_B)`: `(m + p - 1) (T_F + T_B) + 2 (p - 1) c`.
pub fn gpipe_makespan(num_ranks: u32, num_micro_batches: u32, times: StageTimes) -> Option<u64> {
    let (p, m) = sizes(num_ranks, num_micro_batches)?;
    (times.hop <= times.shorter()).then(|| (m + p - 1) * times.both() + 2 * (p - 1) * times.hop)
}

/// 1F1B with `p | m`: `(m + p - 1) (T_F + T_B) + c (2 (p - 1) m / p + 2 (p - 2))` for `p >= 2`; without latency any `m`.
pub fn one_f_one_b_makespan(num_ranks: u32, num_micro_batches: u32, times: StageTimes) -> Option<u64> {
    let (p, m) = sizes(num_ranks, num_micro_batches)?;
    let num_hops = if p == 1 { 0 } else { 2 * (p - 1) * m / p + 2 * (p - 2) };
    (times.hop == 0 || m % p == 0).then(|| (m + p - 1) * times.both() + num_hops * times.hop)
}

/// Eager 1F1B with `c <= (T_F + T_B) / 2`: `(m + p - 1) (T_F + T_B) + 2 (p - 1) c`.
pub fn eager_1f1b_makespan(num_ranks: u32, num_micro_batches: u32, times: StageTimes) -> Option<u64> {
    let (p, m) = sizes(num_ranks, num_micro_batches)?;
    (2 * times.hop <= times.both()).then(|| (m + p - 1) * times.both() + 2 * (p - 1) * times.hop)
}

/// Interleaved 1F1B of `v >= 2` stages per rank in groups of `p`, `p | m`, `c <= min(t_F, t_B)`:
/// `(m v + p - 1) (t_F + t_B) + 2 (p v - 1) c` with the times `t` of a stage; `p = 1` sends nothing. Without latency any
/// `m` and any groups: `(max(m, p) (v - 1) + m + p - 1) (t_F + t_B)`.
pub fn interleaved_makespan(
    num_ranks: u32,
    num_virtual: u32,
    num_micro_batches: u32,
    times: StageTimes,
) -> Option<u64> {
    let (p, m) = sizes(num_ranks, num_micro_batches)?;
    let v = u64::from(num_virtual);
    let num_hops = if p == 1 { 0 } else { 2 * (p * v - 1) };
    let holds = v >= 2 && (times.hop == 0 || m % p == 0 && times.hop <= times.shorter());
    holds.then(|| turns(p, v, m) * times.both() + num_hops * times.hop)
}

/// Breadth first of `v >= 2` stages per rank, with the times `t` of a stage.
///
/// For `m > p`, `c <= min(t_F, t_B)` and `p c <= (m - p) min(t_F, t_B)`:
/// `(m v + p - 1) (t_F + t_B) + 2 (p - 1) c`; for `m = p` and `c <= min(t_F, t_B)` the hops are interleaved's,
/// `2 (p v - 1) c`. Without latency, `m < p` too: `(max(m, p) (v - 1) + m + p - 1) (t_F + t_B)`.
pub fn bfs_makespan(
    num_ranks: u32,
    num_virtual: u32,
    num_micro_batches: u32,
    times: StageTimes,
) -> Option<u64> {
    let (p, m) = sizes(num_ranks, num_micro_batches)?;
    let v = u64::from(num_virtual);
    let hides_turns = m > p && p * times.hop <= (m - p) * times.shorter();
    let num_hops = match () {
        () if v < 2 || times.hop > times.shorter() => return None,
        () if p == 1 || times.hop == 0 => 0,
        () if hides_turns => 2 * (p - 1),
        () if m == p => 2 * (p * v - 1),
        () => return None,
    };
    Some(turns(p, v, m) * times.both() + num_hops * times.hop)
}

/// Forwards, and as many backwards, one after the other on the longest way through a step: a turn of each stage of the
/// first rank takes `max(m, p)`, until the first micro-batch is back; the last turn takes `m`, and `p - 1` to fill.
fn turns(p: u64, v: u64, m: u64) -> u64 {
    m.max(p) * (v - 1) + m + p - 1
}

fn sizes(num_ranks: u32, num_micro_batches: u32) -> Option<(u64, u64)> {
    (num_ranks > 0 && num_micro_batches > 0).then(|| (u64::from(num_ranks), u64::from(num_micro_batches)))
}
