//! The feed-forward half of a transformer block.

use crate::kernels::dropout::{self, Dropout, Place};
use crate::kernels::layer_norm::{self, Affine};
use crate::kernels::linear::{self, LinearShape};
use crate::kernels::matmul::Store;
use crate::kernels::{bias, gelu};
use crate::layer::*;
use crate::layout;
use crate::parameter::ParameterSpec;
use crate::shared::GptConfig;

/// `y = x + dropout(down(gelu(up(ln_2(x)))))`.
///
/// Parameters: `ln_2.weight [C]`, `ln_2.bias [C]`, `mlp.up.weight [4 C, C]`, `mlp.up.bias [4 C]`,
/// `mlp.down.weight [C, 4 C]`, `mlp.down.bias [C]`.
///
/// Kept for the backward: what GELU was given `[N, 4 C]`, which the input gradient replaces by GELU's output; the
/// norm's statistics. The norm's output is computed anew.
#[derive(Debug)]
pub struct Mlp {
    name: String,
    prefix: String,
    width: usize,
    init_std: f32,
    residual_std: f32,
    dropout: Option<Dropout>,
}

impl Mlp {
    /// The layer of block `index` of a model with this configuration.
    pub fn new(config: &GptConfig, index: usize) -> Self {
        Self {
            name: format!("h.{index}.mlp"),
            prefix: format!("h.{index}"),
            width: config.hidden_size,
            init_std: config.init_std as f32,
            residual_std: config.residual_std(),
            dropout: Dropout::new(config.dropout, Place::MlpBranch(index)),
        }
    }

    /// Elements of the parameters in order.
    fn parameter_lens(&self) -> [usize; 6] {
        let width = self.width;
        [width, width, 4 * width * width, 4 * width, 4 * width * width, width]
    }

    /// Elements of what is saved: what GELU was given, statistics.
    fn saved_lens(&self, shape: MicroBatchShape) -> [usize; 2] {
        [4 * shape.num_tokens() * self.width, 2 * shape.num_tokens()]
    }

    /// Elements of the weight-gradient inputs: the gradients of the branch and of what GELU was given, the norm's output, the
    /// gradients of the norm's parameters.
    fn weight_input_lens(&self, shape: MicroBatchShape) -> [usize; 5] {
        let activation = shape.num_tokens() * self.width;
        [activation, 4 * activation, activation, self.width, self.width]
    }

    /// Elements of the forward's workspace: the norm's output, GELU's output. The backward's is the gradient of the
    /// first.
    fn forward_workspace_lens(&self, shape: MicroBatchShape) -> [usize; 2] {
        let activation = shape.num_tokens() * self.width;
        [activation, 4 * activation]
    }

    fn up(&self, shape: MicroBatchShape) -> LinearShape {
        LinearShape { num_rows: shape.num_tokens(), num_inputs: self.width, num_outputs: 4 * self.width }
    }

    fn down(&self, shape: MicroBatchShape) -> LinearShape {
        LinearShape { num_rows: shape.num_tokens(), num_inputs: 4 * self.width, num_outputs: self.width }
    }
}

impl Layer for Mlp {
    fn name(&self) -> &str {
        &self.name
    }

    fn parameters(&self) -> Vec<ParameterSpec> {
        let (prefix, width) = (&self.prefix, self.width);
        vec![
            ParameterSpec::ones(format!("{prefix}.ln_2.weight"), [width]),
            ParameterSpec::zeros(format!("{prefix}.ln_2.bias"), [width]),
            ParameterSpec::normal(format!("{prefix}.mlp.up.weight"), [4 * width, width], self.init_std),
            ParameterSpec::zeros(format!("{prefix}.mlp.up.bias"), [4 * width]),
            ParameterSpec::normal(format!("{prefix}.mlp.down.weight"), [width, 4 * width], self.residual_std),
            ParameterSpec::zeros(format!("{prefix}.mlp.down.bias"), [width]),
        ]
    }

    fn sizes(&self, shape: MicroBatchShape) -> LayerSizes {
        let activation = shape.num_tokens() * self.width;
        LayerSizes {
            input: activation,
            output: activation,
            saved: layout::extent(self.saved_lens(shape)),
            saved_exact: 2 * shape.num_tokens(),
            weight_inputs: layout::extent(self.weight_input_lens(shape)),
            forward_workspace: layout::extent(self.forward_workspace_lens(shape)),
            backward_workspace: activation,
        }
    }

