//! How slow each rank was in each recorded step: the figures, and how a costs file holds them.
//!
//! Cores of one host are a few percent faster in one step and slower in the next (clocks, neighbours, what else the system
//! does), each independently. So a profile keeps, beside the means, by how much each rank was off them in each step that counts.

use serde::{Deserialize, Deserializer, Serialize};

use super::whole::Whole;

/// A rank that takes what it takes in the mean.
pub(super) const MEAN_PPM: u32 = 1_000_000;

/// How slow ranks were, `[step][rank]`: what the computes of a rank took in a recorded step that counts, in millionths of
/// what they take in the mean.
///
/// All steps have as many ranks, [`super::Host::ranks`], at least one; each figure is from [`RankSlowness::LEAST_PPM`] to
/// [`RankSlowness::MOST_PPM`]. Costs that were not measured have no steps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct RankSlowness(pub(super) Vec<Vec<u32>>);

impl RankSlowness {
    /// A thousand times as fast as in the mean.
    pub const LEAST_PPM: u32 = 1_000;
    /// A thousand times as slow.
    pub const MOST_PPM: u32 = 1_000_000_000;

    /// From what each rank's computes took in each step beside what they take in the mean, nanoseconds; bounded.
    pub fn new(steps: impl IntoIterator<Item = Vec<[u128; 2]>>) -> Self {
        let ppm = |[took, mean]: [u128; 2]| {
            let rounded = (took * u128::from(MEAN_PPM) + mean / 2).checked_div(mean);
            let bounds = u128::from(Self::LEAST_PPM)..=u128::from(Self::MOST_PPM);
            let ppm = rounded.unwrap_or(u128::from(MEAN_PPM)).clamp(*bounds.start(), *bounds.end());
            u32::try_from(ppm).expect("it is bounded")
        };
        Self(steps.into_iter().map(|step| step.into_iter().map(ppm).collect()).collect())
    }

    /// Whether nothing is known of it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The mean of all figures; `None` of none.
    pub(super) fn mean_ppm(&self) -> Option<u64> {
        let all = || self.0.iter().flatten().map(|&ppm| u64::from(ppm));
        all().sum::<u64>().checked_div(all().count() as u64)
    }

    /// The first step with another number of ranks than so many, and that number.
    pub(super) fn unlike(&self, num_ranks: u64) -> Option<(usize, usize)> {
        let is_unlike = |step: &&Vec<u32>| step.is_empty() || step.len() as u64 != num_ranks;
        let found = self.0.iter().position(|step| is_unlike(&step))?;
        Some((found, self.0[found].len()))
    }
}

impl<'de> Deserialize<'de> for RankSlowness {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let steps = Vec::<Vec<Slowness>>::deserialize(deserializer)?;
        Ok(Self(steps.into_iter().map(|step| step.into_iter().map(|Slowness(ppm)| ppm).collect()).collect()))
    }
}

/// One figure, refused at its place.
struct Slowness(u32);

impl<'de> Deserialize<'de> for Slowness {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let what = "a whole number of millionths of what the rank takes in the mean,";
        let (least, most) = (u64::from(RankSlowness::LEAST_PPM), u64::from(RankSlowness::MOST_PPM));
        let ppm = deserializer.deserialize_u64(Whole { what, least, most })?;
        Ok(Self(u32::try_from(ppm).expect("it is bounded")))
    }
}
