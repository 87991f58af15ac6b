//! The layer around a module.

use std::fmt;
use std::sync::Arc;

use candle_core::{Error, Result, Tensor};
use pipezero_models::layer::*;
use pipezero_models::parameter::ParameterSpec;
use pipezero_models::{ModelError, Queue, View, ViewMut};

use crate::autograd::{Gradients, Passes};
use crate::counted::Counted;
use crate::derivative::Point;
use crate::parameters::Parameters;

/// A module over candle tensors as a layer.
#[derive(Clone)]
pub struct CandleLayer {
    name: String,
    /// With the layer's name in front of their own.
    parameters: Vec<ParameterSpec>,
    passes: Arc<Passes>,
    counted: Counted,
}

impl CandleLayer {
    /// A layer that turns `widths[0]` elements of each token into `widths[1]`: `module` is given the parameters and `[B, T, widths[0]]`, and returns
    /// `[B, T, widths[1]]`. It must depend on these alone, and treat each sequence for itself. `seq_length` is T. The name of a parameter is
    /// unique in the layer: in files the layer's name stands before it.
    ///
    /// The module is tried: on one sequence and on two, with random values, where its gradients are compared with differences, and what
    /// candle's autograd holds is counted for the plan.
    ///
    /// # Errors
    /// [`ModelError::Shape`] for a width or length of 0; [`ModelError::Layer`] when the module fails, gives another shape, or has a gradient that is not its own.
    pub fn new(
        name: impl Into<String>,
        widths: [usize; 2],
        seq_length: usize,
        parameters: Vec<ParameterSpec>,
        module: impl Fn(&Parameters, &Tensor) -> Result<Tensor> + Send + Sync + 'static,
    ) -> std::result::Result<Self, ModelError> {
        let name = name.into();
        if widths.contains(&0) {
            return Err(empty(format!("widths of layer {name} = {widths:?}")));
        }
        if seq_length == 0 {
            return Err(empty(format!("seq_length of layer {name} = {seq_length}")));
        }
        let named = parameters
            .iter()
            .map(|spec| ParameterSpec { name: format!("{name}.{}", spec.name), ..spec.clone() })
            .collect();
        let passes = Passes { specs: parameters, widths, module: Box::new(module) };
        let counted = tried(&passes, seq_length)
            .map_err(|error| ModelError::Layer { name: name.clone(), error: Box::new(error) })?;
        Ok(Self { name, parameters: named, passes: Arc::new(passes), counted })
    }

    /// How a pass that fails is reported.
    fn failed(&self) -> impl Fn(Error) -> String + Send + 'static {
        let name = self.name.clone();
        move |error: Error| format!("layer {name}: {error}")
    }
}

/// The error for a layer without tokens, or without elements of a token.
fn empty(value: String) -> ModelError {
    ModelError::Shape { value, rule: "a layer has tokens, and elements of each; use 1 or more".to_owned() }
}

/// Tries a module, and counts what candle holds for it.
fn tried(passes: &Passes, seq_length: usize) -> Result<Counted> {
    let at = |num_sequences| Point::new(passes, MicroBatchShape { num_sequences, seq_length });
    let one = at(1);
    let gradients = one.gradients(passes)?;
    one.check(passes, &gradients)?;
    Ok(Counted::new(seq_length, [gradients.num_held, at(2).gradients(passes)?.num_held]))
}

