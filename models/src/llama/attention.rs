//! The attention half of a transformer block.

use super::LlamaConfig;
use super::parameters::those_there;
use crate::kernels::attention::AttentionShape;
use crate::kernels::linear::LinearShape;
use crate::kernels::norm::Norm;
use crate::kernels::rope::Turn;
use crate::layer::*;
use crate::layout;
use crate::memory::{View, ViewMut};
use crate::parameter::ParameterSpec;
use crate::queue::{Affine, Attended, AttentionMask, HeadWeights, NormGradient, Onto, Queue, Rotation};
use crate::shared::Ablation;

/// `y = x + proj(attend(rope(norm_heads(qkv(ln_1(x))))))`, where heads of queries and keys are normalised in some models only.
///
/// Parameters: `ln_1.weight [C]`, `attn.qkv.weight [(H + 2 G) D, C]` (heads of queries, of keys, of values), `attn.qkv.bias [(H + 2 G) D]`,
/// `attn.q_norm.weight [D]`, `attn.k_norm.weight [D]`, `attn.proj.weight [C, H D]`, `attn.proj.bias [C]`; biases and norms of heads
/// where the model has them.
///
/// Kept for the backward: `qkv [N, (H + 2 G) D]`, turned, but as the linear map gives it where heads are normalised, which the input
/// gradient replaces by its gradient; attention's output `[N, H D]`; its log-sum-exp; the norm's statistics. The norm's output is computed
/// anew, and so are normalised heads.
#[derive(Debug)]
pub struct Attention {
    name: String,
    prefix: String,
    config: LlamaConfig,
    norm: Norm,
}

impl Attention {
    /// The layer of block `index` of a model with this configuration.
    pub fn new(config: &LlamaConfig, index: usize) -> Self {
        Self {
            name: format!("h.{index}.attn"),
            prefix: format!("h.{index}"),
            config: config.clone(),
            norm: config.norm(),
        }
    }

    fn width(&self) -> usize {
        self.config.gpt.hidden_size
    }

    /// Elements of the parameters in order; of those that the model does not have, none.
    fn parameter_lens(&self) -> [usize; 7] {
        let LlamaConfig { add_qkv_bias, add_proj_bias, qk_layernorm, kv_channels, .. } = self.config;
        let (width, qkv) = (self.width(), self.config.qkv_width());
        let where_there = |is_there: bool, len: usize| if is_there { len } else { 0 };
        [
            width,
            qkv * width,
            where_there(add_qkv_bias, qkv),
            where_there(qk_layernorm, kv_channels),
            where_there(qk_layernorm, kv_channels),
            width * self.config.attended_width(),
            where_there(add_proj_bias, width),
        ]
    }

    /// Elements of what is saved: qkv, attention's output.
    fn saved_lens(&self, shape: MicroBatchShape) -> [usize; 2] {
        [self.config.qkv_width(), self.config.attended_width()].map(|width| shape.num_tokens() * width)
    }

    /// Elements of what is saved in f32: log-sum-exp, statistics.
    fn exact_lens(&self, shape: MicroBatchShape) -> [usize; 2] {
        [self.attention(shape).num_log_sum_exp(), 2 * shape.num_tokens()]
    }

    /// Elements of the weight-gradient inputs: the branch's gradient, the norm's output.
    fn weight_input_lens(&self, shape: MicroBatchShape) -> [usize; 2] {
        [shape.num_tokens() * self.width(); 2]
    }

    /// Elements of the weight-gradient inputs in f32: the gradients of the norm's weight, and of those of heads.
    fn exact_weight_input_lens(&self) -> [usize; 3] {
        let [width, _, _, queries, keys, ..] = self.parameter_lens();
        [width, queries, keys]
    }

    /// Elements of the forward's workspace: the norm's output, normalised heads.
    fn forward_workspace_lens(&self, shape: MicroBatchShape) -> [usize; 2] {
        [shape.num_tokens() * self.width(), self.num_normalised(shape)]
    }

    /// Elements of the backward's: the gradient of attention's output and then of the norm's, normalised heads.
    fn backward_workspace_lens(&self, shape: MicroBatchShape) -> [usize; 2] {
        let widest = self.width().max(self.config.attended_width());
        [shape.num_tokens() * widest, self.num_normalised(shape)]
    }

    /// Elements of heads that are normalised, and of the values beside them.
    fn num_normalised(&self, shape: MicroBatchShape) -> usize {
        if self.config.qk_layernorm { shape.num_tokens() * self.config.qkv_width() } else { 0 }
    }

    fn attention(&self, shape: MicroBatchShape) -> AttentionShape {
        AttentionShape {
            num_sequences: shape.num_sequences,
            seq_length: shape.seq_length,
            num_heads: self.config.gpt.num_attention_heads,
            num_kv_heads: self.config.num_query_groups,
            head_size: self.config.kv_channels,
        }
    }

