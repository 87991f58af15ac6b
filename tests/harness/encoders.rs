//! A model with an input encoder, and random inputs for it: other ones in each micro-batch, of any number and length, for any of its
//! modules.

use std::sync::Arc;

use pipezero_config::Run;
use pipezero_models::input_encoder::EncoderSpec;
use pipezero_models::model::{LayerRole, Model, ModelLayer, Tying};
use pipezero_models::split_mix::mixed;
use pipezero_models::{EncoderLimits, EncoderModule, GptConfig, InputEncoder, gpt2};
use pipezero_plan::Plan;
use pipezero_run::data::{BatchError, BatchLayout, BatchSource, EncoderInput, TokenBatch};
use pipezero_train::batch_layout;

use crate::RandomBatches;

/// Inputs of a sequence, and rows of an input, at most.
const LIMITS: EncoderLimits = EncoderLimits { inputs_per_sequence: 2, rows_per_input: 3 };
/// Numbers of a row, for each module.
const WIDTHS: [usize; 2] = [5, 20];

/// GPT-2 with an input encoder behind its token embedding: a projector for short rows, and a projector with attention behind it for long ones.
///
/// # Panics
/// If the run is of another family.
pub fn model_with_encoder(run: &Run) -> Model {
    let gpt = run.model.gpt().expect("a run of GPT-2");
    let mut model = gpt2::build(gpt).expect("valid sizes");
    // Of a longer model, so that its names are its own.
    let longer =
        GptConfig { num_layers: gpt.num_layers + 1, dropout: 0.0, tie_embeddings: false, ..gpt.clone() };
    let longer = gpt2::build(&longer).expect("valid sizes").layers;
    let attention = longer.into_iter().map(|layer| layer.layer);
    let name = format!("h.{}.attn", gpt.num_layers);
    let attention = attention.into_iter().find(|layer| layer.name() == name).expect("a block has attention");
    let projector = |index: usize| {
        EncoderModule::projector(format!("encoder.{index}"), [WIDTHS[index], 7, gpt.hidden_size], 0.3)
            .expect("valid widths")
    };
    let mut seen = projector(1).layers().to_vec();
    seen.push(attention);
    let modules = vec![projector(0), EncoderModule::new("encoder.1", seen).expect("layers of a module")];
    let encoder = InputEncoder::new("encoder", modules, gpt.hidden_size, LIMITS).expect("modules that fit");
    let num_tables = model.layers.iter().take_while(|layer| !layer.layer.name().starts_with("h.")).count();
    model.layers.insert(num_tables, ModelLayer::new(encoder, LayerRole::Embedding, Tying::Untied));
    model
}

/// The plan of a run with that model.
///
/// # Panics
/// If the run cannot be planned.
pub fn plan_with_encoder(run: Run) -> Plan {
    let model = model_with_encoder(&run);
    Plan::with_model(run, model).expect("a valid run")
}

/// Random tokens, with inputs of an input encoder.
#[derive(Clone, Debug)]
pub struct EncoderBatches {
    tokens: RandomBatches,
    layout: BatchLayout,
    spec: EncoderSpec,
    seed: u64,
}

impl EncoderBatches {
    /// Batches for a plan. Half of the micro-batches of a step have no input for the second module, so that a data rank may have none.
    pub fn new(plan: &Plan, tokens: RandomBatches, seed: u64) -> Self {
        let EncoderLimits { inputs_per_sequence, rows_per_input } = LIMITS;
        let spec = EncoderSpec { widths: WIDTHS.to_vec(), inputs_per_sequence, rows_per_input };
        Self { tokens, layout: batch_layout(plan), spec, seed }
    }

    /// The same as what an engine is given.
    pub fn shared(self) -> Arc<dyn BatchSource> {
        Arc::new(self)
    }

    fn add_inputs(&self, step: u64, data_rank: usize, micro_batch: usize, batch: &mut TokenBatch) {
        let BatchLayout { num_micro_batches, micro_batch_size, data_degree, .. } = self.layout;
        // The place in the step, which does not depend on the number of data ranks.
        let place = data_rank * num_micro_batches + micro_batch;
        let mut drawn = mixed(self.seed ^ mixed(step * 4096 + place as u64));
        let mut draw = |below: usize| {
            drawn = mixed(drawn);
            (drawn % below as u64) as usize
        };
        let num_modules = if 2 * place < num_micro_batches * data_degree { 2 } else { 1 };
        let mut free: Vec<usize> = (0..batch.inputs.len()).collect();
        for _ in 0..draw(self.spec.inputs_per_sequence * micro_batch_size + 1) {
            let module = draw(num_modules);
            let num_rows = (1 + draw(self.spec.rows_per_input)).min(free.len());
            if num_rows == 0 {
                break;
            }
            let tokens: Vec<usize> = (0..num_rows).map(|_| free.remove(draw(free.len()))).collect();
            let values = (0..num_rows * self.spec.widths[module]).map(|_| draw(2001) as f32 / 1000.0 - 1.0);
            batch.encoder_inputs.push(EncoderInput {
                module,
                tokens: &tokens,
                values: &values.collect::<Vec<_>>(),
            });
        }
    }
}

impl BatchSource for EncoderBatches {
    fn micro_batch(
        &self,
        step: u64,
        data_rank: usize,
        micro_batch: usize,
        batch: &mut TokenBatch,
    ) -> Result<(), BatchError> {
        self.tokens.micro_batch(step, data_rank, micro_batch, batch)?;
        self.add_inputs(step, data_rank, micro_batch, batch);
        Ok(())
    }

    fn seq_length(&self, step: u64, data_rank: usize, micro_batch: usize) -> Option<usize> {
        self.tokens.seq_length(step, data_rank, micro_batch)
    }
}
