//! The warning where ZeRO-3 does not pay, with what to write instead.

use pipezero_config::ResidencyConfig;
use pipezero_schedule::PipelineRank;

use super::BesideZero1;
use crate::alternatives::smaller_gathers;
use crate::diagnostics::{Diagnostic, UNIT, WHAT_IS_SHARDED};
use crate::refusal::as_zero_1;
use crate::{Bytes, Plan, PlannedUnit};

/// A change after which every rank is at least a twentieth below ZeRO-1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Remedy {
    /// The keys and their values.
    pub(super) description: String,
    /// What the rank that sends most then sends in a step.
    pub(super) sent_bytes: u64,
}

impl Plan {
    /// That ZeRO-3 does not save a twentieth of some rank's peak, and what to write instead.
    pub(crate) fn does_not_pay(&self) -> Option<Diagnostic> {
        let ranks = &self.beside_zero_1;
        if self.units.iter().all(PlannedUnit::is_whole) {
            let text = "every unit is whole, which is ZeRO-1; use \"stage\": 1, which says so".to_owned();
            return (!ranks.is_empty()).then(|| Diagnostic::hint(WHAT_IS_SHARDED, text));
        }
        // A rank on which everything is whole is under ZeRO-1, as its list says.
        let is_sharded = |rank: &&BesideZero1| {
            let mut units = self.units_of(PipelineRank(rank.pipeline_rank as u32));
            units.any(|(_, unit)| !unit.is_whole())
        };
        let worst =
            ranks.iter().filter(is_sharded).max_by(|a, b| a.peak_share().total_cmp(&b.peak_share()))?;
        if worst.pays() {
            return None;
        }
        let fullest = ranks.iter().map(|rank| rank.peak_bytes).max().unwrap_or(0);
        let zero_1 = match self.fullest_bytes_as_zero_1() {
            Some(fullest_of_zero_1) if fullest_of_zero_1 > fullest => format!(
                "use \"stage\": 1 if a rank has the {} that its fullest one then needs",
                Bytes(fullest_of_zero_1)
            ),
            _ => "use \"stage\": 1".to_owned(),
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
            "ZeRO-3 does not pay on pipeline rank {}: {}it needs {} there, ZeRO-1 on the same grid {}, and it sends {} in a step, ZeRO-1 {}; {zero_1}{remedy}",
            worst.pipeline_rank,
            self.words_for_compared_residency(),
            peak.distinct(zero_1_peak)[0],
            zero_1_peak.distinct(peak)[0],
            Bytes(worst.sent_bytes),
            Bytes(worst.zero_1_sent_bytes),
        );
        Some(Diagnostic::warning(UNIT, text))
    }

    /// With how many resident units a rank is compared, where the run gives it others. Under `"level"` a rank that does not pay has the fewest
    /// already.
    fn words_for_compared_residency(&self) -> String {
        let least = 1 + self.run.zero.prefetch_units;
        match &self.asked_residency {
            ResidencyConfig::Strict | ResidencyConfig::Level => String::new(),
            ResidencyConfig::Units(own) if *own == least => String::new(),
            _ => format!("with {}, the fewest, ", residents(least)),
        }
    }

    /// The peak of the fullest rank of the run with `"stage": 1` written: what it leaves to the plan, such as slices and logits, may come
    /// out otherwise than here.
    fn fullest_bytes_as_zero_1(&self) -> Option<u64> {
        let mut run = self.asked_run();
        as_zero_1(&mut run);
        match Self::tried(run, self.model.clone()) {
            Ok(plan) => Some(plan.needs().rank_bytes),
            Err(error) => error
                .lacking_memory()
                .filter(|lacking| !lacking.is_estimate)
                .map(|lacking| lacking.needs_bytes),
        }
    }

    /// Of some changes to what is gathered at once, the one after which ZeRO-3 pays on every rank and least is sent.
    pub(super) fn remedy_beside_zero_1(&self) -> Option<Remedy> {
        let mut run = self.asked_run();
        run.zero.resident_units = self.compared_residency();
        run.checkpointing = self.run.checkpointing;
        let is_strict = self.asked_residency == ResidencyConfig::Strict;
        let remedies = smaller_gathers(&run).into_iter().filter_map(|(description, mut run)| {
            if is_strict {
                run.zero.resident_units = ResidencyConfig::Strict;
            }
            // Not every model has halves, and not every split as many units.
            let plan = self.on_this_split(|of_plan| *of_plan = run).ok().filter(|plan| !plan.is_refused())?;
            let ranks = plan.compared_with_zero_1().ok()?;
            let mut description = description;
            // It is said of the fewest, which the run asks not to have.
            if !self.words_for_compared_residency().is_empty() && !description.contains("resident_units") {
                description += &format!(", \"resident_units\": {}", 1 + plan.run.zero.prefetch_units);
            }
            let sent_bytes = ranks.iter().map(|rank| rank.sent_bytes).max()?;
            ranks.iter().all(BesideZero1::pays).then_some(Remedy { description, sent_bytes })
        });
        remedies.min_by_key(|remedy| remedy.sent_bytes)
    }
}

fn residents(count: usize) -> String {
    if count == 1 { "1 resident unit".to_owned() } else { format!("{count} resident units") }
}
