//! The kernels of a step, each with what it has to move and to compute.

use std::error::Error;

use pipezero_models::element::ElementType;
use pipezero_models::kernels::adamw::AdamWStep;
use pipezero_models::kernels::attention::AttentionShape;
use pipezero_models::kernels::cross_entropy::NUM_STATISTICS;
use pipezero_models::kernels::linear::LinearShape;
use pipezero_models::kernels::matmul::WriteMode;
use pipezero_models::kernels::norm::Norm;
use pipezero_models::kernels::rope::{Rope, Turn};
use pipezero_models::layer::LossSum;
use pipezero_models::queue::{
    Affine, Attended, AttentionMask, HeadWeights, NormGradient, Onto, Positions, Queue, Rotation,
};
use pipezero_models::shared::block_tokens;

use super::model::ModelShape;
use super::operands::{floats, half, words};

/// A kernel with its operands.
pub(crate) struct Case {
    pub(crate) kernel: &'static str,
    pub(crate) shape: String,
    /// Bytes that it has to read and write.
    pub(crate) bytes: f64,
    /// Operations of its products.
    pub(crate) flops: f64,
    pub(crate) is_attention: bool,
    pub(crate) call: Call,
}

/// Asks a queue for the kernel.
pub(crate) type Call = Box<dyn FnMut(&dyn Queue)>;

/// Makes a case: its operands are allocated then.
type Make = fn(&dyn Queue, &ModelShape) -> Result<Case, Box<dyn Error>>;

/// In the order of a step of GPT-2, and then those that other models have in their place.
pub(crate) const ALL: [Make; 35] = [
    embedding,
    add_positions,
    norm,
    |queue, model| linear(queue, model, 1, 3),
    attention,
    |queue, model| linear(queue, model, 1, 1),
    linear_gelu,
    |queue, model| linear(queue, model, 4, 1),
    logits,
    cross_entropy,
    cross_entropy_backward,
    copy_of_gradient,
    linear_gelu_backward_input,
    |queue, model| backward_weight(queue, model, 4, 1),
    |queue, model| backward_input(queue, model, 1, 4),
    |queue, model| backward_weight(queue, model, 1, 4),
    bias_backward,
    norm_backward_input,
    norm_backward_weight,
    attention_backward,
    norm_again,
    round,
    |queue, model| embedding_backward(queue, model, model.vocab_size),
    |queue, model| embedding_backward(queue, model, FEW_TOKENS.min(model.vocab_size)),
    positions_backward,
    cross_entropy_loss,
    add,
    add_squares,
    adamw,
    rope,
    head_norm,
    head_norm_backward_input,
    head_norm_backward_weight,
    swiglu,
    swiglu_backward,
];

/// Logits of a block of the head.
fn num_logits(model: &ModelShape) -> usize {
    block_tokens(model.vocab_size).min(model.vocab_size)
}

const HALF: ElementType = ElementType::Bf16;
const HALF_BYTES: usize = 2;
const F32_BYTES: usize = 4;

/// A kernel that is bound by what it moves.
fn moving(
    kernel: &'static str,
    model: &ModelShape,
    bytes: usize,
    call: impl FnMut(&dyn Queue) + 'static,
) -> Result<Case, Box<dyn Error>> {
    let shape = format!("{} x {}", model.num_rows(), model.width);
    Ok(Case { kernel, shape, bytes: bytes as f64, flops: 0.0, is_attention: false, call: Box::new(call) })
}

/// A product of factors in 16 bits.
fn product(
    kernel: &'static str,
    shape: LinearShape,
    out_bytes: usize,
    call: impl FnMut(&dyn Queue) + 'static,
) -> Result<Case, Box<dyn Error>> {
    let LinearShape { num_rows, num_inputs, num_outputs } = shape;
    let factors = match kernel {
        "linear_backward_weight" => num_rows * (num_inputs + num_outputs),
        "linear_backward_input" | "linear_gelu_backward_input" => num_outputs * (num_rows + num_inputs),
        _ => num_inputs * (num_rows + num_outputs),
    };
    Ok(Case {
        kernel,
        shape: format!("{num_rows} x {num_inputs} x {num_outputs}"),
        bytes: (HALF_BYTES * factors + out_bytes) as f64,
        flops: shape.flops() as f64,
        is_attention: false,
        call: Box::new(call),
    })
}

