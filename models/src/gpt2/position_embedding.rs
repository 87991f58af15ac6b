//! The position embedding as a separate layer, for models whose token table is tied to the head.

use crate::kernels::dropout::{Dropout, Place};
use crate::layer::*;
use crate::parameter::ParameterSpec;
use crate::queue::{Positions, Queue};
use crate::shared::GptConfig;

/// `y[b, t] = dropout(x[b, t] + wpe[p])`, with the position number `p` of the token in its document.
///
/// Parameters: `wpe.weight [T, C]`.
#[derive(Debug)]
pub struct PositionEmbedding {
    seq_length: usize,
    width: usize,
    init_std: f32,
    dropout: Option<Dropout>,
}

impl PositionEmbedding {
    /// The layer of a model with this configuration.
    pub fn new(config: &GptConfig) -> Self {
        Self {
            seq_length: config.seq_length,
            width: config.hidden_size,
            init_std: config.init_std as f32,
            dropout: Dropout::new(config.dropout, Place::Embedding),
        }
    }
}

impl Layer for PositionEmbedding {
    fn name(&self) -> &str {
        "wpe"
    }

    fn parameters(&self) -> Vec<ParameterSpec> {
        vec![ParameterSpec::normal("wpe.weight", [self.seq_length, self.width], self.init_std)]
    }

    fn sizes(&self, shape: MicroBatchShape) -> LayerSizes {
        let activation = shape.num_tokens() * self.width;
        LayerSizes {
            input: activation,
            output: activation,
            exact_weight_inputs: shape.seq_length * self.width,
            ..LayerSizes::default()
        }
    }

    fn backward_reads_weights(&self) -> bool {
        false
    }

    fn forward(&self, queue: &dyn Queue, shape: MicroBatchShape, args: ForwardArgs<'_>) {
        let mut output = args.output;
        queue.copy(args.input, output.reborrow());
        queue.add_positions(
            args.tokens.positions(shape),
            args.parameters.only(),
            output.reborrow(),
            self.width,
        );
        if let Some(masks) = args.tokens.masks_of(self.dropout, shape) {
            queue.dropout(masks, output, self.width);
        }
    }

    /// Nothing is saved.
    fn recompute(&self, _: &dyn Queue, _: MicroBatchShape, _: RecomputeArgs<'_>) {}

    /// The gradient passes through as it is, but for what was dropped. What each position gets is summed here already: the
    /// weight-gradient input is then as small as one sequence.
    fn backward_input(&self, queue: &dyn Queue, shape: MicroBatchShape, args: BackwardInputArgs<'_>) {
        let (mut gradient, dpositions) = (args.gradient, args.exact_weight_inputs);
        if let Some(masks) = args.tokens.masks_of(self.dropout, shape) {
            queue.dropout(masks, gradient.reborrow(), self.width);
        }
        let mode = WriteMode::Overwrite;
        queue.positions_backward(args.tokens.positions(shape), gradient.view(), dpositions, self.width, mode);
    }

    fn backward_weight(&self, queue: &dyn Queue, shape: MicroBatchShape, args: BackwardWeightArgs<'_>) {
        let (dpositions, sum) = (args.exact_weight_inputs, args.parameter_gradients.only());
        queue.positions_backward(Positions::of_rows(shape), dpositions, sum.to, self.width, sum.mode);
    }
}