    fn qkv(&self, shape: MicroBatchShape) -> LinearShape {
        LinearShape {
            num_rows: shape.num_tokens(),
            num_inputs: self.width(),
            num_outputs: self.config.qkv_width(),
        }
    }

    fn projection(&self, shape: MicroBatchShape) -> LinearShape {
        LinearShape {
            num_rows: shape.num_tokens(),
            num_inputs: self.config.attended_width(),
            num_outputs: self.width(),
        }
    }

    /// Heads of queries and keys as attention reads them, normalised and turned, from what the linear map gave.
    fn normalise_and_turn(
        &self,
        queue: &dyn Queue,
        shape: MicroBatchShape,
        tokens: Tokens<'_>,
        weights: HeadWeights<'_>,
        qkv: View<'_>,
        mut heads: ViewMut<'_>,
    ) {
        queue.head_norm(self.attention(shape), self.norm.epsilon, qkv, weights, heads.reborrow());
        self.turn(queue, shape, tokens, Turn::Forward, heads);
    }

    fn turn(
        &self,
        queue: &dyn Queue,
        shape: MicroBatchShape,
        tokens: Tokens<'_>,
        turn: Turn,
        heads: ViewMut<'_>,
    ) {
        let rope = &self.config.rope(shape.seq_length);
        let rotation = Rotation { rope, turn, document_starts: tokens.document_starts };
        queue.rope(self.attention(shape), rotation, heads);
    }
}

impl Layer for Attention {
    fn name(&self) -> &str {
        &self.name
    }

    fn parameters(&self) -> Vec<ParameterSpec> {
        let (prefix, gpt) = (&self.prefix, &self.config.gpt);
        let (width, qkv, size) = (self.width(), self.config.qkv_width(), self.config.kv_channels);
        let specs = [
            ParameterSpec::ones(format!("{prefix}.ln_1.weight"), [width]),
            ParameterSpec::normal(format!("{prefix}.attn.qkv.weight"), [qkv, width], gpt.init_std as f32),
            ParameterSpec::zeros(format!("{prefix}.attn.qkv.bias"), [qkv]),
            ParameterSpec::ones(format!("{prefix}.attn.q_norm.weight"), [size]),
            ParameterSpec::ones(format!("{prefix}.attn.k_norm.weight"), [size]),
            ParameterSpec::normal(
                format!("{prefix}.attn.proj.weight"),
                [width, self.config.attended_width()],
                gpt.residual_std(),
            ),
            ParameterSpec::zeros(format!("{prefix}.attn.proj.bias"), [width]),
        ];
        those_there(specs, self.parameter_lens())
    }

