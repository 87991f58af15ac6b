//! The attention half of a transformer block.

use crate::kernels::attention::AttentionShape;
use crate::kernels::dropout::{Dropout, Place};
use crate::kernels::linear::LinearShape;
use crate::kernels::norm::Norm;
use crate::layer::*;
use crate::layout;
use crate::parameter::ParameterSpec;
use crate::queue::{Affine, Attended, AttentionMask, NormGradient, Onto, Queue};
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

    /// Elements of what is saved: qkv, attention's output.
    fn saved_lens(&self, shape: MicroBatchShape) -> [usize; 2] {
        let activation = shape.num_tokens() * self.width;
        [3 * activation, activation]
    }

    /// Elements of what is saved in f32: log-sum-exp, statistics.
    fn exact_lens(&self, shape: MicroBatchShape) -> [usize; 2] {
        [self.attention(shape).num_log_sum_exp(), 2 * shape.num_tokens()]
    }

    /// Elements of the weight-gradient inputs: the branch's gradient, the norm's output.
    fn weight_input_lens(&self, shape: MicroBatchShape) -> [usize; 2] {
        [shape.num_tokens() * self.width; 2]
    }

    fn attention(&self, shape: MicroBatchShape) -> AttentionShape {
        AttentionShape {
            num_sequences: shape.num_sequences,
            seq_length: shape.seq_length,
            num_heads: self.num_heads,
            num_kv_heads: self.num_heads,
            head_size: self.width / self.num_heads,
        }
    }

    fn mask<'a>(&self, tokens: Tokens<'a>, shape: MicroBatchShape) -> AttentionMask<'a> {
        let dropout = tokens.masks_of(self.weights_dropout, shape);
        AttentionMask { dropout, document_starts: tokens.document_starts }
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
            exact: layout::extent(self.exact_lens(shape)),
            weight_inputs: layout::extent(self.weight_input_lens(shape)),
            // The gradients of the norm's parameters.
            exact_weight_inputs: layout::extent([self.width; 2]),
            // The norm's output, in the backward the gradient of attention's output and then of the norm's.
            forward_workspace: activation,
            backward_workspace: activation,
            exact_forward_workspace: self.attention(shape).forward_workspace(),
            exact_backward_workspace: self.attention(shape).backward_workspace(),
            ..LayerSizes::default()
        }
    }

    fn forward_flops(&self, shape: MicroBatchShape) -> u64 {
        let products = self.qkv(shape).flops().saturating_add(self.projection(shape).flops());
        products.saturating_add(self.attention_flops(shape))
    }

    fn attention_flops(&self, shape: MicroBatchShape) -> u64 {
        self.attention(shape).forward_flops()
    }

    fn forward(&self, queue: &dyn Queue, shape: MicroBatchShape, mut args: ForwardArgs<'_>) {
        self.recompute(queue, shape, args.recomputed());
        let ForwardArgs { tokens, parameters, input, mut output, saved, .. } = args;
        let [.., proj_weight, proj_bias] = parameters.split(self.parameter_lens());
        let [_, attended] = layout::split(saved.view(), self.saved_lens(shape));

        let projection = self.projection(shape);
        match tokens.masks_of(self.branch_dropout, shape) {
            None => {
                let onto = Onto::BiasAndResidual { bias: proj_bias, residual: input };
                queue.linear(projection, attended, proj_weight, onto, output);
            }
            Some(masks) => {
                let onto = Onto::Bias(proj_bias);
                queue.linear(projection, attended, proj_weight, onto, output.reborrow());
                queue.dropout_add_residual(masks, input, output, self.width);
            }
        }
    }

    fn recompute(&self, queue: &dyn Queue, shape: MicroBatchShape, args: RecomputeArgs<'_>) {
        let RecomputeArgs {
            tokens,
            parameters,
            input,
            saved,
            exact,
            workspace: mut normed,
            exact_workspace: scratch,
        } = args;
        let [norm_weight, norm_bias, qkv_weight, qkv_bias, ..] = parameters.split(self.parameter_lens());
        let [mut qkv, mut attended] = layout::split_mut(saved, self.saved_lens(shape));
        let [log_sum_exp, statistics] = layout::split_mut(exact, self.exact_lens(shape));

        let norm = Affine { weight: norm_weight, bias: norm_bias };
        queue.norm(Norm::GPT2, input, norm, normed.reborrow(), statistics);
        queue.linear(self.qkv(shape), normed.view(), qkv_weight, Onto::Bias(qkv_bias), qkv.reborrow());
        let mask = self.mask(tokens, shape);
        let (qkv, out) = (qkv.view(), attended.reborrow());
        queue.attention(self.attention(shape), mask, qkv, out, log_sum_exp, scratch);
        if self.ablation == Ablation::AttentionOutput {
            queue.clear(attended);
        }
    }

    fn backward_input(&self, queue: &dyn Queue, shape: MicroBatchShape, args: BackwardInputArgs<'_>) {
        let BackwardInputArgs {
            tokens,
            parameters,
            input,
            saved,
            exact,
            mut gradient,
            weight_inputs,
            exact_weight_inputs,
            workspace: mut dactivation,
            exact_workspace: scratch,
            ..
        } = args;
        let [norm_weight, norm_bias, qkv_weight, _, proj_weight, _] = parameters.split(self.parameter_lens());
        let [mut qkv, attended] = layout::split_mut(saved, self.saved_lens(shape));
        let exact = exact.into_view();
        let [log_sum_exp, statistics] = layout::split(exact, self.exact_lens(shape));
        let [mut doutput, normed] = layout::split_mut(weight_inputs, self.weight_input_lens(shape));
        let [dnorm_weight, dnorm_bias] = layout::split_mut(exact_weight_inputs, [self.width; 2]);

        queue.copy(gradient.view(), doutput.reborrow());
        if let Some(masks) = tokens.masks_of(self.branch_dropout, shape) {
            queue.dropout(masks, doutput.reborrow(), self.width);
        }
        let mut dattended = dactivation.reborrow();
        queue.linear_backward_input(
            self.projection(shape),
            doutput.view(),
            proj_weight,
            dattended.reborrow(),
            WriteMode::Overwrite,
        );
        if self.ablation == Ablation::AttentionOutput {
            queue.clear(dattended.reborrow());
        }
        let mask = self.mask(tokens, shape);
        let attended = Attended { out: attended.view(), log_sum_exp };
        let dattended = dattended.view();
        queue.attention_backward(self.attention(shape), mask, qkv.reborrow(), attended, dattended, scratch);
        let dqkv = qkv.view();
        let norm = Affine { weight: norm_weight, bias: norm_bias };
        queue.norm_again(Norm::GPT2, input, norm, statistics, normed);
        let mode = WriteMode::Overwrite;
        queue.linear_backward_input(self.qkv(shape), dqkv, qkv_weight, dactivation.reborrow(), mode);
        let dnormed = dactivation.view();
        let dinput = gradient.reborrow();
        let of = NormGradient { x: input, statistics, dy: dnormed };
        queue.norm_backward_input(Norm::GPT2, of, norm_weight, dinput, WriteMode::Add);
        queue.norm_backward_weight(Norm::GPT2, of, dnorm_weight, dnorm_bias, mode);
    }

    fn backward_weight(&self, queue: &dyn Queue, shape: MicroBatchShape, args: BackwardWeightArgs<'_>) {
        let BackwardWeightArgs { saved, weight_inputs, exact_weight_inputs, parameter_gradients, .. } = args;
        let [dqkv, attended] = layout::split(saved, self.saved_lens(shape));
        let [doutput, normed] = layout::split(weight_inputs, self.weight_input_lens(shape));
        let [dnorm_weight, dnorm_bias] = layout::split(exact_weight_inputs, [self.width; 2]);
        let [norm_weight_sum, norm_bias_sum, qkv_weight_sum, qkv_bias_sum, proj_weight_sum, proj_bias_sum] =
            parameter_gradients.split(self.parameter_lens());

        queue.bias_gradient(dnorm_weight, norm_weight_sum);
        queue.bias_gradient(dnorm_bias, norm_bias_sum);
        queue.linear_gradient(self.qkv(shape), dqkv, normed, qkv_weight_sum);
        queue.bias_gradient(dqkv, qkv_bias_sum);
        queue.linear_gradient(self.projection(shape), doutput, attended, proj_weight_sum);
        queue.bias_gradient(doutput, proj_bias_sum);
    }
}
