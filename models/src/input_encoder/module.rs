//! One module of an input encoder: a chain of layers over the rows of one input.

use std::ops::Range;
use std::sync::Arc;

use crate::error::{ModelError, require};
use crate::layer::{
    BackwardInputArgs, BackwardWeightArgs, ForwardArgs, Layer, LayerSizes, MicroBatchShape, RecomputeArgs,
    Slice, Tokens,
};
use crate::layout::aligned;
use crate::memory::{View, ViewMut};
use crate::mlp::Dense;
use crate::queue::Queue;
use crate::shared::Linear;
use crate::views::{GradientViews, ParameterViews};

/// A chain of layers from the numbers of an input to rows of the model's width. Each input goes through it for itself, as the one sequence of a
/// micro-batch. Its layers are given no tokens, and drop nothing.
#[derive(Clone, Debug)]
pub struct EncoderModule {
    name: String,
    layers: Vec<Arc<dyn Layer>>,
    /// The parameters of each layer among those of the module, counted.
    parameters: Vec<Range<usize>>,
}

/// Where the elements of a layer lie among those of an input.
struct Places {
    sizes: LayerSizes,
    input: Range<usize>,
    saved: Range<usize>,
    exact: Range<usize>,
    weight_inputs: Range<usize>,
    exact_weight_inputs: Range<usize>,
}

/// What an input's passes have in common.
#[derive(Clone, Copy)]
pub(super) struct Pass<'a> {
    pub(super) queue: &'a dyn Queue,
    pub(super) num_rows: usize,
    /// Tokens of nothing: layers of a module have none.
    pub(super) tokens: Tokens<'a>,
}

/// What an input's forward works on.
pub(super) struct Forward<'a> {
    pub(super) parameters: ParameterViews<'a>,
    pub(super) values: View<'a>,
    pub(super) saved: ViewMut<'a>,
    pub(super) exact: ViewMut<'a>,
    pub(super) workspace: ViewMut<'a>,
    pub(super) exact_workspace: ViewMut<'a>,
}

/// What an input's input gradient works on.
pub(super) struct BackwardInput<'a> {
    pub(super) parameters: ParameterViews<'a>,
    pub(super) saved: ViewMut<'a>,
    pub(super) exact: ViewMut<'a>,
    pub(super) gradient: ViewMut<'a>,
    pub(super) weight_inputs: ViewMut<'a>,
    pub(super) exact_weight_inputs: ViewMut<'a>,
    pub(super) workspace: ViewMut<'a>,
    pub(super) exact_workspace: ViewMut<'a>,
    pub(super) loss_seed: f32,
}

/// What an input's weight gradient works on.
pub(super) struct BackwardWeight<'a> {
    pub(super) saved: View<'a>,
    pub(super) exact: View<'a>,
    pub(super) weight_inputs: View<'a>,
    pub(super) exact_weight_inputs: View<'a>,
    pub(super) sums: GradientViews<'a>,
}

impl EncoderModule {
    /// A module of these layers, of which the first takes the numbers of an input's rows. Names of its layers' parameters are unique in the model.
    ///
    /// # Errors
    /// [`ModelError::Shape`] for no layers, and for a layer that cannot stand in a module: one without an input or an output of activations, a
    /// slice of a table, an input encoder, and one whose backward has no halves.
    pub fn new(name: impl Into<String>, layers: Vec<Arc<dyn Layer>>) -> Result<Self, ModelError> {
        let name = name.into();
        require(!layers.is_empty(), &format!("layers of module {name}"), 0, "a module has at least one")?;
        let mut parameters = Vec::with_capacity(layers.len());
        let mut end = 0;
        for layer in &layers {
            let one_row = layer.sizes(shape_of(1));
            let can_be = one_row.input > 0
                && one_row.output > 0
                && layer.table_slice() == Slice::WHOLE
                && layer.has_halves()
                && layer.input_encoder().is_none();
            let rule = "takes and gives activations, and has a backward in halves";
            require(can_be, &format!("a layer of module {name}"), layer.name(), rule)?;
            let start = end;
            end += layer.parameters().len();
            parameters.push(start..end);
        }
        Ok(Self { name, layers, parameters })
    }

