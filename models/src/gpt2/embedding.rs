//! Token and position embedding in one layer, for models whose head has its own weight and whose tables are not cut. To the bit
//! what [`TokenEmbedding`](crate::shared::TokenEmbedding) and [`PositionEmbedding`](super::PositionEmbedding) do one after the other,
//! without keeping what goes from one to the other.

use crate::kernels::dropout::{Dropout, Place};
use crate::layer::*;
use crate::parameter::ParameterSpec;
use crate::queue::{Positions, Queue};
use crate::shared::GptConfig;

/// `y[b, t] = dropout(wte[tokens[b, t]] + wpe[p])`, with the position number `p` of the token in its document.
///
/// Parameters: `wte.weight [V, C]`, `wpe.weight [T, C]`.
#[derive(Debug)]
pub struct Embedding {
    vocab_size: usize,
    seq_length: usize,
    width: usize,
    init_std: f32,
    dropout: Option<Dropout>,
}

impl Embedding {
    /// The layer of a model with this configuration.
    pub fn new(config: &GptConfig) -> Self {
        Self {
            vocab_size: config.vocab_size,
            seq_length: config.seq_length,
            width: config.hidden_size,
            init_std: config.init_std as f32,
            dropout: Dropout::new(config.dropout, Place::Embedding),
        }
    }

    /// Elements of the parameters in order.
    fn parameter_lens(&self) -> [usize; 2] {
        [self.vocab_size * self.width, self.seq_length * self.width]
    }
}

impl Layer for Embedding {
    fn name(&self) -> &str {
        "embedding"
    }

    fn parameters(&self) -> Vec<ParameterSpec> {
        vec![
            ParameterSpec::normal("wte.weight", [self.vocab_size, self.width], self.init_std),
            ParameterSpec::normal("wpe.weight", [self.seq_length, self.width], self.init_std),
        ]
    }

    fn sizes(&self, shape: MicroBatchShape) -> LayerSizes {
        let output = shape.num_tokens() * self.width;
        LayerSizes {
            output,
            // The output's gradient, and its sum over the sequences.
            weight_inputs: output,
            exact_weight_inputs: shape.seq_length * self.width,
            ..LayerSizes::default()
        }
    }

    fn backward_reads_weights(&self) -> bool {
        false
    }

    fn forward(&self, queue: &dyn Queue, shape: MicroBatchShape, args: ForwardArgs<'_>) {
        let [tokens, positions] = args.parameters.split(self.parameter_lens());
        let mut output = args.output;
        queue.embedding(args.tokens.inputs, 0, tokens, output.reborrow());
        queue.add_positions(args.tokens.positions(shape), positions, output.reborrow(), self.width);
        if let Some(masks) = args.tokens.masks_of(self.dropout, shape) {
            queue.dropout(masks, output, self.width);
        }
    }

    /// Nothing is saved.
    fn recompute(&self, _: &dyn Queue, _: MicroBatchShape, _: RecomputeArgs<'_>) {}

    fn backward_input(&self, queue: &dyn Queue, shape: MicroBatchShape, args: BackwardInputArgs<'_>) {
        let (mut gradient, dpositions) = (args.gradient, args.exact_weight_inputs);
        if let Some(masks) = args.tokens.masks_of(self.dropout, shape) {
            queue.dropout(masks, gradient.reborrow(), self.width);
        }
        let mode = WriteMode::Overwrite;
        queue.positions_backward(args.tokens.positions(shape), gradient.view(), dpositions, self.width, mode);
        // Rounded after that where it is stored in 16 bits, as a `TokenEmbedding` behind a `PositionEmbedding` does.
        queue.copy(gradient.view(), args.weight_inputs);
    }

    fn backward_weight(&self, queue: &dyn Queue, shape: MicroBatchShape, args: BackwardWeightArgs<'_>) {
        let BackwardWeightArgs { weight_inputs: doutput, exact_weight_inputs: dpositions, .. } = args;
        let [tokens, positions] = args.parameter_gradients.split(self.parameter_lens());
        if let Some(GradientView { to, mode }) = tokens {
            queue.embedding_backward(args.tokens.inputs, 0, doutput, to, mode);
        }
        if let Some(GradientView { to, mode }) = positions {
            queue.positions_backward(Positions::of_rows(shape), dpositions, to, self.width, mode);
        }
    }
}
