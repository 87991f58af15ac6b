//! The token embedding.

use std::ops::Range;

use super::GptConfig;
use super::vocabulary::{name_of, tokens_of};
use crate::layer::*;
use crate::parameter::ParameterSpec;
use crate::queue::Queue;

/// `y = wte[tokens]`, or a slice of it: the rows of `y` whose tokens are the slice's.
///
/// Parameters: `wte.weight [V, C]`, or the slice's rows of it.
#[derive(Debug)]
pub struct TokenEmbedding {
    name: String,
    slice: Slice,
    tokens: Range<usize>,
    vocab_size: usize,
    width: usize,
    init_std: f32,
}

impl TokenEmbedding {
    /// The layer of a model with this configuration, or a slice of it.
    pub fn new(config: &GptConfig, slice: Slice) -> Self {
        Self {
            name: name_of(slice, "wte"),
            slice,
            tokens: tokens_of(slice, config.vocab_size),
            vocab_size: config.vocab_size,
            width: config.hidden_size,
            init_std: config.init_std as f32,
        }
    }

    fn first_token(&self) -> u32 {
        self.tokens.start as u32
    }
}

impl Layer for TokenEmbedding {
    fn name(&self) -> &str {
        &self.name
    }

    fn parameters(&self) -> Vec<ParameterSpec> {
        let table = ParameterSpec::normal("wte.weight", [self.vocab_size, self.width], self.init_std);
        vec![table.with_rows(self.tokens.clone())]
    }

    fn sizes(&self, shape: MicroBatchShape) -> LayerSizes {
        let output = shape.num_tokens() * self.width;
        LayerSizes { output, weight_inputs: output, ..LayerSizes::default() }
    }

    fn table_slice(&self) -> Slice {
        self.slice
    }

    fn backward_reads_weights(&self) -> bool {
        false
    }

    fn forward(&self, queue: &dyn Queue, _: MicroBatchShape, args: ForwardArgs<'_>) {
        queue.embedding(args.tokens.inputs, self.first_token(), args.parameters.only(), args.output);
    }

    /// Nothing is saved.
    fn recompute(&self, _: &dyn Queue, _: MicroBatchShape, _: RecomputeArgs<'_>) {}

    /// The gradient stays as it is for the slices that follow, and each of them leaves the same for the weight gradients.
    fn backward_input(&self, queue: &dyn Queue, _: MicroBatchShape, args: BackwardInputArgs<'_>) {
        queue.copy(args.gradient.view(), args.weight_inputs);
    }

    fn backward_weight(&self, queue: &dyn Queue, _: MicroBatchShape, args: BackwardWeightArgs<'_>) {
        let (doutput, sum) = (args.weight_inputs, args.parameter_gradients.only());
        queue.embedding_backward(args.tokens.inputs, self.first_token(), doutput, sum.to, sum.mode);
    }
}
