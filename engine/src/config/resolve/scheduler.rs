//! `scheduler`: DeepSpeed's learning rate schedules and their defaults.

use crate::config::findings::Findings;
use crate::config::kind::Auto;
use crate::config::notice::Notice;
use crate::config::raw::{RawScheduler, RawSchedulerParams};
use crate::config::resolved::{OptimizerConfig, SchedulerConfig, Warmup, WarmupType};
use crate::config::section::Field;
use crate::config::words::{SchedulerWord, Unoffered, WarmupWord, refuse};

use super::rules::not_negative;

const UNOFFERED: Unoffered = Unoffered { later: &[], never: &["OneCycle", "LRRangeTest"] };
const NONE: Unoffered = Unoffered { later: &[], never: &[] };

/// DeepSpeed's length of a warm-up.
const WARMUP_NUM_STEPS: u64 = 1000;

pub(super) fn resolve(
    raw: &RawScheduler,
    optimizer: Option<&OptimizerConfig>,
    steps: Option<u64>,
    findings: &mut Findings,
) -> Option<SchedulerConfig> {
    if !raw.head.is_written {
        return Some(SchedulerConfig::Constant);
    }
    let rule = "a scheduler is chosen by its type";
    let word = raw.r#type.required(findings, rule, "add it, or remove `scheduler` for a constant rate")?;
    let params = Params { raw: &raw.params, optimizer, steps };
    match word {
        SchedulerWord::WarmupLr => {
            let warmup = params.warmup(findings);
            not_of(&params.raw.total_num_steps, "WarmupDecayLR and WarmupCosineLR", findings)?;
            params.no_ratios(findings)?;
            Some(SchedulerConfig::WarmupLr(warmup?))
        }
        SchedulerWord::WarmupDecayLr => {
            let warmup = params.warmup(findings);
            let total_num_steps = params.total_num_steps(findings);
            params.no_ratios(findings)?;
            Some(SchedulerConfig::WarmupDecayLr { warmup: warmup?, total_num_steps: total_num_steps? })
        }
        SchedulerWord::WarmupCosineLr => params.cosine(findings),
        SchedulerWord::Other(word) => {
            refuse(findings, &raw.r#type.place, &word, SchedulerWord::OFFERED, &UNOFFERED);
            None
        }
    }
}

struct Params<'a> {
    raw: &'a RawSchedulerParams,
    optimizer: Option<&'a OptimizerConfig>,
    steps: Option<u64>,
}

impl Params<'_> {
    fn warmup(&self, findings: &mut Findings) -> Option<Warmup> {
        let raw = self.raw;
        let min = raw.warmup_min_lr.or(Auto::Auto).map(|min| min.value().unwrap_or(0.0));
        let min = not_negative(&raw.warmup_min_lr, min, findings);
        let max = raw.warmup_max_lr.or(Auto::Auto)?.value().or(self.optimizer_lr());
        let max = not_negative(&raw.warmup_max_lr, max, findings);
        let warmup_type = self.warmup_type(findings);
        Some(Warmup {
            warmup_min_lr: min?,
            warmup_max_lr: max?,
            warmup_num_steps: self.warmup_num_steps()?,
            warmup_type: warmup_type?,
        })
    }

    fn cosine(&self, findings: &mut Findings) -> Option<SchedulerConfig> {
        let raw = self.raw;
        let total_num_steps = self.total_num_steps(findings);
        let min = raw.warmup_min_ratio.or(Auto::Auto).map(|ratio| ratio.value().unwrap_or(0.0));
        let min = share(&raw.warmup_min_ratio, min, findings);
        let end = raw.cos_min_ratio.or(Auto::Auto).map(|ratio| ratio.value().unwrap_or(1e-4));
        let end = share(&raw.cos_min_ratio, end, findings);
        let warmup_type = self.warmup_type(findings);
        let owners = "WarmupLR and WarmupDecayLR: WarmupCosineLR scales the optimizer's rate";
        let low = not_of(&raw.warmup_min_lr, owners, findings);
        let high = not_of(&raw.warmup_max_lr, owners, findings);
        low.and(high)?;
        Some(SchedulerConfig::WarmupCosineLr {
            total_num_steps: total_num_steps?,
            warmup_min_ratio: min?,
            warmup_num_steps: self.warmup_num_steps()?,
            cos_min_ratio: end?,
            warmup_type: warmup_type?,
        })
    }

    fn optimizer_lr(&self) -> Option<f64> {
        match self.optimizer? {
            OptimizerConfig::AdamW { lr, .. } | OptimizerConfig::Sgd { lr, .. } => Some(*lr),
        }
    }

    /// Steps of the warm-up; `"auto"` is a tenth of the run.
    fn warmup_num_steps(&self) -> Option<u64> {
        match self.raw.warmup_num_steps.or(Auto::Value(WARMUP_NUM_STEPS))? {
            Auto::Value(steps) => Some(steps),
            Auto::Auto => Some((self.steps? / 10).max(1)),
        }
    }

    fn warmup_type(&self, findings: &mut Findings) -> Option<WarmupType> {
        let field = &self.raw.warmup_type;
        match field.or(WarmupWord::Log)? {
            WarmupWord::Log => Some(WarmupType::Log),
            WarmupWord::Linear => Some(WarmupType::Linear),
            WarmupWord::Other(word) => {
                refuse(findings, &field.place, &word, WarmupWord::OFFERED, &NONE);
                None
            }
        }
    }

    /// Steps until the end of the decay; a warm-up that is longer never ends, which DeepSpeed warns of too.
    fn total_num_steps(&self, findings: &mut Findings) -> Option<u64> {
        let field = &self.raw.total_num_steps;
        let total = field.or(Auto::Auto)?.value().or(self.steps)?;
        if total == 0 {
            findings.broken(
                &field.place,
                total,
                "it must be at least 1",
                "use the run's `steps`, or \"auto\"",
            );
            return None;
        }
        if let Some(warmup) = self.warmup_num_steps().filter(|&warmup| warmup > total) {
            let message = format!("the rate decays within {total} steps, but warms up over {warmup}");
            findings.notices.push(Notice::warning(&field.place, message));
        }
        Some(total)
    }

    fn no_ratios(&self, findings: &mut Findings) -> Option<()> {
        let low = not_of(&self.raw.warmup_min_ratio, "WarmupCosineLR", findings);
        let end = not_of(&self.raw.cos_min_ratio, "WarmupCosineLR", findings);
        low.and(end)
    }
}

/// Reports a parameter that belongs to another schedule.
fn not_of<T: Clone>(field: &Field<T>, owner: &str, findings: &mut Findings) -> Option<()> {
    if field.given().is_some() {
        findings.broken(&field.place, "set", format!("it belongs to {owner}"), "remove it");
    }
    (!field.is_written()).then_some(())
}

/// The value, if it lies in `0..=1`.
fn share<T>(field: &Field<T>, value: Option<f64>, findings: &mut Findings) -> Option<f64> {
    let value = value?;
    if !(0.0..=1.0).contains(&value) {
        findings.broken(
            &field.place,
            value,
            "it is a share of the optimizer's rate, from 0 to 1",
            "use such a share",
        );
        return None;
    }
    Some(value)
}
