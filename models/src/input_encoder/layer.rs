//! The layer of an input encoder: adds the rows that its modules compute to the activations of tokens.

use std::mem;
use std::ops::Range;

use super::inputs::{EncoderInputs, EncoderLimits, EncoderSpec, InputShape};
use super::module::{BackwardInput, BackwardWeight, EncoderModule, Forward, Pass};
use crate::error::{ModelError, require};
use crate::layer::*;
use crate::layout::{self, aligned};
use crate::memory::ViewMut;
use crate::parameter::ParameterSpec;
use crate::queue::Queue;
use crate::views::ParameterViews;

/// Inputs of a sequence, and rows of an input, at most.
const LIMIT: usize = 1 << 16;

/// `y[n] = x[n] + r`, where `r` is the row that a module made for token `n`, if there is one: inputs beside the tokens, of any number and
/// length, such as images in a text. It stands behind the token embedding, as [`LayerRole::Embedding`](crate::model::LayerRole::Embedding), and
/// is a unit of its own. A source of data gives the inputs.
///
/// The gradient of `x` is that of `y`. A module gets the rows of it that belong to its inputs, one input after the other; a module
/// without an input in the micro-batch has a gradient of zero.
#[derive(Clone, Debug)]
pub struct InputEncoder {
    name: String,
    modules: Vec<EncoderModule>,
    spec: EncoderSpec,
    /// C.
    width: usize,
    /// What the largest input needs, of all modules.
    largest: LayerSizes,
}

impl InputEncoder {
    /// An input encoder of these modules for activations of `width` elements. Buffers are for `inputs_per_sequence` inputs of `rows_per_input` rows.
    ///
    /// # Errors
    /// [`ModelError::Shape`] for no modules, two of one name, limits of 0, a module whose layers do not fit one behind the other or do not give
    /// `width` elements a row, and a module that needs more for a short input than for a long one.
    pub fn new(
        name: impl Into<String>,
        modules: Vec<EncoderModule>,
        width: usize,
        EncoderLimits { inputs_per_sequence, rows_per_input }: EncoderLimits,
    ) -> Result<Self, ModelError> {
        let name = name.into();
        require(!modules.is_empty(), &format!("modules of {name}"), 0, "an input encoder has at least one")?;
        let rule = format!("an input encoder has room for 1 to {LIMIT}");
        let can_be = |limit| (1..=LIMIT).contains(&limit);
        require(
            can_be(inputs_per_sequence),
            &format!("inputs_per_sequence of {name}"),
            inputs_per_sequence,
            rule.clone(),
        )?;
        require(can_be(rows_per_input), &format!("rows_per_input of {name}"), rows_per_input, rule)?;
        let mut largest = LayerSizes::default();
        for (index, module) in modules.iter().enumerate() {
            let is_new = modules[..index].iter().all(|other| other.name() != module.name());
            let rule = "another module of the input encoder has this name; give each one of its own";
            require(is_new, &format!("a module of {name}"), module.name(), rule)?;
            let [_, given] = module.widths();
            let rule = format!("the model's activations have {width} elements; make them equal");
            require(
                given == width,
                &format!("elements of a row that module {} gives", module.name()),
                given,
                rule,
            )?;
            let all = module.sizes(rows_per_input);
            for num_rows in 1..=rows_per_input {
                if let Some(layer) = module.first_misfit(num_rows) {
                    let rule =
                        format!("what the layer before it gives is not what it takes, for {num_rows} rows");
                    require(false, &format!("a layer of module {}", module.name()), layer, rule)?;
                }
                let rule = format!(
                    "needs more for {num_rows} rows than for {rows_per_input}, which the buffers of {name} are made for; let what its layers need grow with the rows"
                );
                require(larger(module.sizes(num_rows), all) == all, "module", module.name(), rule)?;
            }
            largest = larger(largest, all);
        }
        let widths = modules.iter().map(|module| module.widths()[0]).collect();
        let spec = EncoderSpec { widths, inputs_per_sequence, rows_per_input };
        Ok(Self { name, modules, spec, width, largest })
    }

