//! A dense layer with GELU, each token for itself.

use crate::layer::*;
use crate::parameter::ParameterSpec;
use crate::queue::Queue;
use crate::shared::{GptConfig, Linear};

/// `y = gelu(x Wᵀ + b)`, from `I` elements of a token to `O`.
///
/// Parameters: those of [`Linear`]. Kept for the backward: what GELU was given `[N, O]`.
#[derive(Debug)]
pub struct Dense {
    linear: Linear,
}

impl Dense {
    /// The layer of block `index` of a model with this configuration.
    pub fn new(config: &GptConfig, index: usize) -> Self {
        Self::with_widths(format!("h.{index}.dense"), [config.hidden_size; 2], config.init_std as f32)
    }

    /// A layer from `widths[0]` elements to `widths[1]`, its weight drawn from a normal distribution.
    pub fn with_widths(name: impl Into<String>, widths: [usize; 2], init_std: f32) -> Self {
        Self { linear: Linear::new(name, widths, init_std) }
    }
}

impl Layer for Dense {
    fn name(&self) -> &str {
        self.linear.name()
    }

    fn parameters(&self) -> Vec<ParameterSpec> {
        self.linear.parameters()
    }

    fn sizes(&self, shape: MicroBatchShape) -> LayerSizes {
        let of_linear = self.linear.sizes(shape);
        LayerSizes { saved: of_linear.output, ..of_linear }
    }

    fn forward_flops(&self, shape: MicroBatchShape) -> u64 {
        self.linear.forward_flops(shape)
    }

    fn forward(&self, queue: &dyn Queue, shape: MicroBatchShape, mut args: ForwardArgs<'_>) {
        self.recompute(queue, shape, args.recomputed());
        queue.gelu(args.saved.view(), args.output);
    }

    fn recompute(&self, queue: &dyn Queue, shape: MicroBatchShape, args: RecomputeArgs<'_>) {
        self.linear.apply(queue, shape, args.parameters, args.input, args.saved);
    }

    fn backward_input(&self, queue: &dyn Queue, shape: MicroBatchShape, args: BackwardInputArgs<'_>) {
        let (mut dhidden, mut gradient) = (args.weight_inputs, args.gradient);
        queue.copy(gradient.view().range(0..dhidden.len()), dhidden.reborrow());
        queue.gelu_backward(args.saved, dhidden.reborrow());
        let dinput = gradient.reborrow().range(0..args.input.len());
        self.linear.input_gradient(queue, shape, args.parameters, dhidden.view(), dinput);
    }

    fn backward_weight(&self, queue: &dyn Queue, shape: MicroBatchShape, args: BackwardWeightArgs<'_>) {
        self.linear.backward_weight(queue, shape, args);
    }
}
