//! The attention half of a transformer block.

use crate::kernels::attention::{self, AttentionShape};
use crate::kernels::bias;
use crate::kernels::dropout::{self, Dropout, Place};
use crate::kernels::layer_norm::{self, Affine};
use crate::kernels::linear::{self, LinearShape};
use crate::kernels::matmul::Store;
use crate::layer::*;
use crate::layout;
use crate::parameter::ParameterSpec;
use crate::shared::{Ablation, GptConfig};

/// `y = x + dropout(proj(attend(qkv(ln_1(x)))))`, with dropout of the attention weights in `attend`.
///
/// Parameters: `ln_1.weight [C]`, `ln_1.bias [C]`, `attn.qkv.weight [3 C, C]` (queries, keys, values; heads in
/// order within each), `attn.qkv.bias [3 C]`, `attn.proj.weight [C, C]`, `attn.proj.bias [C]`.
///
/// Kept for the backward: `qkv [N, 3 C]`, which the input gradient replaces by its gradient; attention's output
/// `[N, C]`; its log-sum-exp; the norm's statistics. The norm's output is computed anew.
#[derive(Debug)]
pub struct Attention {
    name: String,
    prefix: String,
    width: usize,
    num_heads: usize,
    init_std: f32,
    residual_std: f32,
    ablation: Ablation,
    weights_dropout: Option<Dropout>,
    branch_dropout: Option<Dropout>,
}

impl Attention {
    /// The layer of block `index` of a model with this configuration.
    pub fn new(config: &GptConfig, index: usize) -> Self {
        Self {
            name: format!("h.{index}.attn"),
            prefix: format!("h.{index}"),
            width: config.hidden_size,
            num_heads: config.num_attention_heads,
            init_std: config.init_std as f32,
            residual_std: config.residual_std(),
            ablation: config.ablation,
            weights_dropout: Dropout::new(config.dropout, Place::AttentionWeights(index)),
            branch_dropout: Dropout::new(config.dropout, Place::AttentionBranch(index)),
        }
    }

    /// Elements of the parameters in order.
    fn parameter_lens(&self) -> [usize; 6] {
        let width = self.width;
        [width, width, 3 * width * width, 3 * width, width * width, width]
    }

    /// Elements of what is saved: qkv, attention's output, log-sum-exp, statistics.
    fn saved_lens(&self, shape: MicroBatchShape) -> [usize; 4] {
        let activation = shape.num_tokens() * self.width;
        let [log_sum_exp, statistics] = self.statistics_lens(shape);
        [3 * activation, activation, log_sum_exp, statistics]
    }

    /// Elements of log-sum-exp and statistics, the last of what is saved.
    fn statistics_lens(&self, shape: MicroBatchShape) -> [usize; 2] {
        [self.attention(shape).num_log_sum_exp(), 2 * shape.num_tokens()]
    }

    /// Elements of the weight-gradient inputs: the branch's gradient, the norm's output, the gradients of the norm's parameters.
    fn weight_input_lens(&self, shape: MicroBatchShape) -> [usize; 4] {
        let activation = shape.num_tokens() * self.width;
        [activation, activation, self.width, self.width]
    }

    /// Elements of the forward's workspace: the norm's output, attention's scores.
    fn forward_workspace_lens(&self, shape: MicroBatchShape) -> [usize; 2] {
        [shape.num_tokens() * self.width, self.attention(shape).forward_workspace()]
    }

    /// Elements of the backward's workspace: the gradient of attention's output and then of the norm's output, and
    /// what attention needs.
    fn backward_workspace_lens(&self, shape: MicroBatchShape) -> [usize; 2] {
        [shape.num_tokens() * self.width, self.attention(shape).backward_workspace()]
    }

    fn attention(&self, shape: MicroBatchShape) -> AttentionShape {
        AttentionShape {
            num_sequences: shape.num_sequences,
            seq_length: shape.seq_length,
            num_heads: self.num_heads,
            head_size: self.width / self.num_heads,
        }
    }

    fn qkv(&self, shape: MicroBatchShape) -> LinearShape {
        LinearShape { num_rows: shape.num_tokens(), num_inputs: self.width, num_outputs: 3 * self.width }
    }

    fn projection(&self, shape: MicroBatchShape) -> LinearShape {
        LinearShape { num_rows: shape.num_tokens(), num_inputs: self.width, num_outputs: self.width }
    }
}

impl Layer for Attention {
    fn name(&self) -> &str {
        &self.name
    }

    fn parameters(&self) -> Vec<ParameterSpec> {
        let (prefix, width) = (&self.prefix, self.width);
        vec![
            ParameterSpec::ones(format!("{prefix}.ln_1.weight"), [width]),
            ParameterSpec::zeros(format!("{prefix}.ln_1.bias"), [width]),
            ParameterSpec::normal(format!("{prefix}.attn.qkv.weight"), [3 * width, width], self.init_std),
            ParameterSpec::zeros(format!("{prefix}.attn.qkv.bias"), [3 * width]),
            ParameterSpec::normal(format!("{prefix}.attn.proj.weight"), [width, width], self.residual_std),
            ParameterSpec::zeros(format!("{prefix}.attn.proj.bias"), [width]),
        ]
    }