    /// The modules in their order, which is the one that a source counts them in.
    pub fn modules(&self) -> &[EncoderModule] {
        &self.modules
    }

    /// Elements of the places of an input in the buffers of a micro-batch: saved, exact, and weight-gradient inputs of both types.
    fn strides(&self) -> [usize; 4] {
        let LayerSizes { saved, exact, weight_inputs, exact_weight_inputs, .. } = self.largest;
        [saved, exact, weight_inputs, exact_weight_inputs].map(aligned)
    }

    /// Each module's parameters, counted.
    fn parameters_of(&self, module: usize) -> Range<usize> {
        let start = self.modules[..module].iter().map(EncoderModule::num_parameters).sum();
        start..start + self.modules[module].num_parameters()
    }

    /// Elements of the rows of all inputs, and of the scratch in which the forward of one runs.
    fn forward_lens(&self, shape: MicroBatchShape) -> [usize; 2] {
        [self.spec.num_rows(shape) * self.width, self.largest.forward_workspace]
    }

    /// Elements in f32 of these rows, of what they add to each token, of the sum, and of the scratch.
    fn exact_forward_lens(&self, shape: MicroBatchShape) -> [usize; 4] {
        let activation = shape.num_tokens() * self.width;
        let rows = self.spec.num_rows(shape) * self.width;
        [rows, activation, activation, self.largest.exact_forward_workspace]
    }

    /// Elements of the gradients of these rows, and of the scratch in which the backward of one runs.
    fn backward_lens(&self, shape: MicroBatchShape) -> [usize; 3] {
        let LayerSizes { input: widest, exact_backward_workspace, .. } = self.largest;
        [self.spec.num_rows(shape) * self.width, widest, exact_backward_workspace]
    }

    /// The rows that one input has among those of all.
    fn rows_of(&self, index: usize, input: InputShape) -> Range<usize> {
        let start = self.spec.row(index, 0) as usize * self.width;
        start..start + input.num_rows * self.width
    }
}

/// The larger of each size.
fn larger(one: LayerSizes, other: LayerSizes) -> LayerSizes {
    let most = |size: fn(&LayerSizes) -> usize| size(&one).max(size(&other));
    LayerSizes {
        input: most(|of| of.input),
        output: most(|of| of.output),
        saved: most(|of| of.saved),
        exact: most(|of| of.exact),
        weight_inputs: most(|of| of.weight_inputs),
        exact_weight_inputs: most(|of| of.exact_weight_inputs),
        forward_workspace: most(|of| of.forward_workspace),
        exact_forward_workspace: most(|of| of.exact_forward_workspace),
        backward_workspace: most(|of| of.backward_workspace),
        exact_backward_workspace: most(|of| of.exact_backward_workspace),
        allocated: most(|of| of.allocated),
    }
}

/// Place `index` of equal ones.
fn place(index: usize, len: usize) -> Range<usize> {
    index * len..(index + 1) * len
}