fn shape_of(model: &ModelShape, inputs: usize, outputs: usize) -> LinearShape {
    LinearShape {
        num_rows: model.num_rows(),
        num_inputs: inputs * model.width,
        num_outputs: outputs * model.width,
    }
}

fn embedding(queue: &dyn Queue, model: &ModelShape) -> Result<Case, Box<dyn Error>> {
    let tokens = words(queue, model.num_rows(), model.vocab_size)?;
    let (table, mut y) = (half(queue, model.vocab_size * model.width)?, half(queue, model.activation())?);
    moving("embedding", model, 2 * HALF_BYTES * model.activation(), move |queue| {
        queue.embedding(tokens.view(), 0, table.view(), y.view_mut());
    })
}

fn add_positions(queue: &dyn Queue, model: &ModelShape) -> Result<Case, Box<dyn Error>> {
    let ModelShape { seq_length, width, .. } = *model;
    let (table, mut y) = (half(queue, seq_length * width)?, half(queue, model.activation())?);
    let bytes = HALF_BYTES * (2 * model.activation() + seq_length * width);
    moving("add_positions", model, bytes, move |queue| {
        queue.add_positions(
            Positions { seq_length, document_starts: None },
            table.view(),
            y.view_mut(),
            width,
        );
    })
}

fn norm(queue: &dyn Queue, model: &ModelShape) -> Result<Case, Box<dyn Error>> {
    let (x, weight, bias) =
        (half(queue, model.activation())?, half(queue, model.width)?, half(queue, model.width)?);
    let (mut y, mut statistics) = (half(queue, model.activation())?, floats(queue, 2 * model.num_rows())?);
    moving("norm", model, 2 * HALF_BYTES * model.activation(), move |queue| {
        let affine = Affine { weight: weight.view(), bias: bias.view() };
        queue.norm(Norm::GPT2, x.view(), affine, y.view_mut(), statistics.view_mut());
    })
}

fn linear(
    queue: &dyn Queue,
    model: &ModelShape,
    inputs: usize,
    outputs: usize,
) -> Result<Case, Box<dyn Error>> {
    let shape = shape_of(model, inputs, outputs);
    let LinearShape { num_rows, num_inputs, num_outputs } = shape;
    let (x, weight) = (half(queue, num_rows * num_inputs)?, half(queue, num_inputs * num_outputs)?);
    let (bias, mut y) = (half(queue, num_outputs)?, half(queue, num_rows * num_outputs)?);
    product("linear", shape, HALF_BYTES * num_rows * num_outputs, move |queue| {
        queue.linear(shape, x.view(), weight.view(), Onto::Bias(bias.view()), y.view_mut());
    })
}

fn backward_input(
    queue: &dyn Queue,
    model: &ModelShape,
    inputs: usize,
    outputs: usize,
) -> Result<Case, Box<dyn Error>> {
    let shape = shape_of(model, inputs, outputs);
    let LinearShape { num_rows, num_inputs, num_outputs } = shape;
    let (dy, weight) = (half(queue, num_rows * num_outputs)?, half(queue, num_inputs * num_outputs)?);
    let mut dx = half(queue, num_rows * num_inputs)?;
    product("linear_backward_input", shape, HALF_BYTES * num_rows * num_inputs, move |queue| {
        queue.linear_backward_input(shape, dy.view(), weight.view(), dx.view_mut(), WriteMode::Overwrite);
    })
}

fn backward_weight(
    queue: &dyn Queue,
    model: &ModelShape,
    inputs: usize,
    outputs: usize,
) -> Result<Case, Box<dyn Error>> {
    let shape = shape_of(model, inputs, outputs);
    let LinearShape { num_rows, num_inputs, num_outputs } = shape;
    let (dy, x) = (half(queue, num_rows * num_outputs)?, half(queue, num_rows * num_inputs)?);
    let mut dweight = floats(queue, num_inputs * num_outputs)?;
    product("linear_backward_weight", shape, 2 * F32_BYTES * num_inputs * num_outputs, move |queue| {
        queue.linear_backward_weight(shape, dy.view(), x.view(), dweight.view_mut(), WriteMode::Add);
    })
}

