//! The token embedding as a separate layer: where its table is tied to the head, and in models without positions.

use super::GptConfig;
use crate::layer::*;
use crate::parameter::ParameterSpec;
use crate::queue::Queue;

/// `y = wte[tokens]`.
///
/// Parameters: `wte.weight [V, C]`.
#[derive(Debug)]
pub struct TokenEmbedding {
    vocab_size: usize,
    width: usize,
    init_std: f32,
}

impl TokenEmbedding {
    /// The layer of a model with this configuration.
    pub fn new(config: &GptConfig) -> Self {
        Self { vocab_size: config.vocab_size, width: config.hidden_size, init_std: config.init_std as f32 }
    }
}

impl Layer for TokenEmbedding {
    fn name(&self) -> &str {
        "wte"
    }

    fn parameters(&self) -> Vec<ParameterSpec> {
        vec![ParameterSpec::normal("wte.weight", [self.vocab_size, self.width], self.init_std)]
    }

    fn sizes(&self, shape: MicroBatchShape) -> LayerSizes {
        let output = shape.num_tokens() * self.width;
        LayerSizes { output, weight_inputs: output, ..LayerSizes::default() }
    }

    fn backward_reads_weights(&self) -> bool {
        false
    }

    fn forward(&self, queue: &dyn Queue, _: MicroBatchShape, args: ForwardArgs<'_>) {
        queue.embedding(args.tokens.inputs, args.parameters, args.output);
    }

    /// Nothing is saved.
    fn recompute(&self, _: &dyn Queue, _: MicroBatchShape, _: RecomputeArgs<'_>) {}

    fn backward_input(&self, queue: &dyn Queue, _: MicroBatchShape, args: BackwardInputArgs<'_>) {
        queue.copy(args.gradient.view(), args.weight_inputs);
    }

    fn backward_weight(&self, queue: &dyn Queue, _: MicroBatchShape, args: BackwardWeightArgs<'_>) {
        let sum = args.parameter_gradients;
        queue.embedding_backward(args.tokens.inputs, args.weight_inputs, sum, args.mode);
    }
}