/// Tokens of nothing.
fn no_tokens(tokens: Tokens<'_>) -> Tokens<'_> {
    let none = tokens.inputs.range(0..0);
    Tokens {
        inputs: none,
        targets: none,
        document_starts: None,
        loss_inputs: None,
        masks: None,
        encoder_inputs: None,
    }
}

impl Layer for InputEncoder {
    fn name(&self) -> &str {
        &self.name
    }

    fn parameters(&self) -> Vec<ParameterSpec> {
        let layers = self.modules.iter().flat_map(|module| module.layers());
        layers.flat_map(|layer| layer.parameters()).collect()
    }

    fn sizes(&self, shape: MicroBatchShape) -> LayerSizes {
        let (num_inputs, activation) = (self.spec.num_inputs(shape), shape.num_tokens() * self.width);
        let [saved, exact, weight_inputs, exact_weight_inputs] = self.strides().map(|len| num_inputs * len);
        LayerSizes {
            input: activation,
            output: activation,
            saved,
            exact,
            weight_inputs,
            exact_weight_inputs,
            forward_workspace: layout::extent(self.forward_lens(shape)),
            exact_forward_workspace: layout::extent(self.exact_forward_lens(shape)),
            backward_workspace: self.largest.backward_workspace,
            exact_backward_workspace: layout::extent(self.backward_lens(shape)),
            allocated: self.largest.allocated,
        }
    }

    /// Those of as many inputs as there can be, all of the most rows.
    fn forward_flops(&self, shape: MicroBatchShape) -> u64 {
        let of_module = |module: &EncoderModule| module.forward_flops(self.spec.rows_per_input);
        let most = self.modules.iter().map(of_module).max().unwrap_or(0);
        most.saturating_mul(self.spec.num_inputs(shape) as u64)
    }

    fn is_host_only(&self) -> bool {
        self.modules.iter().flat_map(|module| module.layers()).any(|layer| layer.is_host_only())
    }

    fn backward_reads_weights(&self) -> bool {
        self.modules.iter().flat_map(|module| module.layers()).any(|layer| layer.backward_reads_weights())
    }

    fn input_encoder(&self) -> Option<&EncoderSpec> {
        Some(&self.spec)
    }

    fn forward(&self, queue: &dyn Queue, shape: MicroBatchShape, args: ForwardArgs<'_>) {
        let mut output = args.output;
        let Some(inputs) = args.tokens.encoder_inputs.filter(|inputs| !inputs.shapes.is_empty()) else {
            return queue.copy(args.input, output.reborrow());
        };
        let [mut rows, workspace] = layout::split_mut(args.workspace, self.forward_lens(shape));
        let [mut exact_rows, mut terms, mut sum, exact_workspace] =
            layout::split_mut(args.exact_workspace, self.exact_forward_lens(shape));
        let kept = Kept { saved: args.saved, exact: args.exact };
        let scratch = Scratch { workspace, exact_workspace };
        self.run_forward(queue, args.tokens, args.parameters, kept, scratch, Some(rows.reborrow()));
        for (index, &input) in inputs.shapes.iter().enumerate() {
            let own = self.rows_of(index, input);
            queue.copy(rows.view().range(own.clone()), exact_rows.reborrow().range(own));
        }
        queue.clear(terms.reborrow());
        queue.embedding(inputs.rows, 0, exact_rows.view(), terms.reborrow());
        // Sums are f32, and rounded once.
        queue.copy(args.input, sum.reborrow());
        queue.add(terms.view(), sum.reborrow());
        queue.copy(sum.view(), output);
    }

    fn recompute(&self, queue: &dyn Queue, _: MicroBatchShape, args: RecomputeArgs<'_>) {
        let RecomputeArgs { tokens, parameters, saved, exact, workspace, exact_workspace, .. } = args;
        let scratch = Scratch { workspace, exact_workspace };
        self.run_forward(queue, tokens, parameters, Kept { saved, exact }, scratch, None);
    }

    fn backward_input(&self, queue: &dyn Queue, shape: MicroBatchShape, args: BackwardInputArgs<'_>) {
        let Some(EncoderInputs { shapes, rows: row_of_token, .. }) =
            args.tokens.encoder_inputs.filter(|inputs| !inputs.shapes.is_empty())
        else {
            return;
        };
        let tokens = no_tokens(args.tokens);
        let gradient = args.gradient.view().range(0..shape.num_tokens() * self.width);
        let (mut saved, mut exact) = (args.saved, args.exact);
        let (mut weight_inputs, mut exact_weight_inputs) = (args.weight_inputs, args.exact_weight_inputs);
        let mut workspace = args.workspace;
        let [mut drows, mut dinput, mut exact_workspace] =
            layout::split_mut(args.exact_workspace, self.backward_lens(shape));
        queue.embedding_backward(row_of_token, 0, gradient, drows.reborrow(), WriteMode::Overwrite);
        let [of_saved, of_exact, of_inputs, of_exact_inputs] = self.strides();
        for (index, &input) in shapes.iter().enumerate() {
            let own = self.rows_of(index, input);
            queue.copy(drows.view().range(own.clone()), dinput.reborrow().range(0..own.len()));
            self.modules[input.module].backward_input(
                Pass { queue, num_rows: input.num_rows, tokens },
                BackwardInput {
                    parameters: args.parameters.range(self.parameters_of(input.module)),
                    saved: saved.reborrow().range(place(index, of_saved)),
                    exact: exact.reborrow().range(place(index, of_exact)),
                    gradient: dinput.reborrow(),
                    weight_inputs: weight_inputs.reborrow().range(place(index, of_inputs)),
                    exact_weight_inputs: exact_weight_inputs.reborrow().range(place(index, of_exact_inputs)),
                    workspace: workspace.reborrow(),
                    exact_workspace: exact_workspace.reborrow(),
                    loss_seed: args.loss_seed,
                },
            );
        }
    }

    fn backward_weight(&self, queue: &dyn Queue, _: MicroBatchShape, args: BackwardWeightArgs<'_>) {
        let mut sums = args.parameter_gradients;
        let mut is_written = vec![false; self.modules.len()];
        let [of_saved, of_exact, of_inputs, of_exact_inputs] = self.strides();
        let shapes = args.tokens.encoder_inputs.map_or(&[][..], |inputs| inputs.shapes);
        for (index, &input) in shapes.iter().enumerate() {
            let Some(own) = sums.range(self.parameters_of(input.module)) else { continue };
            let was_written = mem::replace(&mut is_written[input.module], true);
            self.modules[input.module].backward_weight(
                Pass { queue, num_rows: input.num_rows, tokens: no_tokens(args.tokens) },
                BackwardWeight {
                    saved: args.saved.range(place(index, of_saved)),
                    exact: args.exact.range(place(index, of_exact)),
                    weight_inputs: args.weight_inputs.range(place(index, of_inputs)),
                    exact_weight_inputs: args.exact_weight_inputs.range(place(index, of_exact_inputs)),
                    sums: if was_written { own.adding() } else { own },
                },
            );
        }
        for (module, _) in is_written.into_iter().enumerate().filter(|(_, is_written)| !is_written) {
            let Some(mut own) = sums.range(self.parameters_of(module)) else { continue };
            own.for_each(|_, sum| {
                if sum.mode == WriteMode::Overwrite {
                    queue.clear(sum.to);
                }
            });
        }
    }
}

/// What passes keep of all inputs.
struct Kept<'a> {
    saved: ViewMut<'a>,
    exact: ViewMut<'a>,
}