    fn forward_flops(&self, shape: MicroBatchShape) -> u64 {
        self.up(shape).flops().saturating_add(self.down(shape).flops())
    }

    fn forward(&self, shape: MicroBatchShape, args: ForwardArgs<'_>) -> Option<LossSum> {
        let ForwardArgs { tokens, parameters, input, output, saved, workspace } = args;
        let kept =
            RecomputeArgs { tokens, parameters, input, saved: &mut *saved, workspace: &mut *workspace };
        self.recompute(shape, kept);
        let [.., down_weight, down_bias] = layout::split(parameters, self.parameter_lens());
        let [hidden, _] = layout::split(saved, self.saved_lens(shape));
        let [_, active] = layout::split_mut(workspace, self.forward_workspace_lens(shape));

        gelu::forward(hidden, active);
        match tokens.masks_of(self.dropout, shape) {
            None => {
                bias::add_to_rows(output, input, down_bias);
                linear::forward(self.down(shape), active, down_weight, output, Store::Add);
            }
            Some(masks) => {
                bias::fill_rows(output, down_bias);
                linear::forward(self.down(shape), active, down_weight, output, Store::Add);
                dropout::add_residual(masks, input, output, self.width);
            }
        }
        None
    }

    fn recompute(&self, shape: MicroBatchShape, args: RecomputeArgs<'_>) {
        let RecomputeArgs { parameters, input, saved, workspace, .. } = args;
        let [norm_weight, norm_bias, up_weight, up_bias, ..] =
            layout::split(parameters, self.parameter_lens());
        let [hidden, statistics] = layout::split_mut(saved, self.saved_lens(shape));
        let [normed, _] = layout::split_mut(workspace, self.forward_workspace_lens(shape));

        layer_norm::forward(input, Affine { weight: norm_weight, bias: norm_bias }, normed, statistics);
        bias::fill_rows(hidden, up_bias);
        linear::forward(self.up(shape), normed, up_weight, hidden, Store::Add);
    }

    fn backward_input(&self, shape: MicroBatchShape, args: BackwardInputArgs<'_>) {
        let BackwardInputArgs {
            tokens, parameters, input, saved, gradient, weight_inputs, workspace, ..
        } = args;
        let [norm_weight, norm_bias, up_weight, _, down_weight, _] =
            layout::split(parameters, self.parameter_lens());
        let [hidden, statistics] = layout::split_mut(saved, self.saved_lens(shape));
        let [doutput, dhidden, normed, dnorm_weight, dnorm_bias] =
            layout::split_mut(weight_inputs, self.weight_input_lens(shape));
        let dnormed = workspace;

        doutput.copy_from_slice(gradient);
        if let Some(masks) = tokens.masks_of(self.dropout, shape) {
            dropout::apply(masks, doutput, self.width);
        }
        linear::backward_input(self.down(shape), doutput, down_weight, dhidden);
        gelu::backward(hidden, dhidden);
        linear::backward_input(self.up(shape), dhidden, up_weight, dnormed);
        layer_norm::recompute(input, Affine { weight: norm_weight, bias: norm_bias }, statistics, normed);
        layer_norm::backward_input(input, norm_weight, statistics, dnormed, gradient, Store::Add);
        dnorm_weight.fill(0.0);
        dnorm_bias.fill(0.0);
        layer_norm::backward_weight(input, statistics, dnormed, dnorm_weight, dnorm_bias);
    }

    fn backward_weight(&self, shape: MicroBatchShape, args: BackwardWeightArgs<'_>) {
        let BackwardWeightArgs { saved, weight_inputs, parameter_gradients, .. } = args;
        let [active, _] = layout::split(saved, self.saved_lens(shape));
        let [doutput, dhidden, normed, dnorm_weight, dnorm_bias] =
            layout::split(weight_inputs, self.weight_input_lens(shape));
        let [norm_weight_sum, norm_bias_sum, up_weight_sum, up_bias_sum, down_weight_sum, down_bias_sum] =
            layout::split_mut(parameter_gradients, self.parameter_lens());

        bias::backward(norm_weight_sum, dnorm_weight);
        bias::backward(norm_bias_sum, dnorm_bias);
        linear::backward_weight(self.up(shape), dhidden, normed, up_weight_sum);
        bias::backward(up_bias_sum, dhidden);
        linear::backward_weight(self.down(shape), doutput, active, down_weight_sum);
        bias::backward(down_bias_sum, doutput);
    }
}
