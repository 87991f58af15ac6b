//! The norm before the head.

use crate::kernels::norm::Norm;
use crate::layer::*;
use crate::layout;
use crate::parameter::ParameterSpec;
use crate::queue::{Affine, Queue};
use crate::shared::GptConfig;

/// `y = ln_f(x)`.
///
/// Parameters: `ln_f.weight [C]`, `ln_f.bias [C]`. Kept for the backward: the statistics.
#[derive(Debug)]
pub struct FinalNorm {
    width: usize,
}

impl FinalNorm {
    /// The layer of a model with this configuration.
    pub fn new(config: &GptConfig) -> Self {
        Self { width: config.hidden_size }
    }
}

impl Layer for FinalNorm {
    fn name(&self) -> &str {
        "ln_f"
    }

    fn parameters(&self) -> Vec<ParameterSpec> {
        vec![
            ParameterSpec::ones("ln_f.weight", [self.width]),
            ParameterSpec::zeros("ln_f.bias", [self.width]),
        ]
    }

    fn sizes(&self, shape: MicroBatchShape) -> LayerSizes {
        let activation = shape.num_tokens() * self.width;
        LayerSizes {
            input: activation,
            output: activation,
            exact: 2 * shape.num_tokens(),
            // The gradients of the parameters.
            exact_weight_inputs: layout::extent([self.width; 2]),
            backward_workspace: activation,
            ..LayerSizes::default()
        }
    }

    fn forward(&self, queue: &dyn Queue, _: MicroBatchShape, args: ForwardArgs<'_>) {
        let [weight, bias] = layout::split(args.parameters, [self.width; 2]);
        queue.norm(Norm::GPT2, args.input, Affine { weight, bias }, args.output, args.exact);
    }

    fn recompute(&self, queue: &dyn Queue, _: MicroBatchShape, args: RecomputeArgs<'_>) {
        queue.norm_statistics(Norm::GPT2, args.input, self.width, args.exact);
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
        let [weight, _] = layout::split(parameters, [self.width; 2]);
        let [dweight, dbias] = layout::split_mut(exact_weight_inputs, [self.width; 2]);
        queue.copy(gradient.view(), doutput.reborrow());
        let (statistics, doutput) = (statistics.view(), doutput.view());
        let dinput = gradient.reborrow();
        queue.norm_backward_input(
            Norm::GPT2,
            input,
            weight,
            statistics,
            doutput,
            dinput,
            WriteMode::Overwrite,
        );
        queue.norm_backward_weight(
            Norm::GPT2,
            input,
            statistics,
            doutput,
            dweight,
            dbias,
            WriteMode::Overwrite,
        );
    }

    fn backward_weight(&self, queue: &dyn Queue, _: MicroBatchShape, args: BackwardWeightArgs<'_>) {
        let [dweight, dbias] = layout::split(args.exact_weight_inputs, [self.width; 2]);
        let [weight_sum, bias_sum] = layout::split_mut(args.parameter_gradients, [self.width; 2]);
        queue.bias_backward(dweight, weight_sum, args.mode);
        queue.bias_backward(dbias, bias_sum, args.mode);
    }
}
