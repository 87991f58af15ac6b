//! What one rank needs and sends under both levels.

use serde::Serialize;

/// A pipeline rank under ZeRO-3 and under ZeRO-1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BesideZero1 {
    /// The pipeline rank.
    pub pipeline_rank: usize,
    /// Peak memory, with `1 + prefetch_units` gathered units, resharded after every use where the run says `"strict"`.
    pub peak_bytes: u64,
    /// Peak memory under ZeRO-1.
    pub zero_1_peak_bytes: u64,
    /// The peak with the list whose fullest rank is lowest, of those that were tried; ranks with a tied weight have one list. `None` unless
    /// the plan made the list, for the fewest resident units.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least_tried_peak_bytes: Option<u64>,
    /// Bytes sent in a step, with as many, by the same program.
    pub sent_bytes: u64,
    /// Bytes sent in a step under ZeRO-1.
    pub zero_1_sent_bytes: u64,
}

impl BesideZero1 {
    /// The largest peak with which ZeRO-3 pays: a twentieth less than ZeRO-1's.
    pub(crate) fn most_that_pays_bytes(&self) -> u64 {
        (u128::from(self.zero_1_peak_bytes) * 19 / 20) as u64
    }

    /// Whether ZeRO-3 saves at least a twentieth of the peak.
    pub fn pays(&self) -> bool {
        self.peak_bytes <= self.most_that_pays_bytes()
    }

    /// The peak as a share of ZeRO-1's.
    pub fn peak_share(&self) -> f64 {
        self.peak_bytes as f64 / self.zero_1_peak_bytes as f64
    }
}
