//! A linear map with a bias, each row for itself.

use crate::kernels::linear::LinearShape;
use crate::layer::*;
use crate::memory::{View, ViewMut};
use crate::parameter::ParameterSpec;
use crate::queue::{Onto, Queue};

/// `y = x Wᵀ + b`, from `I` elements of a row to `O`.
///
/// Parameters: `weight [O, I]`, `bias [O]`, behind the layer's name. Nothing is kept for the backward beside the input.
#[derive(Debug)]
pub struct Linear {
    name: String,
    widths: [usize; 2],
    init_std: f32,
}

impl Linear {
    /// A map from `widths[0]` elements to `widths[1]`, its weight drawn from a normal distribution.
    pub fn new(name: impl Into<String>, widths: [usize; 2], init_std: f32) -> Self {
        Self { name: name.into(), widths, init_std }
    }

    /// `y` of these rows.
    pub(crate) fn apply(
        &self,
        queue: &dyn Queue,
        shape: MicroBatchShape,
        parameters: ParameterViews<'_>,
        x: View<'_>,
        y: ViewMut<'_>,
    ) {
        let [weight, bias] = parameters.split(self.parameter_lens());
        queue.linear(self.linear(shape), x, weight, Onto::Bias(bias), y);
    }

    /// The gradient of `x`, given that of `y`.
    pub(crate) fn input_gradient(
        &self,
        queue: &dyn Queue,
        shape: MicroBatchShape,
        parameters: ParameterViews<'_>,
        dy: View<'_>,
        dx: ViewMut<'_>,
    ) {
        let [weight, _] = parameters.split(self.parameter_lens());
        queue.linear_backward_input(self.linear(shape), dy, weight, dx, WriteMode::Overwrite);
    }

    /// Elements of the parameters in order.
    fn parameter_lens(&self) -> [usize; 2] {
        let [inputs, outputs] = self.widths;
        [outputs * inputs, outputs]
    }

    fn linear(&self, shape: MicroBatchShape) -> LinearShape {
        let [num_inputs, num_outputs] = self.widths;
        LinearShape { num_rows: shape.num_tokens(), num_inputs, num_outputs }
    }
}

impl Layer for Linear {
    fn name(&self) -> &str {
        &self.name
    }

    fn parameters(&self) -> Vec<ParameterSpec> {
        let (name, [inputs, outputs]) = (&self.name, self.widths);
        vec![
            ParameterSpec::normal(format!("{name}.weight"), [outputs, inputs], self.init_std),
            ParameterSpec::zeros(format!("{name}.bias"), [outputs]),
        ]
    }

    fn sizes(&self, shape: MicroBatchShape) -> LayerSizes {
        let [input, output] = self.widths.map(|width| shape.num_tokens() * width);
        LayerSizes { input, output, weight_inputs: output, ..LayerSizes::default() }
    }

    fn forward_flops(&self, shape: MicroBatchShape) -> u64 {
        self.linear(shape).flops()
    }

    fn forward(&self, queue: &dyn Queue, shape: MicroBatchShape, args: ForwardArgs<'_>) {
        self.apply(queue, shape, args.parameters, args.input, args.output);
    }

    /// Nothing is saved.
    fn recompute(&self, _: &dyn Queue, _: MicroBatchShape, _: RecomputeArgs<'_>) {}

    fn backward_input(&self, queue: &dyn Queue, shape: MicroBatchShape, args: BackwardInputArgs<'_>) {
        let (mut doutput, mut gradient) = (args.weight_inputs, args.gradient);
        queue.copy(gradient.view().range(0..doutput.len()), doutput.reborrow());
        let dinput = gradient.reborrow().range(0..args.input.len());
        self.input_gradient(queue, shape, args.parameters, doutput.view(), dinput);
    }

    fn backward_weight(&self, queue: &dyn Queue, shape: MicroBatchShape, args: BackwardWeightArgs<'_>) {
        let [weight_sum, bias_sum] = args.parameter_gradients.split(self.parameter_lens());
        let doutput = args.weight_inputs;
        queue.linear_gradient(self.linear(shape), doutput, args.input, weight_sum);
        queue.bias_gradient(doutput, bias_sum);
    }
}
