//! Token and position embedding in one layer, for models whose head has its own weight.

use crate::kernels::dropout::{self, Dropout, Place};
use crate::kernels::embedding;
use crate::layer::*;
use crate::layout;
use crate::parameter::ParameterSpec;
use crate::shared::GptConfig;

/// `y[b, t] = dropout(wte[tokens[b, t]] + wpe[t])`.
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
        LayerSizes { output, weight_inputs: output, ..LayerSizes::default() }
    }

    fn backward_reads_weights(&self) -> bool {
        false
    }

    fn forward(&self, shape: MicroBatchShape, args: ForwardArgs<'_>) -> Option<LossSum> {
        let [tokens, positions] = layout::split(args.parameters, self.parameter_lens());
        embedding::forward(args.tokens.inputs, tokens, args.output);
        embedding::add_positions(shape.seq_length, positions, args.output, self.width);
        if let Some(masks) = args.tokens.masks_of(self.dropout, shape) {
            dropout::apply(masks, args.output, self.width);
        }
        None
    }

    /// Nothing is saved.
    fn recompute(&self, _: MicroBatchShape, _: RecomputeArgs<'_>) {}

    fn backward_input(&self, shape: MicroBatchShape, args: BackwardInputArgs<'_>) {
        args.weight_inputs.copy_from_slice(args.gradient);
        if let Some(masks) = args.tokens.masks_of(self.dropout, shape) {
            dropout::apply(masks, args.weight_inputs, self.width);
        }
    }

    fn backward_weight(&self, shape: MicroBatchShape, args: BackwardWeightArgs<'_>) {
        let [tokens, positions] = layout::split_mut(args.parameter_gradients, self.parameter_lens());
        embedding::backward(args.tokens.inputs, args.weight_inputs, tokens);
        embedding::backward_positions(shape.seq_length, args.weight_inputs, positions, self.width);
    }
}
