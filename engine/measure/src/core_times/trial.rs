//! One layer, computed forward and backward on memory of its own, and how long that takes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pipezero_models::layer::{GradientView, LossSum, MaskKey, MicroBatchShape, Tokens};
use pipezero_models::unit::{UnitBackward, UnitBackwardInput, UnitBackwardWeight, UnitForward, UnitSizes};
use pipezero_models::views::PartViews;
use pipezero_models::{Buffer, ElementType, Host, Layer, ModelError, Queue, Unit};
use pipezero_plan::Plan;
use pipezero_plan::costs::{CorePasses, DeviceSpec, LayerKey};

/// The longest time that all passes over one layer may take, estimated from the rates that are assumed of a CPU.
const LONGEST_OF_LAYER_S: f64 = 0.02;
/// A layer with more parameters is not computed.
const PARAMETERS_MAX: usize = 4 << 20;
/// A layer is computed on at least as many tokens: fewer say little.
pub(super) const TOKENS_MIN: usize = 16;

/// A layer with all that its passes work on.
pub(super) struct Trial {
    pub(super) key: LayerKey,
    unit: Unit,
    shape: MicroBatchShape,
    /// How many times as much work a micro-batch of the run is.
    scale: f64,
    masks: MaskKey,
    parameters: Buffer,
    parameter_gradients: Buffer,
    tokens: [Buffer; 2],
    document_starts: Option<Buffer>,
    loss_inputs: Option<Buffer>,
    input: Buffer,
    output: Buffer,
    saved: Buffer,
    weight_inputs: Buffer,
    gradient: Buffer,
    recomputed: Buffer,
    workspace: Buffer,
    loss: Buffer,
    /// How long the forward and each half of the backward have taken in all.
    total: [Duration; 3],
    /// Rounds of forward and backward that count.
    num_rounds: u32,
}

impl Trial {
    /// `None` where the layer is too large, or needs what only a run has.
    pub(super) fn new(
        plan: &Plan,
        layer: &Arc<dyn Layer>,
        key: LayerKey,
    ) -> Result<Option<Self>, ModelError> {
        let stored = plan.element_type();
        let unit = Unit::new(vec![Arc::clone(layer)]).with_precision(stored);
        let whole = plan.micro_batch_shape();
        let Some(shape) = shape_of(&**layer, whole) else { return Ok(None) };
        if unit.num_elements() > PARAMETERS_MAX || unit.input_encoder().is_some() {
            return Ok(None);
        }
        let work = |shape: MicroBatchShape| match layer.forward_flops(shape) {
            0 => shape.num_tokens() as f64,
            flops => flops as f64,
        };
        let UnitSizes { input, output, saved, weight_inputs, workspace, gradient, .. } = unit.sizes(shape);
        let zeros = |len| Host.zeros(len, stored);
        let wide = |len| Host.zeros(len, ElementType::F32);
        let words = |len| Host.zeros(len, ElementType::U32);
        let num_tokens = shape.num_tokens();
        let reads = plan.run().data.document_attention;
        let num_loss_inputs = layer.loss_inputs().per_token * num_tokens;
        let mut trial = Self {
            key,
            shape,
            scale: work(whole) / work(shape),
            masks: MaskKey { seed: plan.run().seed, step: 1, first_sequence: 0 },
            parameters: zeros(unit.num_elements())?,
            parameter_gradients: wide(unit.num_elements())?,
            tokens: [words(num_tokens)?, words(num_tokens)?],
            document_starts: if reads { Some(words(num_tokens)?) } else { None },
            loss_inputs: if num_loss_inputs > 0 { Some(wide(num_loss_inputs)?) } else { None },
            input: zeros(input)?,
            output: zeros(output)?,
            saved: zeros(saved)?,
            weight_inputs: zeros(weight_inputs)?,
            gradient: wide(gradient)?,
            recomputed: zeros(0)?,
            workspace: wide(workspace)?,
            loss: words(LossSum::NUM_WORDS * (1 + plan.loss_parts().len()))?,
            total: [Duration::ZERO; 3],
            num_rounds: 0,
            unit,
        };
        fill(&mut trial.parameters)?;
        fill(&mut trial.input)?;
        let tokens: Vec<u32> =
            (0..num_tokens).map(|token| (token * 7 % plan.vocab_size().max(1)) as u32).collect();
        for of in &mut trial.tokens {
            Host.upload(&tokens, of.view_mut());
        }
        Ok(Some(trial))
    }

    pub(super) fn forward(&mut self) {
        let Self { unit, shape, parameters, input, output, saved, recomputed, workspace, loss, .. } = self;
        let tokens =
            tokens_of(&self.tokens, self.document_starts.as_ref(), self.loss_inputs.as_ref(), self.masks);
        let (parameters, loss) = (parameters.view().into(), loss.view_mut());
        let args = UnitForward {
            tokens,
            parameters,
            input,
            output,
            saved,
            recomputed,
            workspace,
            loss,
            row_logits: None,
        };
        let start = Instant::now();
        unit.forward(&Host, *shape, args);
        self.total[0] += start.elapsed();
    }