fn attention_shape(model: &ModelShape) -> AttentionShape {
    AttentionShape {
        num_sequences: model.num_sequences,
        seq_length: model.seq_length,
        num_heads: model.num_heads,
        num_kv_heads: model.num_heads,
        head_size: model.width / model.num_heads,
    }
}

fn attention(queue: &dyn Queue, model: &ModelShape) -> Result<Case, Box<dyn Error>> {
    let shape = attention_shape(model);
    let (qkv, mut out) = (half(queue, 3 * model.activation())?, half(queue, model.activation())?);
    let mut log_sum_exp = floats(queue, shape.num_log_sum_exp())?;
    let mut workspace = floats(queue, shape.forward_workspace())?;
    let call = move |queue: &dyn Queue| {
        let (y, sums) = (out.view_mut(), log_sum_exp.view_mut());
        queue.attention(shape, AttentionMask::default(), qkv.view(), y, sums, workspace.view_mut());
    };
    let case = moving("attention", model, 4 * HALF_BYTES * model.activation(), call)?;
    Ok(Case { flops: shape.forward_flops() as f64, is_attention: true, ..case })
}

fn attention_backward(queue: &dyn Queue, model: &ModelShape) -> Result<Case, Box<dyn Error>> {
    let shape = attention_shape(model);
    let (mut qkv, out, dout) = (
        half(queue, 3 * model.activation())?,
        half(queue, model.activation())?,
        half(queue, model.activation())?,
    );
    let log_sum_exp = floats(queue, shape.num_log_sum_exp())?;
    let mut workspace = floats(queue, shape.backward_workspace())?;
    let call = move |queue: &dyn Queue| {
        let attended = Attended { out: out.view(), log_sum_exp: log_sum_exp.view() };
        let (qkv, workspace) = (qkv.view_mut(), workspace.view_mut());
        queue.attention_backward(shape, AttentionMask::default(), qkv, attended, dout.view(), workspace);
    };
    let case = moving("attention_backward", model, 8 * HALF_BYTES * model.activation(), call)?;
    // Five products where the forward has two.
    Ok(Case { flops: 2.5 * shape.forward_flops() as f64, is_attention: true, ..case })
}

fn linear_gelu(queue: &dyn Queue, model: &ModelShape) -> Result<Case, Box<dyn Error>> {
    let shape = shape_of(model, 1, 4);
    let LinearShape { num_rows, num_inputs, num_outputs } = shape;
    let (x, weight) = (half(queue, num_rows * num_inputs)?, half(queue, num_inputs * num_outputs)?);
    let (bias, mut hidden) = (half(queue, num_outputs)?, half(queue, num_rows * num_outputs)?);
    let mut y = half(queue, num_rows * num_outputs)?;
    product("linear_gelu", shape, 2 * HALF_BYTES * num_rows * num_outputs, move |queue| {
        let affine = Affine { weight: weight.view(), bias: bias.view() };
        queue.linear_gelu(shape, x.view(), affine, hidden.view_mut(), y.view_mut());
    })
}

/// The product reads what GELU was given, and a kernel then replaces that by GELU of it.
fn linear_gelu_backward_input(queue: &dyn Queue, model: &ModelShape) -> Result<Case, Box<dyn Error>> {
    let shape = shape_of(model, 4, 1);
    let LinearShape { num_rows, num_inputs, num_outputs } = shape;
    let (dy, weight) = (half(queue, num_rows * num_outputs)?, half(queue, num_inputs * num_outputs)?);
    let (mut hidden, mut dhidden) =
        (half(queue, num_rows * num_inputs)?, half(queue, num_rows * num_inputs)?);
    let bytes = 4 * HALF_BYTES * num_rows * num_inputs;
    product("linear_gelu_backward_input", shape, bytes, move |queue| {
        let (hidden, dhidden) = (hidden.view_mut(), dhidden.view_mut());
        queue.linear_gelu_backward_input(shape, dy.view(), weight.view(), hidden, dhidden);
    })
}

