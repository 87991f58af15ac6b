//! The only layer of the timed family.

use std::thread;
use std::time::{Duration, Instant};

use super::TimedConfig;
use crate::layer::*;
use crate::parameter::ParameterSpec;

/// Takes its time and does nothing.
///
/// Parameters: `h.{i}.weight [parameters_per_layer]`, zero and never read. Their gradient is never added to. What it
/// hands on and saves is never written.
#[derive(Debug)]
pub struct TimedBlock {
    name: String,
    is_first: bool,
    is_last: bool,
    config: TimedConfig,
}

impl TimedBlock {
    /// Block `index` of a model with this configuration.
    pub fn new(config: &TimedConfig, index: usize) -> Self {
        Self {
            name: format!("h.{index}"),
            is_first: index == 0,
            is_last: index + 1 == config.num_layers,
            config: config.clone(),
        }
    }
}

impl Layer for TimedBlock {
    fn name(&self) -> &str {
        &self.name
    }

    fn parameters(&self) -> Vec<ParameterSpec> {
        vec![ParameterSpec::zeros(format!("{}.weight", self.name), [self.config.parameters_per_layer])]
    }

    fn sizes(&self, _: MicroBatchShape) -> LayerSizes {
        let activation = self.config.activation_elements;
        LayerSizes {
            input: if self.is_first { 0 } else { activation },
            output: if self.is_last { 0 } else { activation },
            saved: activation,
            ..LayerSizes::default()
        }
    }

    /// None: what a layer takes is not computed from what it does.
    fn forward(&self, _: MicroBatchShape, args: ForwardArgs<'_>) -> Option<LossSum> {
        sleep_for(self.config.times.forward);
        let is_counted = |&&target: &&u32| target != IGNORED_TARGET;
        self.is_last.then(|| {
            let num_targets = args.tokens.targets.iter().filter(is_counted).count() as u64;
            LossSum { sum: num_targets as f64, num_targets }
        })
    }

    fn recompute(&self, _: MicroBatchShape, _: RecomputeArgs<'_>) {
        sleep_for(self.config.times.recompute);
    }

    fn backward_input(&self, _: MicroBatchShape, _: BackwardInputArgs<'_>) {
        sleep_for(self.config.times.backward_input);
    }

    fn backward_weight(&self, _: MicroBatchShape, _: BackwardWeightArgs<'_>) {
        sleep_for(self.config.times.backward_weight);
    }
}

/// Returns when `duration` has passed since the call, however early a sleep may end.
fn sleep_for(duration: Duration) {
    let deadline = Instant::now() + duration;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        thread::sleep(left);
    }
}
