//! A dense layer with GELU, each token for itself.

use crate::kernels::linear::LinearShape;
use crate::layer::*;
use crate::parameter::ParameterSpec;
use crate::queue::{Onto, Queue};
use crate::shared::GptConfig;

/// `y = gelu(x Wᵀ + b)`.
///
/// Parameters: `dense.weight [C, C]`, `dense.bias [C]`. Kept for the backward: what GELU was given `[N, C]`.
#[derive(Debug)]
pub struct Dense {
    name: String,
    width: usize,
    init_std: f32,
}

impl Dense {
    /// The layer of block `index` of a model with this configuration.
    pub fn new(config: &GptConfig, index: usize) -> Self {
        Self { name: format!("h.{index}.dense"), width: config.hidden_size, init_std: config.init_std as f32 }
    }

    /// Elements of the parameters in order.
    fn parameter_lens(&self) -> [usize; 2] {
        [self.width * self.width, self.width]
    }

    fn linear(&self, shape: MicroBatchShape) -> LinearShape {
        LinearShape { num_rows: shape.num_tokens(), num_inputs: self.width, num_outputs: self.width }
    }
}

impl Layer for Dense {
    fn name(&self) -> &str {
        &self.name
    }

    fn parameters(&self) -> Vec<ParameterSpec> {
        let (name, width) = (&self.name, self.width);
        vec![
            ParameterSpec::normal(format!("{name}.weight"), [width, width], self.init_std),
            ParameterSpec::zeros(format!("{name}.bias"), [width]),
        ]
    }

    fn sizes(&self, shape: MicroBatchShape) -> LayerSizes {
        let activation = shape.num_tokens() * self.width;
        LayerSizes {
            input: activation,
            output: activation,
            saved: activation,
            weight_inputs: activation,
            ..LayerSizes::default()
        }
    }

    fn forward_flops(&self, shape: MicroBatchShape) -> u64 {
        self.linear(shape).flops()
    }

    fn forward(&self, queue: &dyn Queue, shape: MicroBatchShape, mut args: ForwardArgs<'_>) {
        self.recompute(queue, shape, args.recomputed());
        queue.gelu(args.saved.view(), args.output);
    }

    fn recompute(&self, queue: &dyn Queue, shape: MicroBatchShape, args: RecomputeArgs<'_>) {
        let [weight, bias] = args.parameters.split(self.parameter_lens());
        queue.linear(self.linear(shape), args.input, weight, Onto::Bias(bias), args.saved);
    }

    fn backward_input(&self, queue: &dyn Queue, shape: MicroBatchShape, args: BackwardInputArgs<'_>) {
        let [weight, _] = args.parameters.split(self.parameter_lens());
        let mut dhidden = args.weight_inputs;
        queue.copy(args.gradient.view(), dhidden.reborrow());
        queue.gelu_backward(args.saved, dhidden.reborrow());
        queue.linear_backward_input(
            self.linear(shape),
            dhidden.view(),
            weight,
            args.gradient,
            WriteMode::Overwrite,
        );
    }

    fn backward_weight(&self, queue: &dyn Queue, shape: MicroBatchShape, args: BackwardWeightArgs<'_>) {
        let [weight_sum, bias_sum] = args.parameter_gradients.split(self.parameter_lens());
        let dhidden = args.weight_inputs;
        queue.linear_backward_weight(self.linear(shape), dhidden, args.input, weight_sum, args.mode);
        queue.bias_backward(dhidden, bias_sum, args.mode);
    }
}