fn logits(queue: &dyn Queue, model: &ModelShape) -> Result<Case, Box<dyn Error>> {
    let num_outputs = num_logits(model);
    let shape = LinearShape { num_rows: model.num_rows(), num_inputs: model.width, num_outputs };
    let (x, weight) = (half(queue, model.activation())?, half(queue, model.width * num_outputs)?);
    let mut logits = floats(queue, shape.num_rows * num_outputs)?;
    product("linear", shape, F32_BYTES * shape.num_rows * num_outputs, move |queue| {
        queue.linear(shape, x.view(), weight.view(), Onto::Nothing, logits.view_mut());
    })
}

fn cross_entropy(queue: &dyn Queue, model: &ModelShape) -> Result<Case, Box<dyn Error>> {
    let num_logits = model.num_rows() * num_logits(model);
    let (logits, targets) = (floats(queue, num_logits)?, words(queue, model.num_rows(), model.vocab_size)?);
    let mut statistics = floats(queue, NUM_STATISTICS * model.num_rows())?;
    moving("cross_entropy", model, F32_BYTES * num_logits, move |queue| {
        queue.cross_entropy(0, logits.view(), targets.view(), statistics.view_mut());
    })
}

fn cross_entropy_backward(queue: &dyn Queue, model: &ModelShape) -> Result<Case, Box<dyn Error>> {
    let num_logits = model.num_rows() * num_logits(model);
    let (mut logits, targets) =
        (floats(queue, num_logits)?, words(queue, model.num_rows(), model.vocab_size)?);
    let statistics = floats(queue, NUM_STATISTICS * model.num_rows())?;
    moving("cross_entropy_backward", model, (F32_BYTES + HALF_BYTES) * num_logits, move |queue| {
        queue.cross_entropy_backward(0, logits.view_mut(), targets.view(), statistics.view(), 1e-6, HALF);
    })
}

fn copy_of_gradient(queue: &dyn Queue, model: &ModelShape) -> Result<Case, Box<dyn Error>> {
    let (gradient, mut doutput) = (floats(queue, model.activation())?, half(queue, model.activation())?);
    moving("copy", model, (F32_BYTES + HALF_BYTES) * model.activation(), move |queue| {
        queue.copy(gradient.view(), doutput.view_mut());
    })
}

fn bias_backward(queue: &dyn Queue, model: &ModelShape) -> Result<Case, Box<dyn Error>> {
    let (dy, mut dbias) = (half(queue, 4 * model.activation())?, floats(queue, 4 * model.width)?);
    moving("bias_backward", model, 4 * HALF_BYTES * model.activation(), move |queue| {
        queue.bias_backward(dy.view(), dbias.view_mut(), WriteMode::Add);
    })
}

fn norm_backward_input(queue: &dyn Queue, model: &ModelShape) -> Result<Case, Box<dyn Error>> {
    let (x, weight, dy) =
        (half(queue, model.activation())?, half(queue, model.width)?, half(queue, model.activation())?);
    let (statistics, mut dx) = (floats(queue, 2 * model.num_rows())?, floats(queue, model.activation())?);
    let bytes = 2 * (HALF_BYTES + F32_BYTES) * model.activation();
    moving("norm_backward_input", model, bytes, move |queue| {
        let of = NormGradient { x: x.view(), statistics: statistics.view(), dy: dy.view() };
        queue.norm_backward_input(Norm::GPT2, of, weight.view(), dx.view_mut(), WriteMode::Add);
    })
}

fn norm_backward_weight(queue: &dyn Queue, model: &ModelShape) -> Result<Case, Box<dyn Error>> {
    let (x, dy) = (half(queue, model.activation())?, half(queue, model.activation())?);
    let statistics = floats(queue, 2 * model.num_rows())?;
    let (mut dweight, mut dbias) = (floats(queue, model.width)?, floats(queue, model.width)?);
    moving("norm_backward_weight", model, 2 * HALF_BYTES * model.activation(), move |queue| {
        let (dweight, dbias) = (dweight.view_mut(), dbias.view_mut());
        let of = NormGradient { x: x.view(), statistics: statistics.view(), dy: dy.view() };
        queue.norm_backward_weight(Norm::GPT2, of, dweight, dbias, WriteMode::Overwrite);
    })
}