    /// Two layers as a projector of LLaVA-1.5 has them (arXiv:2310.03744): `gelu(x Wᵀ + b)` from `widths[0]` numbers to `widths[1]`, and a linear map
    /// from there to `widths[2]`. Their names are `NAME.up` and `NAME.down`.
    ///
    /// # Errors
    /// [`ModelError::Shape`] for a width of 0.
    pub fn projector(name: impl Into<String>, widths: [usize; 3], init_std: f32) -> Result<Self, ModelError> {
        let name = name.into();
        let [inputs, hidden, outputs] = widths;
        let rule = "a row has elements; use 1 or more";
        require(!widths.contains(&0), &format!("widths of module {name}"), format!("{widths:?}"), rule)?;
        let up = Dense::with_widths(format!("{name}.up"), [inputs, hidden], init_std);
        let down = Linear::new(format!("{name}.down"), [hidden, outputs], init_std);
        Self::new(name, vec![Arc::new(up), Arc::new(down)])
    }

    /// The module's name, unique in the input encoder.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its layers, from the numbers of an input to rows of the model.
    pub fn layers(&self) -> &[Arc<dyn Layer>] {
        &self.layers
    }

    /// How many parameters it has.
    pub(super) fn num_parameters(&self) -> usize {
        self.parameters.last().map_or(0, |last| last.end)
    }

    /// Numbers of a row that it takes, and gives.
    pub(super) fn widths(&self) -> [usize; 2] {
        let of = |layer: Option<&Arc<dyn Layer>>| layer.map(|layer| layer.sizes(shape_of(1)));
        let [first, last] = [of(self.layers.first()), of(self.layers.last())];
        [first.map_or(0, |sizes| sizes.input), last.map_or(0, |sizes| sizes.output)]
    }

    /// Whether its layers fit one behind the other for inputs of so many rows: otherwise the first that does not.
    pub(super) fn first_misfit(&self, num_rows: usize) -> Option<&str> {
        let [takes, gives] = self.widths().map(|width| width * num_rows);
        let sizes: Vec<_> = self.layers.iter().map(|layer| layer.sizes(shape_of(num_rows))).collect();
        let given = [takes].into_iter().chain(sizes.iter().map(|sizes| sizes.output));
        let taken = sizes.iter().map(|sizes| sizes.input).chain([gives]);
        let position = given.zip(taken).position(|(given, taken)| given != taken)?;
        Some(self.layers[position.min(self.layers.len() - 1)].name())
    }

    pub(super) fn forward_flops(&self, num_rows: usize) -> u64 {
        let flops = self.layers.iter().map(|layer| layer.forward_flops(shape_of(num_rows)));
        flops.fold(0, u64::saturating_add)
    }

    /// What the module needs for an input: of a layer's, with `input` for the widest activation and in `saved` also every layer's input.
    pub(super) fn sizes(&self, num_rows: usize) -> LayerSizes {
        let places = self.places(num_rows);
        let most = |of: fn(&LayerSizes) -> usize| places.iter().map(|at| of(&at.sizes)).max().unwrap_or(0);
        let end = |of: fn(&Places) -> &Range<usize>| places.last().map_or(0, |last| of(last).end);
        LayerSizes {
            input: most(|sizes| sizes.input.max(sizes.output)),
            output: 0,
            saved: end(|at| &at.saved),
            exact: end(|at| &at.exact),
            weight_inputs: end(|at| &at.weight_inputs),
            exact_weight_inputs: end(|at| &at.exact_weight_inputs),
            forward_workspace: most(|sizes| sizes.forward_workspace),
            exact_forward_workspace: most(|sizes| sizes.exact_forward_workspace),
            backward_workspace: most(|sizes| sizes.backward_workspace),
            exact_backward_workspace: most(|sizes| sizes.exact_backward_workspace),
            allocated: most(|sizes| sizes.allocated),
        }
    }

    fn places(&self, num_rows: usize) -> Vec<Places> {
        let next = |end: usize, len: usize| aligned(end)..aligned(end) + len;
        let [mut kept, mut exact, mut weight_inputs, mut exact_weight_inputs] = [0; 4];
        let mut places = Vec::with_capacity(self.layers.len());
        for layer in &self.layers {
            let sizes = layer.sizes(shape_of(num_rows));
            let input = next(kept, sizes.input);
            let saved = next(input.end, sizes.saved);
            let at = Places {
                input,
                saved,
                exact: next(exact, sizes.exact),
                weight_inputs: next(weight_inputs, sizes.weight_inputs),
                exact_weight_inputs: next(exact_weight_inputs, sizes.exact_weight_inputs),
                sizes,
            };
            (kept, exact) = (at.saved.end, at.exact.end);
            (weight_inputs, exact_weight_inputs) = (at.weight_inputs.end, at.exact_weight_inputs.end);
            places.push(at);
        }
        places
    }

