//! The feed-forward half of a transformer block.

use super::LlamaConfig;
use super::parameters::those_there;
use crate::kernels::linear::LinearShape;
use crate::kernels::norm::Norm;
use crate::layer::*;
use crate::layout;
use crate::parameter::ParameterSpec;
use crate::queue::{Affine, NormGradient, Onto, Queue};

/// `y = x + down(swiglu(gate_up(ln_2(x))))`.
///
/// Parameters: `ln_2.weight [C]`, `mlp.gate_up.weight [2 F, C]` (gate, up), `mlp.gate_up.bias [2 F]`, `mlp.down.weight [C, F]`,
/// `mlp.down.bias [C]`; biases where the model has them.
///
/// Kept for the backward: gate and up `[N, 2 F]`, which the input gradient replaces by their gradient; the norm's statistics. The norm's
/// output and SwiGLU's are computed anew.
#[derive(Debug)]
pub struct Mlp {
    name: String,
    prefix: String,
    width: usize,
    hidden: usize,
    has_bias: bool,
    norm: Norm,
    init_std: f32,
    residual_std: f32,
}

impl Mlp {
    /// The layer of block `index` of a model with this configuration.
    pub fn new(config: &LlamaConfig, index: usize) -> Self {
        Self {
            name: format!("h.{index}.mlp"),
            prefix: format!("h.{index}"),
            width: config.gpt.hidden_size,
            hidden: config.ffn_hidden_size,
            has_bias: config.add_mlp_bias,
            norm: config.norm(),
            init_std: config.gpt.init_std as f32,
            residual_std: config.gpt.residual_std(),
        }
    }

    /// Elements of the parameters in order; of biases that the model does not have, none.
    fn parameter_lens(&self) -> [usize; 5] {
        let (width, hidden) = (self.width, self.hidden);
        let bias = |len| if self.has_bias { len } else { 0 };
        [width, 2 * hidden * width, bias(2 * hidden), width * hidden, bias(width)]
    }

    /// Elements of the weight-gradient inputs: the gradient of the branch, SwiGLU's output, the norm's.
    fn weight_input_lens(&self, shape: MicroBatchShape) -> [usize; 3] {
        [self.width, self.hidden, self.width].map(|width| shape.num_tokens() * width)
    }

    /// Elements of the forward's workspace: the norm's output, SwiGLU's. The backward's is the gradient of the first.
    fn forward_workspace_lens(&self, shape: MicroBatchShape) -> [usize; 2] {
        [self.width, self.hidden].map(|width| shape.num_tokens() * width)
    }

    fn gate_up(&self, shape: MicroBatchShape) -> LinearShape {
        LinearShape { num_rows: shape.num_tokens(), num_inputs: self.width, num_outputs: 2 * self.hidden }
    }

    fn down(&self, shape: MicroBatchShape) -> LinearShape {
        LinearShape { num_rows: shape.num_tokens(), num_inputs: self.hidden, num_outputs: self.width }
    }
}

impl Layer for Mlp {
    fn name(&self) -> &str {
        &self.name
    }

    fn parameters(&self) -> Vec<ParameterSpec> {
        let (prefix, width, hidden) = (&self.prefix, self.width, self.hidden);
        let specs = [
            ParameterSpec::ones(format!("{prefix}.ln_2.weight"), [width]),
            ParameterSpec::normal(format!("{prefix}.mlp.gate_up.weight"), [2 * hidden, width], self.init_std),
            ParameterSpec::zeros(format!("{prefix}.mlp.gate_up.bias"), [2 * hidden]),
            ParameterSpec::normal(format!("{prefix}.mlp.down.weight"), [width, hidden], self.residual_std),
            ParameterSpec::zeros(format!("{prefix}.mlp.down.bias"), [width]),
        ];
        those_there(specs, self.parameter_lens())
    }

    fn sizes(&self, shape: MicroBatchShape) -> LayerSizes {
        let activation = shape.num_tokens() * self.width;
        LayerSizes {
            input: activation,
            output: activation,
            saved: shape.num_tokens() * 2 * self.hidden,
            exact: 2 * shape.num_tokens(),
            weight_inputs: layout::extent(self.weight_input_lens(shape)),
            // The gradient of the norm's weight.
            exact_weight_inputs: self.width,
            forward_workspace: layout::extent(self.forward_workspace_lens(shape)),
            backward_workspace: activation,
            ..LayerSizes::default()
        }
    }