/// Different tokens of a text of bytes, about.
const FEW_TOKENS: usize = 64;

/// Rows of the same token are added one after the other, so that the time depends on how many different tokens there are.
fn embedding_backward(
    queue: &dyn Queue,
    model: &ModelShape,
    num_tokens: usize,
) -> Result<Case, Box<dyn Error>> {
    let tokens = words(queue, model.num_rows(), num_tokens)?;
    let (dy, mut table) = (half(queue, model.activation())?, floats(queue, model.vocab_size * model.width)?);
    let bytes = (HALF_BYTES + 2 * F32_BYTES) * model.activation();
    let case = moving("embedding_backward", model, bytes, move |queue| {
        queue.embedding_backward(tokens.view(), 0, dy.view(), table.view_mut(), WriteMode::Add);
    })?;
    Ok(Case { shape: format!("{} of {num_tokens} tokens", case.shape), ..case })
}

fn positions_backward(queue: &dyn Queue, model: &ModelShape) -> Result<Case, Box<dyn Error>> {
    let ModelShape { seq_length, width, .. } = *model;
    let (dy, mut table) = (half(queue, model.activation())?, floats(queue, seq_length * width)?);
    let bytes = HALF_BYTES * model.activation() + 2 * F32_BYTES * seq_length * width;
    moving("positions_backward", model, bytes, move |queue| {
        let positions = Positions { seq_length, document_starts: None };
        queue.positions_backward(positions, dy.view(), table.view_mut(), width, WriteMode::Add);
    })
}

fn cross_entropy_loss(queue: &dyn Queue, model: &ModelShape) -> Result<Case, Box<dyn Error>> {
    let targets = words(queue, model.num_rows(), model.vocab_size)?;
    let mut statistics = floats(queue, NUM_STATISTICS * model.num_rows())?;
    let mut loss = queue.zeros(LossSum::NUM_WORDS, ElementType::U32)?;
    let bytes = 2 * F32_BYTES * NUM_STATISTICS * model.num_rows();
    moving("cross_entropy_loss", model, bytes, move |queue| {
        queue.cross_entropy_loss(targets.view(), statistics.view_mut(), loss.view_mut());
    })
}

fn norm_again(queue: &dyn Queue, model: &ModelShape) -> Result<Case, Box<dyn Error>> {
    let (x, weight, bias) =
        (half(queue, model.activation())?, half(queue, model.width)?, half(queue, model.width)?);
    let (statistics, mut y) = (floats(queue, 2 * model.num_rows())?, half(queue, model.activation())?);
    moving("norm_again", model, 2 * HALF_BYTES * model.activation(), move |queue| {
        let affine = Affine { weight: weight.view(), bias: bias.view() };
        queue.norm_again(Norm::GPT2, x.view(), affine, statistics.view(), y.view_mut());
    })
}

fn round(queue: &dyn Queue, model: &ModelShape) -> Result<Case, Box<dyn Error>> {
    let mut gradient = floats(queue, model.activation())?;
    moving("round", model, 2 * F32_BYTES * model.activation(), move |queue| {
        queue.round(gradient.view_mut(), HALF);
    })
}

fn add(queue: &dyn Queue, model: &ModelShape) -> Result<Case, Box<dyn Error>> {
    let len = model.vocab_size * model.width;
    let (term, mut sum) = (floats(queue, len)?, floats(queue, len)?);
    moving("add", model, 3 * F32_BYTES * len, move |queue| queue.add(term.view(), sum.view_mut()))
}

/// Parameters of a block, as an optimizer's shard of one rank has them.
fn num_parameters(model: &ModelShape) -> usize {
    12 * model.width * model.width
}

fn add_squares(queue: &dyn Queue, model: &ModelShape) -> Result<Case, Box<dyn Error>> {
    let len = num_parameters(model);
    let (gradients, mut squares) = (floats(queue, len)?, queue.zeros(20, ElementType::U32)?);
    moving("add_squares", model, F32_BYTES * len, move |queue| {
        queue.add_squares(gradients.view(), squares.view_mut());
    })
}