    pub(super) fn backward(&mut self) {
        let Self { unit, shape, saved, recomputed, workspace, weight_inputs, gradient, .. } = self;
        let tokens =
            tokens_of(&self.tokens, self.document_starts.as_ref(), self.loss_inputs.as_ref(), self.masks);
        let loss_seed = 1e-3;
        let parameters: PartViews<'_> = self.parameters.view().into();
        if !unit.has_halves() {
            let to = GradientView::overwriting(self.parameter_gradients.view_mut());
            let args = UnitBackward {
                tokens,
                parameters,
                gradient,
                saved,
                recomputed,
                parameter_gradients: to.into(),
                workspace,
                loss_seed,
            };
            let start = Instant::now();
            unit.backward(&Host, *shape, args);
            // Nobody runs its halves.
            let half = start.elapsed() / 2;
            self.total[1] += half;
            self.total[2] += half;
            self.num_rounds += 1;
            return;
        }
        let args =
            UnitBackwardInput { tokens, parameters, gradient, saved, weight_inputs, workspace, loss_seed };
        let start = Instant::now();
        unit.backward_input(&Host, *shape, args);
        self.total[1] += start.elapsed();
        let to = GradientView::overwriting(self.parameter_gradients.view_mut());
        let args =
            UnitBackwardWeight { tokens, saved, weight_inputs, parameter_gradients: to.into(), workspace };
        let start = Instant::now();
        unit.backward_weight(&Host, *shape, args);
        self.total[2] += start.elapsed();
        self.num_rounds += 1;
    }

    /// Forgets what was measured so far.
    pub(super) fn begin_again(&mut self) {
        self.total = [Duration::ZERO; 3];
        self.num_rounds = 0;
    }

    /// Bytes of all that it works on, counted as if every element were an f32.
    pub(super) fn num_bytes(&self) -> usize {
        let buffers = [&self.parameters, &self.parameter_gradients, &self.input, &self.output, &self.saved];
        let more = [&self.weight_inputs, &self.gradient, &self.workspace];
        let num_elements: usize = buffers.into_iter().chain(more).map(|buffer| buffer.len()).sum();
        num_elements * ElementType::F32.num_bytes()
    }

    /// The time of a micro-batch of the run.
    pub(super) fn passes(&self) -> CorePasses {
        let scale = self.scale / f64::from(self.num_rounds.max(1));
        let [forward_ns, backward_input_ns, backward_weight_ns] =
            self.total.map(|time| time.as_nanos() as f64 * scale);
        CorePasses { forward_ns, backward_input_ns, backward_weight_ns }
    }
}

fn tokens_of<'a>(
    [inputs, targets]: &'a [Buffer; 2],
    document_starts: Option<&'a Buffer>,
    loss_inputs: Option<&'a Buffer>,
    masks: MaskKey,
) -> Tokens<'a> {
    Tokens {
        inputs: inputs.view(),
        targets: targets.view(),
        document_starts: document_starts.map(Buffer::view),
        loss_inputs: loss_inputs.map(Buffer::view),
        masks: Some(masks),
        encoder_inputs: None,
    }
}

/// The most tokens of a micro-batch that the layer may compute in time; `None` where even few take too long.
pub(super) fn shape_of(layer: &dyn Layer, whole: MicroBatchShape) -> Option<MicroBatchShape> {
    let cpu = DeviceSpec::this_cpu();
    let takes_s = |shape| {
        let flops = layer.forward_flops(shape) as f64 + layer.backward_flops(shape) as f64;
        flops / cpu.f32_flops_per_s
    };
    let mut shape = whole;
    while takes_s(shape) > LONGEST_OF_LAYER_S {
        if shape.num_sequences > 1 {
            shape.num_sequences = shape.num_sequences.div_ceil(2);
        } else if shape.seq_length / 2 >= TOKENS_MIN {
            shape.seq_length /= 2;
        } else {
            return None;
        }
    }
    Some(shape)
}

/// Small numbers of both signs: products of zeros may be quicker, and those of denormal numbers slower, than what a run computes.
pub(super) fn fill(buffer: &mut Buffer) -> Result<(), ModelError> {
    let values: Vec<f32> = (0..buffer.len()).map(|at| 0.02 * (at % 13) as f32 - 0.12).collect();
    let mut wide = Host.zeros(values.len(), ElementType::F32)?;
    Host.upload_floats(&values, wide.view_mut());
    Host.copy(wide.view(), buffer.view_mut());
    Ok(())
}