    fn sizes(&self, shape: MicroBatchShape) -> LayerSizes {
        let activation = shape.num_tokens() * self.width();
        LayerSizes {
            input: activation,
            output: activation,
            saved: layout::extent(self.saved_lens(shape)),
            exact: layout::extent(self.exact_lens(shape)),
            weight_inputs: layout::extent(self.weight_input_lens(shape)),
            exact_weight_inputs: layout::extent(self.exact_weight_input_lens()),
            forward_workspace: layout::extent(self.forward_workspace_lens(shape)),
            backward_workspace: layout::extent(self.backward_workspace_lens(shape)),
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
        let ForwardArgs { parameters, input, output, saved, .. } = args;
        let [.., weight, bias] = parameters.split(self.parameter_lens());
        let [_, attended] = layout::split(saved.view(), self.saved_lens(shape));
        let onto = Onto::residual(input, bias);
        queue.linear(self.projection(shape), attended, weight, onto, output);
    }

    fn recompute(&self, queue: &dyn Queue, shape: MicroBatchShape, args: RecomputeArgs<'_>) {
        let RecomputeArgs { tokens, parameters, input, saved, exact, workspace, exact_workspace } = args;
        let [norm_weight, weight, bias, queries, keys, ..] = parameters.split(self.parameter_lens());
        let [mut qkv, mut attended] = layout::split_mut(saved, self.saved_lens(shape));
        let [log_sum_exp, statistics] = layout::split_mut(exact, self.exact_lens(shape));
        let [mut normed, mut normalised] = layout::split_mut(workspace, self.forward_workspace_lens(shape));

        queue.norm(self.norm, input, Affine::weight_alone(norm_weight), normed.reborrow(), statistics);
        let onto = Onto::bias(bias);
        queue.linear(self.qkv(shape), normed.view(), weight, onto, qkv.reborrow());
        let heads = if self.config.qk_layernorm {
            let weights = HeadWeights { queries, keys };
            self.normalise_and_turn(queue, shape, tokens, weights, qkv.view(), normalised.reborrow());
            normalised.view()
        } else {
            self.turn(queue, shape, tokens, Turn::Forward, qkv.reborrow());
            qkv.view()
        };
        let out = attended.reborrow();
        queue.attention(self.attention(shape), mask_of(tokens), heads, out, log_sum_exp, exact_workspace);
        if self.config.gpt.ablation == Ablation::AttentionOutput {
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
            workspace,
            exact_workspace,
            ..
        } = args;
        let [norm_weight, weight, _, queries, keys, proj_weight, _] = parameters.split(self.parameter_lens());
        let [mut qkv, attended] = layout::split_mut(saved, self.saved_lens(shape));
        let [log_sum_exp, statistics] = layout::split(exact.into_view(), self.exact_lens(shape));
        let [mut doutput, normed] = layout::split_mut(weight_inputs, self.weight_input_lens(shape));
        let [dnorm_weight, dqueries, dkeys] =
            layout::split_mut(exact_weight_inputs, self.exact_weight_input_lens());
        let [mut dactivation, mut normalised] =
            layout::split_mut(workspace, self.backward_workspace_lens(shape));
        let (heads, mask, mode) = (self.attention(shape), mask_of(tokens), WriteMode::Overwrite);

        queue.copy(gradient.view(), doutput.reborrow());
        let mut dattended = dactivation.reborrow().range(0..attended.len());
        let doutput = doutput.view();
        queue.linear_backward_input(self.projection(shape), doutput, proj_weight, dattended.reborrow(), mode);
        if self.config.gpt.ablation == Ablation::AttentionOutput {
            queue.clear(dattended.reborrow());
        }
        let weights = HeadWeights { queries, keys };
        let attended = Attended { out: attended.view(), log_sum_exp };
        let dattended = dattended.view();
        if self.config.qk_layernorm {
            self.normalise_and_turn(queue, shape, tokens, weights, qkv.view(), normalised.reborrow());
            queue.attention_backward(
                heads,
                mask,
                normalised.reborrow(),
                attended,
                dattended,
                exact_workspace,
            );
            self.turn(queue, shape, tokens, Turn::Backward, normalised.reborrow());
            let (epsilon, dheads) = (self.norm.epsilon, normalised.view());
            queue.head_norm_backward_weight(heads, epsilon, qkv.view(), dheads, [dqueries, dkeys], mode);
            queue.head_norm_backward_input(heads, epsilon, qkv.reborrow(), weights, dheads);
        } else {
            queue.attention_backward(heads, mask, qkv.reborrow(), attended, dattended, exact_workspace);
            self.turn(queue, shape, tokens, Turn::Backward, qkv.reborrow());
        }
        queue.norm_again(self.norm, input, Affine::weight_alone(norm_weight), statistics, normed);
        let mut dnormed = dactivation.range(0..gradient.len());
        queue.linear_backward_input(self.qkv(shape), qkv.view(), weight, dnormed.reborrow(), mode);
        let dnormed = dnormed.view();
        let dinput = gradient.reborrow();
        let of = NormGradient { x: input, statistics, dy: dnormed };
        queue.norm_backward_input(self.norm, of, norm_weight, dinput, WriteMode::Add);
        let [dnorm_weight, no_bias] = layout::split_mut(dnorm_weight, [self.width(), 0]);
        queue.norm_backward_weight(self.norm, of, dnorm_weight, no_bias, mode);
    }

    fn backward_weight(&self, queue: &dyn Queue, shape: MicroBatchShape, args: BackwardWeightArgs<'_>) {
        let BackwardWeightArgs { saved, weight_inputs, exact_weight_inputs, parameter_gradients, .. } = args;
        let [dqkv, attended] = layout::split(saved, self.saved_lens(shape));
        let [doutput, normed] = layout::split(weight_inputs, self.weight_input_lens(shape));
        let [dnorm_weight, dqueries, dkeys] =
            layout::split(exact_weight_inputs, self.exact_weight_input_lens());
        let [norm_sum, weight_sum, bias_sum, queries_sum, keys_sum, proj_weight_sum, proj_bias_sum] =
            parameter_gradients.split(self.parameter_lens());

        queue.bias_gradient(dnorm_weight, norm_sum);
        queue.linear_gradient(self.qkv(shape), dqkv, normed, weight_sum);
        queue.bias_gradient(dqkv, bias_sum);
        queue.bias_gradient(dqueries, queries_sum);
        queue.bias_gradient(dkeys, keys_sum);
        queue.linear_gradient(self.projection(shape), doutput, attended, proj_weight_sum);
        queue.bias_gradient(doutput, proj_bias_sum);
    }
}

/// What a token does not see: nothing is dropped.
fn mask_of(tokens: Tokens<'_>) -> AttentionMask<'_> {
    AttentionMask { dropout: None, document_starts: tokens.document_starts }
}