    fn forward_flops(&self, shape: MicroBatchShape) -> u64 {
        self.gate_up(shape).flops().saturating_add(self.down(shape).flops())
    }

    fn forward(&self, queue: &dyn Queue, shape: MicroBatchShape, mut args: ForwardArgs<'_>) {
        self.recompute(queue, shape, args.recomputed());
        let ForwardArgs { parameters, input, output, saved, workspace, .. } = args;
        let [.., weight, bias] = parameters.split(self.parameter_lens());
        let [_, mut active] = layout::split_mut(workspace, self.forward_workspace_lens(shape));
        queue.swiglu(saved.view(), active.reborrow(), self.hidden);
        let onto = Onto::residual(input, bias);
        queue.linear(self.down(shape), active.view(), weight, onto, output);
    }

    fn recompute(&self, queue: &dyn Queue, shape: MicroBatchShape, args: RecomputeArgs<'_>) {
        let RecomputeArgs { parameters, input, saved, exact: statistics, workspace, .. } = args;
        let [norm_weight, weight, bias, ..] = parameters.split(self.parameter_lens());
        let [mut normed, _] = layout::split_mut(workspace, self.forward_workspace_lens(shape));
        let norm = Affine::weight_alone(norm_weight);
        queue.norm(self.norm, input, norm, normed.reborrow(), statistics);
        let onto = Onto::bias(bias);
        queue.linear(self.gate_up(shape), normed.view(), weight, onto, saved);
    }

    fn backward_input(&self, queue: &dyn Queue, shape: MicroBatchShape, args: BackwardInputArgs<'_>) {
        let BackwardInputArgs {
            parameters,
            input,
            saved: mut gate_up,
            exact: statistics,
            mut gradient,
            weight_inputs,
            exact_weight_inputs,
            workspace: mut dnormed,
            ..
        } = args;
        let [norm_weight, weight, _, down_weight, _] = parameters.split(self.parameter_lens());
        let statistics = statistics.into_view();
        let [mut doutput, mut active, normed] =
            layout::split_mut(weight_inputs, self.weight_input_lens(shape));
        let [dnorm_weight, no_bias] = layout::split_mut(exact_weight_inputs, [self.width, 0]);

        queue.copy(gradient.view(), doutput.reborrow());
        let mode = WriteMode::Overwrite;
        let dactive = active.reborrow();
        queue.linear_backward_input(self.down(shape), doutput.view(), down_weight, dactive, mode);
        queue.swiglu_backward(gate_up.reborrow(), active, self.hidden);
        queue.linear_backward_input(self.gate_up(shape), gate_up.view(), weight, dnormed.reborrow(), mode);
        let norm = Affine::weight_alone(norm_weight);
        queue.norm_again(self.norm, input, norm, statistics, normed);
        let (dnormed, dinput) = (dnormed.view(), gradient.reborrow());
        let of = NormGradient { x: input, statistics, dy: dnormed };
        queue.norm_backward_input(self.norm, of, norm_weight, dinput, WriteMode::Add);
        queue.norm_backward_weight(self.norm, of, dnorm_weight, no_bias, mode);
    }

    fn backward_weight(&self, queue: &dyn Queue, shape: MicroBatchShape, args: BackwardWeightArgs<'_>) {
        let BackwardWeightArgs {
            saved: dgate_up,
            weight_inputs,
            exact_weight_inputs: dnorm_weight,
            parameter_gradients,
            ..
        } = args;
        let [doutput, active, normed] = layout::split(weight_inputs, self.weight_input_lens(shape));
        let [norm_sum, weight_sum, bias_sum, down_weight_sum, down_bias_sum] =
            parameter_gradients.split(self.parameter_lens());

        queue.bias_gradient(dnorm_weight, norm_sum);
        queue.linear_gradient(self.gate_up(shape), dgate_up, normed, weight_sum);
        queue.linear_gradient(self.down(shape), doutput, active, down_weight_sum);
        queue.bias_gradient(dgate_up, bias_sum);
        queue.bias_gradient(doutput, down_bias_sum);
    }
}
