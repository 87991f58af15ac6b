//! Whether candle's gradients are those of the module: some of its operations hand on none, or not all, and do not say so.

use candle_core::{Error, Result};
use pipezero_models::init;
use pipezero_models::layer::MicroBatchShape;
use pipezero_models::parameter::ParameterSpec;

use crate::autograd::{Gradients, Passes};

/// How much of a value's size it is moved by.
const STEP: f32 = 1e-2;

/// What the two derivatives may differ by, beside the larger one: kinks, and the third order of the step.
const TOLERANCE: f64 = 0.05;

/// Values at which a module is tried: near those that its parameters begin with, and of tokens with mean 0 and variance 1.
pub(crate) struct Point {
    shape: MicroBatchShape,
    parameters: Vec<f32>,
    input: Vec<f32>,
    /// The gradient of the output.
    gradient: Vec<f32>,
}

impl Point {
    pub(crate) fn new(passes: &Passes, shape: MicroBatchShape) -> Self {
        let mut parameters = vec![0.0; passes.ranges().last().map_or(0, |last| last.end)];
        for (spec, range) in passes.specs.iter().zip(passes.ranges()) {
            init::fill(spec, 0, 0, &mut parameters[range.clone()]);
            // Where all are 0 or 1, gradients may be 0 or alike.
            let noise = normal("noise", &spec.name, range.len());
            parameters[range].iter_mut().zip(noise).for_each(|(value, noise)| *value += 0.1 * noise);
        }
        let [inputs, outputs] = passes.widths.map(|width| width * shape.num_tokens());
        Self {
            shape,
            parameters,
            input: normal("point", "input", inputs),
            gradient: normal("point", "gradient", outputs),
        }
    }

    /// The gradients here.
    pub(crate) fn gradients(&self, passes: &Passes) -> Result<Gradients> {
        passes.backward(self.shape, &passes.split(&self.parameters), &self.input, &self.gradient)
    }

    /// Compares the gradient of each parameter, and of the input, with what the output changes by when it is moved in a random direction.
    ///
    /// # Errors
    /// When they differ: an operation of the module has a gradient that is not its own.
    pub(crate) fn check(&self, passes: &Passes, gradients: &Gradients) -> Result<()> {
        for ((spec, range), gradient) in passes.specs.iter().zip(passes.ranges()).zip(&gradients.parameters) {
            let name = format!("parameter `{}`", spec.name);
            let moved = |direction: &[f32], step: f32| {
                let mut parameters = self.parameters.clone();
                add(&mut parameters[range.clone()], direction, step);
                self.sum(passes, &parameters, &self.input)
            };
            agree(&name, &self.parameters[range.clone()], gradient, &moved)?;
        }
        let moved = |direction: &[f32], step: f32| {
            let mut input = self.input.clone();
            add(&mut input, direction, step);
            self.sum(passes, &self.parameters, &input)
        };
        agree("the input", &self.input, &gradients.input, &moved)
    }

    /// `sum(output * gradient)`, and the sum of the sizes of its terms.
    fn sum(&self, passes: &Passes, parameters: &[f32], input: &[f32]) -> Result<[f64; 2]> {
        let output = passes.forward(self.shape, &passes.split(parameters), input)?;
        let terms = output.iter().zip(&self.gradient).map(|(y, g)| f64::from(*y) * f64::from(*g));
        Ok(terms.fold([0.0, 0.0], |[sum, size], term| [sum + term, size + term.abs()]))
    }
}

/// The output's sum and the size of its terms, once something was moved in a direction by a step.
type Moved<'a> = dyn Fn(&[f32], f32) -> Result<[f64; 2]> + 'a;

fn agree(name: &str, values: &[f32], gradient: &[f32], moved: &Moved<'_>) -> Result<()> {
    let direction = normal("direction", name, values.len());
    let mean_square = values.iter().map(|x| x * x).sum::<f32>() / values.len().max(1) as f32;
    let step = STEP * mean_square.sqrt().max(1e-3);
    let [[above, size], [below, _]] = [moved(&direction, step)?, moved(&direction, -step)?];
    let change = (above - below) / (2.0 * f64::from(step));
    let predicted: f64 = gradient.iter().zip(&direction).map(|(g, d)| f64::from(*g) * f64::from(*d)).sum();
    // What the rounding of each term in f32 makes of the difference.
    let rounding = 4.0 * f64::from(f32::EPSILON) * size / f64::from(step);
    if (change - predicted).abs() <= TOLERANCE * change.abs().max(predicted.abs()) + rounding {
        return Ok(());
    }
    Err(Error::Msg(format!(
        "the gradient of {name} is not that of the module: by it a small step changes the output by {predicted:.4e}, and it changes by \
         {change:.4e}; an operation has no gradient in candle, or not all of it, such as candle_nn::ops::rms_norm: write it in \
         operations that have one"
    )))
}

fn add(values: &mut [f32], direction: &[f32], step: f32) {
    values.iter_mut().zip(direction).for_each(|(value, direction)| *value += step * direction);
}

/// Normal values with mean 0 and variance 1, which depend on these names alone.
fn normal(kind: &str, name: &str, len: usize) -> Vec<f32> {
    let mut values = vec![0.0; len];
    init::fill(&ParameterSpec::normal(format!("{kind} of {name}"), [len], 1.0), 0, 0, &mut values);
    values
}