    fn sizes(&self, shape: MicroBatchShape) -> LayerSizes {
        let activation = shape.num_tokens() * self.width;
        LayerSizes {
            input: activation,
            output: activation,
            saved: layout::extent(self.saved_lens(shape)),
            saved_exact: layout::extent(self.statistics_lens(shape)),
            weight_inputs: layout::extent(self.weight_input_lens(shape)),
            forward_workspace: layout::extent(self.forward_workspace_lens(shape)),
            backward_workspace: layout::extent(self.backward_workspace_lens(shape)),
        }
    }

    fn forward_flops(&self, shape: MicroBatchShape) -> u64 {
        let products = self.qkv(shape).flops().saturating_add(self.projection(shape).flops());
        products.saturating_add(self.attention(shape).forward_flops())
    }

    fn forward(&self, shape: MicroBatchShape, args: ForwardArgs<'_>) -> Option<LossSum> {
        let ForwardArgs { tokens, parameters, input, output, saved, workspace } = args;
        let kept = RecomputeArgs { tokens, parameters, input, saved: &mut *saved, workspace };
        self.recompute(shape, kept);
        let [.., proj_weight, proj_bias] = layout::split(parameters, self.parameter_lens());
        let [_, attended, ..] = layout::split(saved, self.saved_lens(shape));

        let projection = self.projection(shape);
        match tokens.masks_of(self.branch_dropout, shape) {
            None => {
                bias::add_to_rows(output, input, proj_bias);
                linear::forward(projection, attended, proj_weight, output, Store::Add);
            }
            Some(masks) => {
                bias::fill_rows(output, proj_bias);
                linear::forward(projection, attended, proj_weight, output, Store::Add);
                dropout::add_residual(masks, input, output, self.width);
            }
        }
        None
    }

    fn recompute(&self, shape: MicroBatchShape, args: RecomputeArgs<'_>) {
        let RecomputeArgs { tokens, parameters, input, saved, workspace } = args;
        let [norm_weight, norm_bias, qkv_weight, qkv_bias, ..] =
            layout::split(parameters, self.parameter_lens());
        let [qkv, attended, log_sum_exp, statistics] = layout::split_mut(saved, self.saved_lens(shape));
        let [normed, scratch] = layout::split_mut(workspace, self.forward_workspace_lens(shape));

        layer_norm::forward(input, Affine { weight: norm_weight, bias: norm_bias }, normed, statistics);
        bias::fill_rows(qkv, qkv_bias);
        linear::forward(self.qkv(shape), normed, qkv_weight, qkv, Store::Add);
        let masks = tokens.masks_of(self.weights_dropout, shape);
        attention::forward(self.attention(shape), masks, qkv, attended, log_sum_exp, scratch);
        if self.ablation == Ablation::AttentionOutput {
            attended.fill(0.0);
        }
    }

    fn backward_input(&self, shape: MicroBatchShape, args: BackwardInputArgs<'_>) {
        let BackwardInputArgs {
            tokens, parameters, input, saved, gradient, weight_inputs, workspace, ..
        } = args;
        let [norm_weight, norm_bias, qkv_weight, _, proj_weight, _] =
            layout::split(parameters, self.parameter_lens());
        let [qkv, attended, log_sum_exp, statistics] = layout::split_mut(saved, self.saved_lens(shape));
        let [doutput, normed, dnorm_weight, dnorm_bias] =
            layout::split_mut(weight_inputs, self.weight_input_lens(shape));
        let [dactivation, scratch] = layout::split_mut(workspace, self.backward_workspace_lens(shape));

        doutput.copy_from_slice(gradient);
        if let Some(masks) = tokens.masks_of(self.branch_dropout, shape) {
            dropout::apply(masks, doutput, self.width);
        }
        let dattended = &mut *dactivation;
        linear::backward_input(self.projection(shape), doutput, proj_weight, dattended);
        if self.ablation == Ablation::AttentionOutput {
            dattended.fill(0.0);
        }
        let masks = tokens.masks_of(self.weights_dropout, shape);
        attention::backward(self.attention(shape), masks, qkv, attended, log_sum_exp, dattended, scratch);
        let dqkv = &*qkv;
        layer_norm::recompute(input, Affine { weight: norm_weight, bias: norm_bias }, statistics, normed);
        let dnormed = dactivation;
        linear::backward_input(self.qkv(shape), dqkv, qkv_weight, dnormed);
        layer_norm::backward_input(input, norm_weight, statistics, dnormed, gradient, Store::Add);
        dnorm_weight.fill(0.0);
        dnorm_bias.fill(0.0);
        layer_norm::backward_weight(input, statistics, dnormed, dnorm_weight, dnorm_bias);
    }

    fn backward_weight(&self, shape: MicroBatchShape, args: BackwardWeightArgs<'_>) {
        let BackwardWeightArgs { saved, weight_inputs, parameter_gradients, .. } = args;
        let [dqkv, attended, _, _] = layout::split(saved, self.saved_lens(shape));
        let [doutput, normed, dnorm_weight, dnorm_bias] =
            layout::split(weight_inputs, self.weight_input_lens(shape));
        let [norm_weight_sum, norm_bias_sum, qkv_weight_sum, qkv_bias_sum, proj_weight_sum, proj_bias_sum] =
            layout::split_mut(parameter_gradients, self.parameter_lens());

        bias::backward(norm_weight_sum, dnorm_weight);
        bias::backward(norm_bias_sum, dnorm_bias);
        linear::backward_weight(self.qkv(shape), dqkv, normed, qkv_weight_sum);
        bias::backward(qkv_bias_sum, dqkv);
        linear::backward_weight(self.projection(shape), doutput, attended, proj_weight_sum);
        bias::backward(proj_bias_sum, doutput);
    }
}
