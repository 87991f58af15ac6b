//! The learning rate of every step, equal to DeepSpeed's.
//!
//! DeepSpeed's engine steps the optimizer first and the scheduler after it, and a scheduler that has not been stepped
//! gives its lowest rate. So step 1 runs at that rate, and step `n >= 2` at the schedule's value for *iteration*
//! `n - 2`: a warm-up of `w` steps ends at step `w + 2`, and a logarithmic one starts with the lowest rate twice.
//!
//! Source: DeepSpeed 0.19.8, `runtime/lr_schedules.py` and `_take_model_step` in `runtime/engine.py`.

use std::f64::consts::PI;

use pipezero_config::{OptimizerConfig, SchedulerConfig, Warmup, WarmupType};

/// The learning rate as a function of the step.
#[derive(Clone, Debug, PartialEq)]
pub struct LearningRate {
    /// The optimizer's rate.
    base: f64,
    scheduler: SchedulerConfig,
}

impl LearningRate {
    /// The rates of this optimizer under this scheduler.
    pub fn new(optimizer: &OptimizerConfig, scheduler: &SchedulerConfig) -> Self {
        let (OptimizerConfig::AdamW { lr, .. } | OptimizerConfig::Sgd { lr, .. }) = *optimizer;
        Self { base: lr, scheduler: scheduler.clone() }
    }

    /// The rate of this step, counted from 1.
    pub fn at(&self, step: u64) -> f64 {
        let iteration = step.checked_sub(2);
        match &self.scheduler {
            SchedulerConfig::Constant => self.base,
            SchedulerConfig::WarmupLr(warmup) => match iteration {
                Some(iteration) => rate(warmup, progress(warmup, iteration).unwrap_or(1.0)),
                None => warmup.warmup_min_lr,
            },
            SchedulerConfig::WarmupDecayLr { warmup, total_num_steps } => match iteration {
                Some(iteration) => {
                    let decay = || linear_decay(warmup.warmup_num_steps, *total_num_steps, iteration);
                    rate(warmup, progress(warmup, iteration).unwrap_or_else(decay))
                }
                None => warmup.warmup_min_lr,
            },
            &SchedulerConfig::WarmupCosineLr {
                total_num_steps,
                warmup_min_ratio,
                warmup_num_steps,
                cos_min_ratio,
                warmup_type,
            } => {
                // Not the lowest ratio: DeepSpeed's cosine starts from 0 whatever `warmup_min_ratio` says.
                let Some(iteration) = iteration else { return 0.0 };
                let ratio = match warmup_progress(warmup_type, warmup_num_steps, iteration) {
                    Some(progress) => warmup_min_ratio + progress * (1.0 - warmup_min_ratio),
                    None => cosine_decay(warmup_num_steps, total_num_steps, cos_min_ratio, iteration),
                };
                self.base * ratio
            }
        }
    }
}

/// The rate that lies this far from a warm-up's lowest to its highest.
fn rate(warmup: &Warmup, progress: f64) -> f64 {
    warmup.warmup_min_lr + (warmup.warmup_max_lr - warmup.warmup_min_lr) * progress
}

/// How far the warm-up has come, from 0 to below 1; `None` when it is over.
fn progress(warmup: &Warmup, iteration: u64) -> Option<f64> {
    warmup_progress(warmup.warmup_type, warmup.warmup_num_steps, iteration)
}

/// As [`progress`], from its parts.
fn warmup_progress(warmup_type: WarmupType, num_steps: u64, iteration: u64) -> Option<f64> {
    let num_steps = effective(num_steps);
    (iteration < num_steps).then(|| match warmup_type {
        WarmupType::Log => 1.0 / (num_steps as f64).ln() * (iteration as f64 + 1.0).ln(),
        WarmupType::Linear => iteration as f64 / num_steps as f64,
    })
}

