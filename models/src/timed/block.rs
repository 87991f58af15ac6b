//! The only layer of the timed family.

use super::TimedConfig;
use crate::layer::*;
use crate::parameter::ParameterSpec;
use crate::queue::Queue;

/// Takes its time and does nothing.
///
/// Parameters: `h.{i}.weight [parameters_per_layer]`, zero and never read. Their gradient is zero, and written only
/// where it is overwritten. What it hands on and saves is never written.
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
    fn forward(&self, queue: &dyn Queue, _: MicroBatchShape, args: ForwardArgs<'_>) {
        queue.sleep(self.config.times.forward);
        if self.is_last {
            queue.count_targets(args.tokens.targets, args.loss);
        }
    }

    fn recompute(&self, queue: &dyn Queue, _: MicroBatchShape, _: RecomputeArgs<'_>) {
        queue.sleep(self.config.times.recompute);
    }

    fn backward_input(&self, queue: &dyn Queue, _: MicroBatchShape, _: BackwardInputArgs<'_>) {
        queue.sleep(self.config.times.backward_input);
    }

    /// What the gradient buffer held before must not stay there: it may be another unit's.
    fn backward_weight(&self, queue: &dyn Queue, _: MicroBatchShape, args: BackwardWeightArgs<'_>) {
        let sum = args.parameter_gradients.only();
        if sum.mode == WriteMode::Overwrite {
            queue.clear(sum.to);
        }
        queue.sleep(self.config.times.backward_weight);
    }
}
