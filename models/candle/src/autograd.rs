//! One pass of a module over slices of f32: forward, and backward by candle's autograd.

use std::ops::Range;

use candle_core::{Device, Error, Result, Tensor, Var};
use pipezero_models::layer::MicroBatchShape;
use pipezero_models::layout::aligned;
use pipezero_models::parameter::ParameterSpec;

use crate::parameters::Parameters;

/// What a user's module is: from its parameters and `[B, T, inputs]` to `[B, T, outputs]`.
pub(crate) type Module = dyn Fn(&Parameters, &Tensor) -> Result<Tensor> + Send + Sync;

/// A module and the shapes of what it works on.
pub(crate) struct Passes {
    /// By the names that the module knows.
    pub(crate) specs: Vec<ParameterSpec>,
    /// Elements of a token before and behind the module.
    pub(crate) widths: [usize; 2],
    pub(crate) module: Box<Module>,
}

/// What a backward leaves.
pub(crate) struct Gradients {
    /// Of the input, `[B, T, inputs]`.
    pub(crate) input: Vec<f32>,
    /// Of each parameter.
    pub(crate) parameters: Vec<Vec<f32>>,
    /// f32 elements that the pass held at once, at most.
    pub(crate) num_held: usize,
}

impl Passes {
    /// Where each parameter lies where they are one behind the other.
    pub(crate) fn ranges(&self) -> Vec<Range<usize>> {
        let mut end = 0;
        let ranges = self.specs.iter().map(|spec| {
            let start = aligned(end);
            end = start + spec.num_elements();
            start..end
        });
        ranges.collect()
    }

    /// The parameters out of a list in which they are one behind the other.
    pub(crate) fn split<'a>(&self, values: &'a [f32]) -> Vec<&'a [f32]> {
        self.ranges().into_iter().map(|range| &values[range]).collect()
    }

    /// The output of an input.
    pub(crate) fn forward(
        &self,
        shape: MicroBatchShape,
        parameters: &[&[f32]],
        input: &[f32],
    ) -> Result<Vec<f32>> {
        let parameters = self.parameters(parameters, constant)?;
        let input = constant(input, &self.input_dims(shape))?;
        self.output(shape, &parameters, &input)?.flatten_all()?.to_vec1()
    }

    /// The gradients of `sum(output * gradient)`.
    pub(crate) fn backward(
        &self,
        shape: MicroBatchShape,
        parameters: &[&[f32]],
        input: &[f32],
        gradient: &[f32],
    ) -> Result<Gradients> {
        let parameters = self.parameters(parameters, variable)?;
        let input = variable(input, &self.input_dims(shape))?;
        let output = self.output(shape, &parameters, &input)?;
        let gradient = Tensor::from_slice(gradient, output.shape(), &Device::Cpu)?;
        let product = (output * gradient)?.sum_all()?;
        let nodes = product.sorted_nodes();
        let largest = nodes.iter().map(|node| node.elem_count()).max().unwrap_or(0);
        let num_held = nodes.iter().map(|node| node.elem_count()).sum();
        let gradients = product.backward()?;
        let of = |name: &str, tensor: &Tensor| {
            let found = gradients.get(tensor).ok_or_else(|| Error::Msg(cut_off(name)))?;
            found.flatten_all()?.to_vec1()
        };
        let named = self.specs.iter().zip(parameters.tensors());
        let of_parameters = named.map(|(spec, tensor)| of(&format!("parameter `{}`", spec.name), tensor));
        Ok(Gradients {
            input: of("the input", &input)?,
            parameters: of_parameters.collect::<Result<_>>()?,
            num_held: bound(num_held, largest),
        })
    }

    fn parameters(
        &self,
        values: &[&[f32]],
        tensor: fn(&[f32], &[usize]) -> Result<Tensor>,
    ) -> Result<Parameters> {
        let named = self.specs.iter().zip(values);
        let named = named.map(|(spec, values)| Ok((spec.name.clone(), tensor(values, &spec.shape)?)));
        Ok(Parameters::new(named.collect::<Result<_>>()?))
    }

    fn input_dims(&self, shape: MicroBatchShape) -> [usize; 3] {
        [shape.num_sequences, shape.seq_length, self.widths[0]]
    }

    fn output(&self, shape: MicroBatchShape, parameters: &Parameters, input: &Tensor) -> Result<Tensor> {
        let output = (self.module)(parameters, input)?;
        let wanted = [shape.num_sequences, shape.seq_length, self.widths[1]];
        if output.dims() != wanted {
            return Err(Error::Msg(format!(
                "its output has the shape {:?}, and must have {wanted:?}",
                output.dims()
            )));
        }
        Ok(output)
    }
}

fn constant(values: &[f32], dims: &[usize]) -> Result<Tensor> {
    Tensor::from_slice(values, dims, &Device::Cpu)
}

fn variable(values: &[f32], dims: &[usize]) -> Result<Tensor> {
    Ok(Var::from_slice(values, dims, &Device::Cpu)?.into_inner())
}

/// What a pass may hold at once whose autograd has so many elements in its nodes, of which the largest has so many: each node's value and
/// gradient, and what an operation makes in passing.
fn bound(num_elements: usize, largest: usize) -> usize {
    2 * num_elements + 4 * largest
}

fn cut_off(name: &str) -> String {
    format!(
        "no gradient reaches {name}: it is not used, or lies behind an operation that candle has no gradient of, such as \
         candle_nn::ops::rms_norm; write that in operations that have one (rms_norm_slow, softmax)"
    )
}
