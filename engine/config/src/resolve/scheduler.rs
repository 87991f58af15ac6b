//! `scheduler`: DeepSpeed's learning rate schedules and their defaults.

use crate::kind::Auto;
use crate::raw::{RawScheduler, RawSchedulerParams};
use crate::resolved::{OptimizerConfig, SchedulerConfig, Warmup, WarmupType};
use crate::section::Field;
use crate::words::SchedulerWord;

use super::optimizer::not_of;

/// DeepSpeed's length of a warm-up.
const WARMUP_NUM_STEPS: u64 = 1000;

pub(super) fn resolve(
    raw: &RawScheduler,
    optimizer: Option<&OptimizerConfig>,
    steps: Option<u64>,
) -> Option<SchedulerConfig> {
    if !raw.head.is_written {
        return Some(SchedulerConfig::Constant);
    }
    let repair = "add it, or remove `scheduler` for a constant rate";
    let word = raw.r#type.required("a scheduler is chosen by its type", repair)?;
    let params = Params { raw: &raw.params, optimizer, steps };
    match word {
        SchedulerWord::Constant => {
            let warmup = params.warmup();
            not_of(&params.raw.total_num_steps, "WarmupDecayLR and WarmupCosineLR")?;
            params.no_ratios()?;
            Some(SchedulerConfig::WarmupLr(warmup?))
        }
        SchedulerWord::Decay => {
            let warmup = params.warmup();
            let total_num_steps = params.total_num_steps();
            params.no_ratios()?;
            Some(SchedulerConfig::WarmupDecayLr { warmup: warmup?, total_num_steps: total_num_steps? })
        }
        SchedulerWord::Cosine => params.cosine(),
    }
}

struct Params<'a> {
    raw: &'a RawSchedulerParams,
    optimizer: Option<&'a OptimizerConfig>,
    steps: Option<u64>,
}

impl Params<'_> {
    fn warmup(&self) -> Option<Warmup> {
        let raw = self.raw;
        let min = raw.warmup_min_lr.not_negative(raw.warmup_min_lr.auto_or(0.0));
        let max = raw.warmup_max_lr.or(Auto::Auto)?.value().or(self.optimizer.map(OptimizerConfig::lr));
        let max = raw.warmup_max_lr.not_negative(max.map(|max| raw.warmup_max_lr.became(max)));
        Some(Warmup {
            warmup_min_lr: min?,
            warmup_max_lr: max?,
            warmup_num_steps: self.warmup_num_steps()?,
            warmup_type: raw.warmup_type.or(WarmupType::Log)?,
        })
    }

    fn cosine(&self) -> Option<SchedulerConfig> {
        let raw = self.raw;
        let total_num_steps = self.total_num_steps();
        let min = share(&raw.warmup_min_ratio, 0.0);
        let end = share(&raw.cos_min_ratio, 1e-4);
        let owners = "WarmupLR and WarmupDecayLR: WarmupCosineLR scales the optimizer's rate";
        let low = not_of(&raw.warmup_min_lr, owners);
        let high = not_of(&raw.warmup_max_lr, owners);
        low.and(high)?;
        Some(SchedulerConfig::WarmupCosineLr {
            total_num_steps: total_num_steps?,
            warmup_min_ratio: min?,
            warmup_num_steps: self.warmup_num_steps()?,
            cos_min_ratio: end?,
            warmup_type: raw.warmup_type.or(WarmupType::Log)?,
        })
    }

    /// Steps of the warm-up; `"auto"` is a tenth of the run.
    fn warmup_num_steps(&self) -> Option<u64> {
        match self.raw.warmup_num_steps.or(Auto::Value(WARMUP_NUM_STEPS))? {
            Auto::Value(steps) => Some(steps),
            Auto::Auto => Some(self.raw.warmup_num_steps.became((self.steps? / 10).max(1))),
        }
    }

    /// Steps until the end of the decay; a warm-up that is longer never ends, which DeepSpeed warns of too.
    fn total_num_steps(&self) -> Option<u64> {
        let field = &self.raw.total_num_steps;
        let total = field.or(Auto::Auto)?.value().or(self.steps).map(|total| field.became(total));
        let repair = "use the run's `steps`, or \"auto\"";
        let total = field.keep(total, |total| total > 0, "it must be at least 1", repair)?;
        if let Some(warmup) = self.warmup_num_steps().filter(|&warmup| warmup > total) {
            field.site.warn(format!(
                "the rate decays within {total} steps, but warms up over {warmup} (`warmup_num_steps`); write fewer there, or \"auto\", \
                 which is a tenth of `steps`"
            ));
        }
        Some(total)
    }

    fn no_ratios(&self) -> Option<()> {
        let low = not_of(&self.raw.warmup_min_ratio, "WarmupCosineLR");
        let end = not_of(&self.raw.cos_min_ratio, "WarmupCosineLR");
        low.and(end)
    }
}

/// The value, if it lies in `0..=1`.
fn share(field: &Field<Auto<f64>>, default: f64) -> Option<f64> {
    let rule = "it is a share of the optimizer's rate, from 0 to 1";
    field.keep(field.auto_or(default), |share| (0.0..=1.0).contains(&share), rule, "use such a share")
}