fn adamw(queue: &dyn Queue, model: &ModelShape) -> Result<Case, Box<dyn Error>> {
    let len = num_parameters(model);
    let (mut parameters, gradients) = (floats(queue, len)?, floats(queue, len)?);
    let (mut first, mut second) = (floats(queue, len)?, floats(queue, len)?);
    moving("adamw", model, 7 * F32_BYTES * len, move |queue| {
        let step = AdamWStep {
            gradient_scale: 1.0,
            lr: 1e-4,
            betas: (0.9, 0.95),
            eps: 1e-8,
            weight_decay: 0.1,
            step: 3,
        };
        let moments = [first.view_mut(), second.view_mut()];
        queue.adamw(step, parameters.view_mut(), gradients.view(), moments);
    })
}

fn rope(queue: &dyn Queue, model: &ModelShape) -> Result<Case, Box<dyn Error>> {
    let shape = attention_shape(model);
    let frequencies = vec![0.5; shape.head_size / 2];
    let (rope, mut qkv) =
        (Rope { frequencies: frequencies.into(), scale: 1.0 }, half(queue, 3 * model.activation())?);
    moving("rope", model, 4 * HALF_BYTES * model.activation(), move |queue| {
        let rotation = Rotation { rope: &rope, turn: Turn::Forward, document_starts: None };
        queue.rope(shape, rotation, qkv.view_mut());
    })
}

fn head_norm(queue: &dyn Queue, model: &ModelShape) -> Result<Case, Box<dyn Error>> {
    let shape = attention_shape(model);
    let (queries, keys) = (half(queue, shape.head_size)?, half(queue, shape.head_size)?);
    let (x, mut y) = (half(queue, 3 * model.activation())?, half(queue, 3 * model.activation())?);
    moving("head_norm", model, 6 * HALF_BYTES * model.activation(), move |queue| {
        let weights = HeadWeights { queries: queries.view(), keys: keys.view() };
        queue.head_norm(shape, 1e-6, x.view(), weights, y.view_mut());
    })
}

fn head_norm_backward_input(queue: &dyn Queue, model: &ModelShape) -> Result<Case, Box<dyn Error>> {
    let shape = attention_shape(model);
    let (queries, keys) = (half(queue, shape.head_size)?, half(queue, shape.head_size)?);
    let (mut x, dy) = (half(queue, 3 * model.activation())?, half(queue, 3 * model.activation())?);
    // The values of `x` are not read.
    moving("head_norm_backward_input", model, 8 * HALF_BYTES * model.activation(), move |queue| {
        let weights = HeadWeights { queries: queries.view(), keys: keys.view() };
        queue.head_norm_backward_input(shape, 1e-6, x.view_mut(), weights, dy.view());
    })
}

fn head_norm_backward_weight(queue: &dyn Queue, model: &ModelShape) -> Result<Case, Box<dyn Error>> {
    let shape = attention_shape(model);
    let (x, dy) = (half(queue, 3 * model.activation())?, half(queue, 3 * model.activation())?);
    let (mut dqueries, mut dkeys) = (floats(queue, shape.head_size)?, floats(queue, shape.head_size)?);
    moving("head_norm_backward_weight", model, 4 * HALF_BYTES * model.activation(), move |queue| {
        let dweights = [dqueries.view_mut(), dkeys.view_mut()];
        queue.head_norm_backward_weight(shape, 1e-6, x.view(), dy.view(), dweights, WriteMode::Add);
    })
}

fn swiglu(queue: &dyn Queue, model: &ModelShape) -> Result<Case, Box<dyn Error>> {
    let (x, mut y) = (half(queue, 8 * model.activation())?, half(queue, 4 * model.activation())?);
    let width = 4 * model.width;
    moving("swiglu", model, 12 * HALF_BYTES * model.activation(), move |queue| {
        queue.swiglu(x.view(), y.view_mut(), width);
    })
}

fn swiglu_backward(queue: &dyn Queue, model: &ModelShape) -> Result<Case, Box<dyn Error>> {
    let (mut x, mut dy) = (half(queue, 8 * model.activation())?, half(queue, 4 * model.activation())?);
    let width = 4 * model.width;
    moving("swiglu_backward", model, 24 * HALF_BYTES * model.activation(), move |queue| {
        queue.swiglu_backward(x.view_mut(), dy.view_mut(), width);
    })
}
