//! ZeRO-3 beside ZeRO-1 on the same grid and split, rank by rank: whether what is gathered and sent buys memory.
//!
//! Both are planned, program and all. ZeRO-3 counts with `1 + prefetch_units` gathered units, which it needs at least: what a run keeps
//! resident beyond them is room that it was given.

#[cfg(test)]
mod tests;

use serde::Serialize;

use super::refusal::as_zero_1;
use super::remarks::{Remark, UNIT};
use super::{Bytes, Plan, PlanError};
use crate::config::{ResidencyConfig, Run, UnitLayers, ZeroLevel};

/// A pipeline rank under ZeRO-3 and under ZeRO-1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BesideZero1 {
    /// The pipeline rank.
    pub pipeline_rank: usize,
    /// Peak memory, with `1 + prefetch_units` gathered units.
    pub peak_bytes: u64,
    /// Peak memory under ZeRO-1.
    pub zero_1_peak_bytes: u64,
    /// Bytes sent in a step, with as many.
    pub sent_bytes: u64,
    /// Bytes sent in a step under ZeRO-1.
    pub zero_1_sent_bytes: u64,
}

impl BesideZero1 {
    /// Whether ZeRO-3 saves at least a twentieth of the peak.
    pub fn pays(&self) -> bool {
        20 * u128::from(self.peak_bytes) <= 19 * u128::from(self.zero_1_peak_bytes)
    }

    /// The peak as a share of ZeRO-1's.
    pub fn peak_share(&self) -> f64 {
        self.peak_bytes as f64 / self.zero_1_peak_bytes as f64
    }
}

/// A change after which every rank is at least a twentieth below ZeRO-1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Remedy {
    /// The keys and their values.
    pub(super) description: &'static str,
    /// What the rank that sends most then sends in a step.
    pub(super) sent_bytes: u64,
}

impl Plan {
    /// Every pipeline rank under ZeRO-3 and under ZeRO-1; empty below ZeRO-3 and on one data rank, where nothing is sharded.
    ///
    /// Cost: up to two plans of this run.
    ///
    /// # Errors
    /// As [`Plan::new`], which this run has passed already.
    pub fn beside_zero_1(&self) -> Result<Vec<BesideZero1>, PlanError> {
        if self.run.zero.level != ZeroLevel::Zero3 || self.grid.data_degree == 1 {
            return Ok(Vec::new());
        }
        let least = ResidencyConfig::Units(1 + self.run.zero.prefetch_units);
        let zero_1 = self.on_this_split(as_zero_1)?;
        if self.run.zero.resident_units == least {
            return Ok(self.beside(&zero_1));
        }
        Ok(self.with_residency(least)?.beside(&zero_1))
    }

    fn beside(&self, zero_1: &Self) -> Vec<BesideZero1> {
        let figures = |plan: &Self| -> Vec<(u64, u64)> {
            let ranks = plan.training.ranks().map(|rank| plan.forecast_of(rank));
            ranks.map(|rank| (rank.memory.peak, rank.traffic.total_bytes())).collect()
        };
        let ranks = figures(self).into_iter().zip(figures(zero_1)).enumerate();
        ranks
            .map(|(pipeline_rank, ((peak_bytes, sent_bytes), (zero_1_peak_bytes, zero_1_sent_bytes)))| {
                BesideZero1 { pipeline_rank, peak_bytes, zero_1_peak_bytes, sent_bytes, zero_1_sent_bytes }
            })
            .collect()
    }

    /// That ZeRO-3 does not save a twentieth of some rank's peak, and what to write instead.
    pub(super) fn does_not_pay(&self) -> Option<Remark> {
        let ranks = self.beside_zero_1().ok()?;
        let worst = ranks.iter().max_by(|a, b| a.peak_share().total_cmp(&b.peak_share()))?;
        if worst.pays() {
            return None;
        }
        let most = |of: fn(&BesideZero1) -> u64| ranks.iter().map(of).max().unwrap_or(0);
        let (fullest, fullest_of_zero_1) =
            (most(|rank| rank.peak_bytes), most(|rank| rank.zero_1_peak_bytes));
        let zero_1 = if fullest_of_zero_1 <= fullest {
            "use \"stage\": 1".to_owned()
        } else {
            format!("use \"stage\": 1 if its {} on the fullest rank are there", Bytes(fullest_of_zero_1))
        };
        let remedy = self.remedy_beside_zero_1().map_or_else(String::new, |remedy| {
            format!(
                "; or {}, with which every rank needs at least 5% less than under ZeRO-1, and sends at most {}",
                remedy.description,
                Bytes(remedy.sent_bytes)
            )
        });
        let [peak, zero_1_peak] = [worst.peak_bytes, worst.zero_1_peak_bytes].map(Bytes);
        let text = format!(
            "ZeRO-3 does not pay on pipeline rank {}: it needs {} there, ZeRO-1 on the same grid {}, and it sends {} in a step, ZeRO-1 {}; {zero_1}{remedy}",
            worst.pipeline_rank,
            peak.distinct(zero_1_peak)[0],
            zero_1_peak.distinct(peak)[0],
            Bytes(worst.sent_bytes),
            Bytes(worst.zero_1_sent_bytes),
        );
        Some(Remark::warning(UNIT, text))
    }

    /// Of some changes to what is gathered at once, the one after which ZeRO-3 pays on every rank and least is sent.
    pub(super) fn remedy_beside_zero_1(&self) -> Option<Remedy> {
        let remedies = REMEDIES.into_iter().filter_map(|(description, change)| {
            let mut run = self.run.clone();
            change(&mut run);
            if run == self.run {
                return None;
            }
            // Not every model has halves, and not every split as many units.
            let plan = self.on_this_split(|of_plan| *of_plan = run).ok().filter(|plan| !plan.is_refused())?;
            let ranks = plan.beside_zero_1().ok()?;
            let sent_bytes = ranks.iter().map(|rank| rank.sent_bytes).max()?;
            ranks.iter().all(BesideZero1::pays).then_some(Remedy { description, sent_bytes })
        });
        remedies.min_by_key(|remedy| remedy.sent_bytes)
    }
}

/// A change of a run file, in words and as it is made.
type Change = (&'static str, fn(&mut Run));

const REMEDIES: [Change; 4] = [
    ("\"prefetch_units\": 0", no_prefetch),
    ("\"unit_layers\": 1", |run| run.zero.unit_layers = UnitLayers::ONE),
    ("\"unit_layers\": 0.5", |run| run.zero.unit_layers = UnitLayers::Half),
    ("\"unit_layers\": 0.5 with \"prefetch_units\": 0", |run| {
        run.zero.unit_layers = UnitLayers::Half;
        no_prefetch(run);
    }),
];

fn no_prefetch(run: &mut Run) {
    run.zero.prefetch_units = 0;
    run.zero.resident_units = ResidencyConfig::Units(1);
}
