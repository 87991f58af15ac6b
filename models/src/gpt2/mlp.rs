//! The feed-forward half of a transformer block.

use crate::kernels::dropout::{Dropout, Place};
use crate::kernels::linear::LinearShape;
use crate::kernels::norm::Norm;
use crate::layer::*;
use crate::layout;
use crate::parameter::ParameterSpec;
use crate::queue::{Affine, NormGradient, Onto, Queue};
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

    /// Elements of the weight-gradient inputs: the gradients of the branch and of what GELU was given, the norm's output.
    fn weight_input_lens(&self, shape: MicroBatchShape) -> [usize; 3] {
        let activation = shape.num_tokens() * self.width;
        [activation, 4 * activation, activation]
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
            saved: 4 * activation,
            exact: 2 * shape.num_tokens(),
            weight_inputs: layout::extent(self.weight_input_lens(shape)),
            // The gradients of the norm's parameters.
            exact_weight_inputs: layout::extent([self.width; 2]),
            forward_workspace: layout::extent(self.forward_workspace_lens(shape)),
            backward_workspace: activation,
            ..LayerSizes::default()
        }
    }

    fn forward_flops(&self, shape: MicroBatchShape) -> u64 {
        self.up(shape).flops().saturating_add(self.down(shape).flops())
    }

    fn forward(&self, queue: &dyn Queue, shape: MicroBatchShape, mut args: ForwardArgs<'_>) {
        self.recompute(queue, shape, args.recomputed());
        let ForwardArgs { tokens, parameters, input, mut output, workspace, .. } = args;
        let [.., down_weight, down_bias] = parameters.split(self.parameter_lens());
        let [_, active] = layout::split_mut(workspace, self.forward_workspace_lens(shape));

        let (down, active) = (self.down(shape), active.view());
        match tokens.masks_of(self.dropout, shape) {
            None => {
                queue.linear(
                    down,
                    active,
                    down_weight,
                    Onto::BiasAndResidual { bias: down_bias, residual: input },
                    output,
                );
            }
            Some(masks) => {
                queue.linear(down, active, down_weight, Onto::Bias(down_bias), output.reborrow());
                queue.dropout_add_residual(masks, input, output, self.width);
            }
        }
    }

    fn recompute(&self, queue: &dyn Queue, shape: MicroBatchShape, args: RecomputeArgs<'_>) {
        let RecomputeArgs { parameters, input, saved: hidden, exact: statistics, workspace, .. } = args;
        let [norm_weight, norm_bias, up_weight, up_bias, ..] = parameters.split(self.parameter_lens());
        let [mut normed, active] = layout::split_mut(workspace, self.forward_workspace_lens(shape));

        let norm = Affine { weight: norm_weight, bias: norm_bias };
        queue.norm(Norm::GPT2, input, norm, normed.reborrow(), statistics);
        // The forward goes on with GELU's output; a recomputation has no use for it, but the same call gives `hidden` the same bits.
        let up = Affine { weight: up_weight, bias: up_bias };
        queue.linear_gelu(self.up(shape), normed.view(), up, hidden, active);
    }

    fn backward_input(&self, queue: &dyn Queue, shape: MicroBatchShape, args: BackwardInputArgs<'_>) {
        let BackwardInputArgs {
            tokens,
            parameters,
            input,
            saved: hidden,
            exact: statistics,
            mut gradient,
            weight_inputs,
            exact_weight_inputs,
            workspace: mut dnormed,
            ..
        } = args;
        let [norm_weight, norm_bias, up_weight, _, down_weight, _] = parameters.split(self.parameter_lens());
        let statistics = statistics.into_view();
        let [mut doutput, mut dhidden, normed] =
            layout::split_mut(weight_inputs, self.weight_input_lens(shape));
        let [dnorm_weight, dnorm_bias] = layout::split_mut(exact_weight_inputs, [self.width; 2]);

        queue.copy(gradient.view(), doutput.reborrow());
        if let Some(masks) = tokens.masks_of(self.dropout, shape) {
            queue.dropout(masks, doutput.reborrow(), self.width);
        }
        let mode = WriteMode::Overwrite;
        let down = self.down(shape);
        queue.linear_gelu_backward_input(down, doutput.view(), down_weight, hidden, dhidden.reborrow());
        queue.linear_backward_input(self.up(shape), dhidden.view(), up_weight, dnormed.reborrow(), mode);
        let norm = Affine { weight: norm_weight, bias: norm_bias };
        queue.norm_again(Norm::GPT2, input, norm, statistics, normed);
        let (dnormed, dinput) = (dnormed.view(), gradient.reborrow());
        let of = NormGradient { x: input, statistics, dy: dnormed };
        queue.norm_backward_input(Norm::GPT2, of, norm_weight, dinput, WriteMode::Add);
        queue.norm_backward_weight(Norm::GPT2, of, dnorm_weight, dnorm_bias, mode);
    }

    fn backward_weight(&self, queue: &dyn Queue, shape: MicroBatchShape, args: BackwardWeightArgs<'_>) {
        let BackwardWeightArgs {
            saved: active, weight_inputs, exact_weight_inputs, parameter_gradients, ..
        } = args;
        let [doutput, dhidden, normed] = layout::split(weight_inputs, self.weight_input_lens(shape));
        let [dnorm_weight, dnorm_bias] = layout::split(exact_weight_inputs, [self.width; 2]);
        let [norm_weight_sum, norm_bias_sum, up_weight_sum, up_bias_sum, down_weight_sum, down_bias_sum] =
            parameter_gradients.split(self.parameter_lens());

        queue.bias_gradient(dnorm_weight, norm_weight_sum);
        queue.bias_gradient(dnorm_bias, norm_bias_sum);
        queue.linear_gradient(self.up(shape), dhidden, normed, up_weight_sum);
        queue.bias_gradient(dhidden, up_bias_sum);
        queue.linear_gradient(self.down(shape), doutput, active, down_weight_sum);
        queue.bias_gradient(doutput, down_bias_sum);
    }
}
