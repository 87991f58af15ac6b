//! A dense layer with GELU, each token for itself.

use crate::kernels::linear::LinearShape;
use crate::layer::*;
use crate::parameter::ParameterSpec;
use crate::queue::{Onto, Queue};
use crate::shared::GptConfig;

/// `y = gelu(x Wᵀ + b)`, from `I` elements of a token to `O`.
///
/// Parameters: `weight [O, I]`, `bias [O]`, behind the layer's name. Kept for the backward: what GELU was given `[N, O]`.
#[derive(Debug)]
pub struct Dense {
    name: String,
    widths: [usize; 2],
    init_std: f32,
}

impl Dense {
    /// The layer of block `index` of a model with this configuration.
    pub fn new(config: &GptConfig, index: usize) -> Self {
        Self::with_widths(format!("h.{index}.dense"), [config.hidden_size; 2], config.init_std as f32)
    }

    /// A layer from `widths[0]` elements to `widths[1]`, its weight drawn from a normal distribution.
    pub fn with_widths(name: impl Into<String>, widths: [usize; 2], init_std: f32) -> Self {
        Self { name: name.into(), widths, init_std }
    }

    /// Elements of the parameters in order.
    fn parameter_lens(&self) -> [usize; 2] {
        let [inputs, outputs] = self.widths;
        [outputs * inputs, outputs]
    }

    fn linear(&self, shape: MicroBatchShape) -> LinearShape {
        let [num_inputs, num_outputs] = self.widths;
        LinearShape { num_rows: shape.num_tokens(), num_inputs, num_outputs }
    }
}

impl Layer for Dense {
    fn name(&self) -> &str {
        &self.name
    }

    fn parameters(&self) -> Vec<ParameterSpec> {
        let (name, [inputs, outputs]) = (&self.name, self.widths);
        vec![
            ParameterSpec::normal(format!("{name}.weight"), [outputs, inputs], self.init_std),
            ParameterSpec::zeros(format!("{name}.bias"), [outputs]),
        ]
    }

    fn sizes(&self, shape: MicroBatchShape) -> LayerSizes {
        let [input, output] = self.widths.map(|width| shape.num_tokens() * width);
        LayerSizes { input, output, saved: output, weight_inputs: output, ..LayerSizes::default() }
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
        let (mut dhidden, mut gradient) = (args.weight_inputs, args.gradient);
        queue.copy(gradient.view().range(0..dhidden.len()), dhidden.reborrow());
        queue.gelu_backward(args.saved, dhidden.reborrow());
        let dinput = gradient.reborrow().range(0..args.input.len());
        queue.linear_backward_input(self.linear(shape), dhidden.view(), weight, dinput, WriteMode::Overwrite);
    }

    fn backward_weight(&self, queue: &dyn Queue, shape: MicroBatchShape, args: BackwardWeightArgs<'_>) {
        let [weight_sum, bias_sum] = args.parameter_gradients.split(self.parameter_lens());
        let dhidden = args.weight_inputs;
        queue.linear_backward_weight(self.linear(shape), dhidden, args.input, weight_sum.to, weight_sum.mode);
        queue.bias_backward(dhidden, bias_sum.to, bias_sum.mode);
    }
}
