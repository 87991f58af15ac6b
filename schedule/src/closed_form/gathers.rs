//! All-gathers of a rank in a step.

/// All-gathers of a rank in a step when every use has its own: `2 m U` for `U` units that both forward and backward
/// read, for every schedule and prefetch. A recompute and its backward are one use; a `W` reads no weights.
pub fn strict_gathers(num_micro_batches: u32, num_units: u32) -> u64 {
    2 * u64::from(num_micro_batches) * u64::from(num_units)
}

/// Fewest all-gathers of the last rank of 1F1B with `U` equal units and buffers for `c <= U`: `c + 2 m (U - c)`.
///
/// The rank runs its units `0 .. U-1` forwards and `U-1 .. 0` backwards for each micro-batch, `2 m` ways along the
/// chain. The first way gathers all `U`; each later one finds the `c` units that the way before touched last still
/// gathered and gathers the other `U - c`: `U + (2 m - 1) (U - c)`.
pub fn last_rank_gathers(num_micro_batches: u32, num_units: u32, num_resident: u32) -> u64 {
    let (m, units, resident) =
        (u64::from(num_micro_batches), u64::from(num_units), u64::from(num_resident.min(num_units)));
    resident + 2 * m * (units - resident)
}