/// The steps of a warm-up: DeepSpeed makes them at least 2, since its logarithm divides by `ln(num_steps)`.
fn effective(warmup_num_steps: u64) -> u64 {
    warmup_num_steps.max(2)
}

/// From 1 at the end of the warm-up to 0 at `total_num_steps` and after it.
fn linear_decay(warmup_num_steps: u64, total_num_steps: u64, iteration: u64) -> f64 {
    let window = total_num_steps.saturating_sub(effective(warmup_num_steps)).max(1);
    total_num_steps.saturating_sub(iteration) as f64 / window as f64
}

/// Half a cosine from 1 at the end of the warm-up to `floor` one iteration before `total_num_steps`, and `floor` after it.
fn cosine_decay(warmup_num_steps: u64, total_num_steps: u64, floor: f64, iteration: u64) -> f64 {
    let warmup_num_steps = effective(warmup_num_steps);
    let window = total_num_steps.saturating_sub(warmup_num_steps).max(1);
    // DeepSpeed counts the first iteration after the warm-up as 1, so the cosine never gives 1 itself.
    let position = iteration + 1 - warmup_num_steps;
    let progress = (position as f64 / window as f64).min(1.0);
    (floor + (1.0 - floor) * ((1.0 + (PI * progress).cos()) / 2.0)).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipezero_config::NoDecay::OneDimensional;
    use pipezero_config::SchedulerConfig::{Constant, WarmupCosineLr, WarmupDecayLr, WarmupLr};

    fn linear(warmup_num_steps: u64) -> Warmup {
        Warmup { warmup_min_lr: 1.0, warmup_max_lr: 5.0, warmup_num_steps, warmup_type: WarmupType::Linear }
    }

    #[test]
    fn rates_of_every_scheduler_are_those_worked_by_hand() {
        let optimizer =
            OptimizerConfig::Sgd { lr: 8.0, momentum: 0.0, weight_decay: 0.0, no_decay: OneDimensional };
        let logarithmic = Warmup { warmup_type: WarmupType::Log, ..linear(4) };
        let cosine = WarmupCosineLr {
            total_num_steps: 4,
            warmup_min_ratio: 0.5,
            warmup_num_steps: 2,
            cos_min_ratio: 0.25,
            warmup_type: WarmupType::Linear,
        };
        let cases: [(&str, SchedulerConfig, &[f64]); 6] = [
            ("without a scheduler the optimizer's", Constant, &[8.0; 3]),
            ("starts twice and stays", WarmupLr(linear(4)), &[1.0, 1.0, 2.0, 3.0, 4.0, 5.0, 5.0]),
            ("a warm-up of one step takes two", WarmupLr(linear(1)), &[1.0, 1.0, 3.0, 5.0]),
            // ln 3 / ln 4; and ln 4 / ln 4: the last iteration of the warm-up has the highest rate already.
            ("logarithmic", WarmupLr(logarithmic), &[1.0, 1.0, 3.0, 1.0 + 4.0 * 3_f64.log(4.0), 5.0, 5.0]),
            (
                "linear decay reaches the lowest rate at the total",
                WarmupDecayLr { warmup: linear(2), total_num_steps: 6 },
                &[1.0, 1.0, 3.0, 5.0, 4.0, 3.0, 2.0, 1.0, 1.0],
            ),
            // Half a cosine of two iterations: its middle, then its end.
            (
                "the cosine starts at zero and ends at its floor",
                cosine,
                &[0.0, 4.0, 6.0, 8.0 * (0.25 + 0.75 / 2.0), 2.0, 2.0, 2.0],
            ),
        ];
        for (what, scheduler, wanted) in cases {
            let rate = LearningRate::new(&optimizer, &scheduler);
            for (step, wanted) in (1..).zip(wanted) {
                let distance = (rate.at(step) - wanted).abs();
                assert!(distance <= 1e-15 * wanted, "{what}: {} at step {step}", rate.at(step));
            }
        }
    }
}