    /// The rows that the module makes of an input go to `output`; without one, only what the layers save is written.
    pub(super) fn forward(&self, pass: Pass<'_>, args: Forward<'_>, mut output: Option<ViewMut<'_>>) {
        let Pass { queue, num_rows, tokens } = pass;
        let Forward { parameters, values, mut saved, mut exact, mut workspace, mut exact_workspace } = args;
        let places = self.places(num_rows);
        queue.copy(values, saved.reborrow().range(places[0].input.clone()));
        for (index, (layer, at)) in self.layers.iter().zip(&places).enumerate() {
            let next = places.get(index + 1).map_or(0..0, |next| next.input.clone());
            let [input, of_layer, next] =
                saved.reborrow().disjoint([at.input.clone(), at.saved.clone(), next]);
            let parameters = parameters.range(self.parameters[index].clone());
            let shape = shape_of(num_rows);
            let is_last = index + 1 == self.layers.len();
            let (input, exact) = (input.into_view(), exact.reborrow().range(at.exact.clone()));
            let workspace = workspace.reborrow().range(0..at.sizes.forward_workspace);
            let exact_workspace = exact_workspace.reborrow();
            let (loss, exact_workspace) = exact_workspace.split_at(0);
            let exact_workspace = exact_workspace.range(0..at.sizes.exact_forward_workspace);
            let output = if is_last { output.as_mut().map(ViewMut::reborrow) } else { Some(next) };
            let Some(output) = output else {
                let args = RecomputeArgs {
                    tokens,
                    parameters,
                    input,
                    saved: of_layer,
                    exact,
                    workspace,
                    exact_workspace,
                };
                layer.recompute(queue, shape, args);
                return;
            };
            let args = ForwardArgs {
                tokens,
                parameters,
                input,
                output,
                saved: of_layer,
                exact,
                workspace,
                exact_workspace,
                loss,
                row_logits: None,
            };
            layer.forward(queue, shape, args);
        }
    }

    /// From the gradient of the rows that the module made to what the weight gradient needs.
    pub(super) fn backward_input(&self, pass: Pass<'_>, args: BackwardInput<'_>) {
        let Pass { queue, num_rows, tokens } = pass;
        let BackwardInput { parameters, mut saved, mut exact, mut gradient, loss_seed, .. } = args;
        let (mut weight_inputs, mut exact_weight_inputs) = (args.weight_inputs, args.exact_weight_inputs);
        let (mut workspace, mut exact_workspace) = (args.workspace, args.exact_workspace);
        let places = self.places(num_rows);
        for (index, (layer, at)) in self.layers.iter().zip(&places).enumerate().rev() {
            let is_read = layer.backward_reads_weights();
            let [input, of_layer] = saved.reborrow().disjoint([at.input.clone(), at.saved.clone()]);
            layer.backward_input(
                queue,
                shape_of(num_rows),
                BackwardInputArgs {
                    tokens,
                    parameters: parameters.range(if is_read { self.parameters[index].clone() } else { 0..0 }),
                    input: input.into_view(),
                    saved: of_layer,
                    exact: exact.reborrow().range(at.exact.clone()),
                    gradient: gradient.reborrow().range(0..at.sizes.input.max(at.sizes.output)),
                    weight_inputs: weight_inputs.reborrow().range(at.weight_inputs.clone()),
                    exact_weight_inputs: exact_weight_inputs.reborrow().range(at.exact_weight_inputs.clone()),
                    workspace: workspace.reborrow().range(0..at.sizes.backward_workspace),
                    exact_workspace: exact_workspace.reborrow().range(0..at.sizes.exact_backward_workspace),
                    loss_seed,
                },
            );
        }
    }

    /// The gradients of the module's parameters.
    pub(super) fn backward_weight(&self, pass: Pass<'_>, args: BackwardWeight<'_>) {
        let Pass { queue, num_rows, tokens } = pass;
        let BackwardWeight { saved, exact, weight_inputs, exact_weight_inputs, mut sums } = args;
        for (index, (layer, at)) in self.layers.iter().zip(self.places(num_rows)).enumerate().rev() {
            let Some(parameter_gradients) = sums.range(self.parameters[index].clone()) else { continue };
            layer.backward_weight(
                queue,
                shape_of(num_rows),
                BackwardWeightArgs {
                    tokens,
                    input: saved.range(at.input),
                    saved: saved.range(at.saved),
                    exact: exact.range(at.exact),
                    weight_inputs: weight_inputs.range(at.weight_inputs),
                    exact_weight_inputs: exact_weight_inputs.range(at.exact_weight_inputs),
                    parameter_gradients,
                },
            );
        }
    }
}

/// An input of so many rows, as its layers see it.
fn shape_of(num_rows: usize) -> MicroBatchShape {
    MicroBatchShape { num_sequences: 1, seq_length: num_rows }
}
