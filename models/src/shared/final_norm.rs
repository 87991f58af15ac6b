//! The norm before the head.

use crate::kernels::norm::{Norm, NormKind};
use crate::layer::*;
use crate::layout;
use crate::parameter::ParameterSpec;
use crate::queue::{Affine, NormGradient, Queue};

/// `y = ln_f(x)`.
///
/// Parameters: `ln_f.weight [C]`, `ln_f.bias [C]` but for an RMS norm. Kept for the backward: the statistics.
#[derive(Debug)]
pub struct FinalNorm {
    norm: Norm,
    width: usize,
}

impl FinalNorm {
    /// The layer of a model whose residual stream has this width.
    pub fn new(norm: Norm, width: usize) -> Self {
        Self { norm, width }
    }

    /// Elements of the parameters in order.
    fn parameter_lens(&self) -> [usize; 2] {
        [self.width, self.norm.num_biases(self.width)]
    }
}

impl Layer for FinalNorm {
    fn name(&self) -> &str {
        "ln_f"
    }

    fn parameters(&self) -> Vec<ParameterSpec> {
        let bias =
            (self.norm.kind == NormKind::Layer).then(|| ParameterSpec::zeros("ln_f.bias", [self.width]));
        [Some(ParameterSpec::ones("ln_f.weight", [self.width])), bias].into_iter().flatten().collect()
    }

    fn sizes(&self, shape: MicroBatchShape) -> LayerSizes {
        let activation = shape.num_tokens() * self.width;
        LayerSizes {
            input: activation,
            output: activation,
            exact: 2 * shape.num_tokens(),
            // The gradients of the parameters.
            exact_weight_inputs: layout::extent(self.parameter_lens()),
            backward_workspace: activation,
            ..LayerSizes::default()
        }
    }

    fn forward(&self, queue: &dyn Queue, _: MicroBatchShape, args: ForwardArgs<'_>) {
        let [weight, bias] = args.parameters.split(self.parameter_lens());
        queue.norm(self.norm, args.input, Affine { weight, bias }, args.output, args.exact);
    }

    fn recompute(&self, queue: &dyn Queue, _: MicroBatchShape, args: RecomputeArgs<'_>) {
        queue.norm_statistics(self.norm, args.input, self.width, args.exact);
    }

    fn backward_input(&self, queue: &dyn Queue, _: MicroBatchShape, args: BackwardInputArgs<'_>) {
        let BackwardInputArgs {
            parameters,
            input,
            exact: statistics,
            mut gradient,
            exact_weight_inputs,
            workspace: mut doutput,
            ..
        } = args;
        let [weight, _] = parameters.split(self.parameter_lens());
        let [dweight, dbias] = layout::split_mut(exact_weight_inputs, self.parameter_lens());
        queue.copy(gradient.view(), doutput.reborrow());
        let of = NormGradient { x: input, statistics: statistics.view(), dy: doutput.view() };
        let mode = WriteMode::Overwrite;
        queue.norm_backward_input(self.norm, of, weight, gradient.reborrow(), mode);
        queue.norm_backward_weight(self.norm, of, dweight, dbias, mode);
    }

    fn backward_weight(&self, queue: &dyn Queue, _: MicroBatchShape, args: BackwardWeightArgs<'_>) {
        let [dweight, dbias] = layout::split(args.exact_weight_inputs, self.parameter_lens());
        let [weight_sum, bias_sum] = args.parameter_gradients.split(self.parameter_lens());
        queue.bias_gradient(dweight, weight_sum);
        queue.bias_gradient(dbias, bias_sum);
    }
}