/// What one input after the other is computed in.
struct Scratch<'a> {
    workspace: ViewMut<'a>,
    exact_workspace: ViewMut<'a>,
}

impl InputEncoder {
    /// Every input through its module; the rows that they make go to `rows`, unless they are there already.
    fn run_forward(
        &self,
        queue: &dyn Queue,
        tokens: Tokens<'_>,
        parameters: ParameterViews<'_>,
        mut kept: Kept<'_>,
        mut scratch: Scratch<'_>,
        mut rows: Option<ViewMut<'_>>,
    ) {
        let Some(EncoderInputs { shapes, values, .. }) = tokens.encoder_inputs else { return };
        let [of_saved, of_exact, ..] = self.strides();
        for (index, &input) in shapes.iter().enumerate() {
            let output = rows.as_mut().map(|rows| rows.reborrow().range(self.rows_of(index, input)));
            self.modules[input.module].forward(
                Pass { queue, num_rows: input.num_rows, tokens: no_tokens(tokens) },
                Forward {
                    parameters: parameters.range(self.parameters_of(input.module)),
                    values: values.range(self.spec.values_of(index, input)),
                    saved: kept.saved.reborrow().range(place(index, of_saved)),
                    exact: kept.exact.reborrow().range(place(index, of_exact)),
                    workspace: scratch.workspace.reborrow(),
                    exact_workspace: scratch.exact_workspace.reborrow(),
                },
                output,
            );
        }
    }
}
