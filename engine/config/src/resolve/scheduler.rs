//! `scheduler`: DeepSpeed's learning rate schedules and their defaults.

use crate::kind::Auto;
use crate::raw::{RawScheduler, RawSchedulerParams};
use crate::resolved::{OptimizerConfig, SchedulerConfig, Warmup, WarmupType};
use crate::section::Field;
use crate::words::SchedulerWord;

use super::changed_default;
use super::optimizer::not_of;

/// DeepSpeed's length of a warm-up.
const WARMUP_NUM_STEPS: u64 = 1000;

/// DeepSpeed's highest rate of WarmupDecayLR, and of WarmupLR before it was the optimizer's.
const WARMUP_MAX_LR: f64 = 1e-3;
/// A rate below this share of the highest is as good as none.
const SMALL_SHARE: f64 = 0.01;

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
        SchedulerWord::Constant => params.constant(),
        SchedulerWord::Decay => params.decay(),
        SchedulerWord::Cosine => params.cosine(),
    }
}

struct Params<'a> {
    raw: &'a RawSchedulerParams,
    optimizer: Option<&'a OptimizerConfig>,
    steps: Option<u64>,
}

/// The end of a decay.
struct DecayEnd {
    total_num_steps: u64,
    /// The first step at the last rate.
    step: u64,
    /// The last rate as a share of the highest.
    share: f64,
}

impl Params<'_> {
    fn constant(&self) -> Option<SchedulerConfig> {
        if self.optimizer.is_some_and(|optimizer| optimizer.lr() != WARMUP_MAX_LR) {
            changed_default::WARMUP_MAX_LR.say_of(&self.raw.warmup_max_lr);
        }
        let warmup = self.warmup(Auto::Auto);
        not_of(&self.raw.total_num_steps, "WarmupDecayLR and WarmupCosineLR")?;
        self.no_ratios()?;
        let warmup = warmup?;
        self.check_length(warmup.warmup_num_steps, None);
        Some(SchedulerConfig::WarmupLr(warmup))
    }

    fn decay(&self) -> Option<SchedulerConfig> {
        let peak = &self.raw.warmup_max_lr;
        if let Some(lr) = self.optimizer.map(OptimizerConfig::lr)
            && lr != WARMUP_MAX_LR
            && !peak.is_written()
        {
            peak.site.warn(format!(
                "not written, so the rate rises to {WARMUP_MAX_LR}, as in DeepSpeed's WarmupDecayLR, and not to `optimizer.params.lr`, {lr}; \
                 write \"auto\" for that"
            ));
        }
        let warmup = self.warmup(Auto::Value(WARMUP_MAX_LR));
        let total_num_steps = self.total_num_steps();
        self.no_ratios()?;
        let (warmup, total_num_steps) = (warmup?, total_num_steps?);
        let share = warmup.warmup_min_lr / warmup.warmup_max_lr;
        let step = total_num_steps.saturating_add(2);
        self.check_length(warmup.warmup_num_steps, Some(DecayEnd { total_num_steps, step, share }));
        Some(SchedulerConfig::WarmupDecayLr { warmup, total_num_steps })
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
        let (total_num_steps, cos_min_ratio) = (total_num_steps?, end?);
        let warmup_num_steps = self.warmup_num_steps()?;
        let step = total_num_steps.saturating_add(1);
        self.check_length(warmup_num_steps, Some(DecayEnd { total_num_steps, step, share: cos_min_ratio }));
        Some(SchedulerConfig::WarmupCosineLr {
            total_num_steps,
            warmup_min_ratio: min?,
            warmup_num_steps,
            cos_min_ratio,
            warmup_type: raw.warmup_type.or(WarmupType::Log)?,
        })
    }

    /// The warm-up, whose highest rate is `peak` if none is written.
    fn warmup(&self, peak: Auto<f64>) -> Option<Warmup> {
        let raw = self.raw;
        let min = raw.warmup_min_lr.not_negative(raw.warmup_min_lr.auto_or(0.0));
        let max = raw.warmup_max_lr.or(peak)?.value().or(self.optimizer.map(OptimizerConfig::lr));
        let max = raw.warmup_max_lr.not_negative(max.map(|max| raw.warmup_max_lr.became(max)));
        Some(Warmup {
            warmup_min_lr: min?,
            warmup_max_lr: max?,
            warmup_num_steps: self.warmup_num_steps()?,
            warmup_type: raw.warmup_type.or(WarmupType::Log)?,
        })
    }

    /// Steps of the warm-up; `"auto"` is a tenth of the run.
    fn warmup_num_steps(&self) -> Option<u64> {
        let field = &self.raw.warmup_num_steps;
        match field.or(Auto::Value(WARMUP_NUM_STEPS))? {
            Auto::Value(steps) => Some(steps),
            Auto::Auto => Some(field.became((self.steps? / 10).max(1))),
        }
    }

    /// Steps until the end of the decay.
    fn total_num_steps(&self) -> Option<u64> {
        let field = &self.raw.total_num_steps;
        let total = field.or(Auto::Auto)?.value().or(self.steps).map(|total| field.became(total));
        let repair = "use the run's `steps`, or \"auto\"";
        field.keep(total, |total| total > 0, "it must be at least 1", repair)
    }

    /// Warns of a schedule that cannot do its work within the steps of the run.
    fn check_length(&self, warmup: u64, decay: Option<DecayEnd>) {
        let (Some(steps), site) = (self.steps, &self.raw.total_num_steps.site) else { return };
        match decay {
            // DeepSpeed warns of this too.
            Some(DecayEnd { total_num_steps: total, .. }) if warmup > total => site.warn(format!(
                "the rate decays within {total} steps, but warms up over {warmup} (`warmup_num_steps`); write fewer there, or \"auto\", \
                 which is a tenth of `steps`"
            )),
            _ if warmup > steps => self.raw.warmup_num_steps.site.warn(format!(
                "the rate warms up over {warmup} steps, and the run has {steps}, so it never reaches its highest; write fewer, or \"auto\", \
                 which is a tenth of `steps`"
            )),
            Some(DecayEnd { step, share, .. }) if wastes_steps(step, steps) && share < SMALL_SHARE => {
                let rate = if share == 0.0 { "0".to_owned() } else { format!("{share} of its highest") };
                site.warn(format!(
                    "the rate is {rate} from step {step} to the last, step {steps}; write `steps` there, or \"auto\", which is the same"
                ));
            }
            _ => {}
        }
    }

    fn no_ratios(&self) -> Option<()> {
        let low = not_of(&self.raw.warmup_min_ratio, "WarmupCosineLR");
        let end = not_of(&self.raw.cos_min_ratio, "WarmupCosineLR");
        low.and(end)
    }
}

/// Whether a rate of nothing from this step on is more than a count that is off by a few: two steps or more, and one in a hundred.
fn wastes_steps(first: u64, steps: u64) -> bool {
    let wasted = steps.saturating_sub(first - 1);
    wasted >= 2 && wasted >= steps / 100
}

/// The value, if it lies in `0..=1`.
fn share(field: &Field<Auto<f64>>, default: f64) -> Option<f64> {
    let rule = "it is a share of the optimizer's rate, from 0 to 1";
    field.keep(field.auto_or(default), |share| (0.0..=1.0).contains(&share), rule, "use such a share")
}