impl fmt::Debug for CandleLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CandleLayer").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Layer for CandleLayer {
    fn name(&self) -> &str {
        &self.name
    }

    fn parameters(&self) -> Vec<ParameterSpec> {
        self.parameters.clone()
    }

    fn sizes(&self, shape: MicroBatchShape) -> LayerSizes {
        let [input, output] = self.passes.widths.map(|width| shape.num_tokens() * width);
        let num_elements = self.passes.ranges().last().map_or(0, |last| last.end);
        LayerSizes {
            input,
            output,
            exact_weight_inputs: num_elements,
            allocated: self.counted.of(shape),
            ..LayerSizes::default()
        }
    }

    /// As if each parameter were multiplied once for each token, as those of linear maps are: what a module does is not known.
    fn forward_flops(&self, shape: MicroBatchShape) -> u64 {
        let num_parameters: usize = self.parameters.iter().map(ParameterSpec::num_elements).sum();
        2_u64.saturating_mul(num_parameters as u64).saturating_mul(shape.num_tokens() as u64)
    }

    /// The module runs once more in the backward.
    fn backward_flops(&self, shape: MicroBatchShape) -> u64 {
        self.forward_flops(shape).saturating_mul(3)
    }

    fn is_host_only(&self) -> bool {
        true
    }

    fn forward(&self, queue: &dyn Queue, shape: MicroBatchShape, args: ForwardArgs<'_>) {
        let (passes, failed) = (Arc::clone(&self.passes), self.failed());
        let kernel = move |reads: &[View<'_>], writes: Vec<ViewMut<'_>>| {
            let (parameters, input) = read(reads);
            let output = passes.forward(shape, &parameters, input);
            let output = output.unwrap_or_else(|error| panic!("{}", failed(error)));
            for to in writes {
                to.slice::<f32>().copy_from_slice(&output);
            }
        };
        queue.on_host(&reads(args.parameters, args.input), vec![args.output], Box::new(kernel));
    }

    /// Nothing is saved.
    fn recompute(&self, _: &dyn Queue, _: MicroBatchShape, _: RecomputeArgs<'_>) {}

    /// Autograd has all gradients at once: those of the parameters wait for the weight gradient.
    fn backward_input(&self, queue: &dyn Queue, shape: MicroBatchShape, args: BackwardInputArgs<'_>) {
        let (passes, failed) = (Arc::clone(&self.passes), self.failed());
        let allocated = self.counted.of(shape);
        let kernel = move |reads: &[View<'_>], writes: Vec<ViewMut<'_>>| {
            let [gradient, of_parameters] =
                <[_; 2]>::try_from(writes).expect("a kernel gets what it asked for");
            let (gradient, of_parameters) = (gradient.slice::<f32>(), of_parameters.slice::<f32>());
            let [inputs, outputs] = passes.widths.map(|width| shape.num_tokens() * width);
            let (parameters, input) = read(reads);
            let found = passes.backward(shape, &parameters, input, &gradient[..outputs]);
            let Gradients { input, parameters, num_held } =
                found.unwrap_or_else(|error| panic!("{}", failed(error)));
            assert!(num_held <= allocated, "{}", failed(Error::Msg(more_than_planned(num_held, allocated))));
            gradient[..inputs].copy_from_slice(&input);
            for (range, values) in passes.ranges().into_iter().zip(&parameters) {
                of_parameters[range].copy_from_slice(values);
            }
        };
        let writes = vec![args.gradient, args.exact_weight_inputs];
        queue.on_host(&reads(args.parameters, args.input), writes, Box::new(kernel));
    }

    fn backward_weight(&self, queue: &dyn Queue, _: MicroBatchShape, args: BackwardWeightArgs<'_>) {
        let BackwardWeightArgs { exact_weight_inputs, mut parameter_gradients, .. } = args;
        let ranges = self.passes.ranges();
        parameter_gradients.for_each(|index, GradientView { to, mode }| {
            let from = exact_weight_inputs.range(ranges[index].clone());
            match mode {
                WriteMode::Overwrite => queue.copy(from, to),
                WriteMode::Add => queue.add(from, to),
            }
        });
    }
}

/// What a kernel of the module reads: its parameters, and behind them its input.
fn reads<'a>(parameters: ParameterViews<'a>, input: View<'a>) -> Vec<View<'a>> {
    parameters.iter().chain([input]).collect()
}

fn read<'a>(reads: &[View<'a>]) -> (Vec<&'a [f32]>, &'a [f32]) {
    let (input, parameters) = reads.split_last().expect("a kernel gets what it asked for");
    (parameters.iter().map(|view| view.slice()).collect(), input.slice())
}

fn more_than_planned(num_held: usize, allocated: usize) -> String {
    format!(
        "candle holds {num_held} values of f32 for a backward, and {allocated} were planned from one sequence and two: is each sequence treated \
         for itself, and as the others?"
    )
}
