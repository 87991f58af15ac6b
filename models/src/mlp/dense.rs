//! A dense layer with GELU, each token for itself.

use crate::kernels::linear::{self, LinearShape};
use crate::kernels::matmul::Store;
use crate::kernels::{bias, gelu};
use crate::layer::*;
use crate::layout;
use crate::parameter::ParameterSpec;
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

    fn forward(&self, shape: MicroBatchShape, args: ForwardArgs<'_>) -> Option<LossSum> {
        let ForwardArgs { tokens, parameters, input, output, saved, workspace } = args;
        let hidden = &mut *saved;
        self.recompute(shape, RecomputeArgs { tokens, parameters, input, saved: hidden, workspace });
        gelu::forward(saved, output);
        None
    }

    fn recompute(&self, shape: MicroBatchShape, args: RecomputeArgs<'_>) {
        let [weight, bias] = layout::split(args.parameters, self.parameter_lens());
        let hidden = args.saved;
        bias::fill_rows(hidden, bias);
        linear::forward(self.linear(shape), args.input, weight, hidden, Store::Add);
    }

    fn backward_input(&self, shape: MicroBatchShape, args: BackwardInputArgs<'_>) {
        let [weight, _] = layout::split(args.parameters, self.parameter_lens());
        let dhidden = args.weight_inputs;
        dhidden.copy_from_slice(args.gradient);
        gelu::backward(args.saved, dhidden);
        linear::backward_input(self.linear(shape), dhidden, weight, args.gradient);
    }

    fn backward_weight(&self, shape: MicroBatchShape, args: BackwardWeightArgs<'_>) {
        let [weight_sum, bias_sum] = layout::split_mut(args.parameter_gradients, self.parameter_lens());
        let dhidden = args.weight_inputs;
        linear::backward_weight(self.linear(shape), dhidden, args.input, weight_sum);
        bias::backward(bias_sum, dhidden);
    }
}
