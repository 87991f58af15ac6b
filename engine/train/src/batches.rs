//! The batches of a run: its text, cut for its plan.

use std::path::PathBuf;
use std::sync::Arc;

use pipezero_plan::Plan;
use pipezero_run::checkpoint::digits;
use pipezero_run::data::{BatchSource, Corpus, DataError, NgramCrossEntropy, Start, Zeros};
use pipezero_run::engine::batch_layout;

use super::error::TrainingError;

/// What a run trains and is evaluated on.
pub(super) struct Batches {
    pub(super) training: Arc<dyn BatchSource>,
    /// `None` without validation text.
    pub(super) validation: Option<Arc<dyn BatchSource>>,
    /// Losses that need no model; `None` without validation text.
    pub(super) baselines: Option<NgramCrossEntropy>,
    /// The checksum of what is trained on; `None` of a model that reads none.
    pub(super) text_checksum: Option<String>,
    /// The checksum of what is held out; `None` if nothing is.
    pub(super) validation_checksum: Option<String>,
    /// Files of tokens, which are read in parts.
    pub(super) token_files: Vec<PathBuf>,
    /// That of the tokenizer; `None` of a run without one.
    pub(super) tokenizer_checksum: Option<String>,
}

impl Batches {
    /// Reads the text of a plan's run, which goes on from `start`; a model that reads no text trains on zeros.
    pub(super) fn of(plan: &Plan, start: Start) -> Result<Self, DataError> {
        let run = plan.run();
        if !run.model.learns() {
            let training = Arc::new(Zeros);
            return Ok(Self {
                training,
                validation: None,
                baselines: None,
                text_checksum: None,
                validation_checksum: None,
                token_files: Vec::new(),
                tokenizer_checksum: None,
            });
        }
        let (corpus, layout) = (corpus(plan)?, batch_layout(plan));
        Ok(Self {
            tokenizer_checksum: corpus.tokenizer_checksum().map(digits),
            token_files: corpus.token_files(),
            training: Arc::new(
                corpus
                    .training_batches(layout, run.seed)?
                    .starting_at(start)
                    .of_lengths(&run.data.seq_lengths),
            ),
            text_checksum: Some(digits(corpus.checksum()?)),
            validation_checksum: corpus.validation_checksum()?.map(digits),
            validation: corpus.validation_batches(layout, run.seed)?.map(|batches| Arc::new(batches) as _),
            baselines: corpus.baselines()?,
        })
    }
}

/// The batches that a plan's run trains on; zeros for a model that reads no text.
///
/// # Errors
/// [`TrainingError::Data`] if the text cannot be read, is too short, or has bytes beyond the vocabulary.
pub fn training_batches(plan: &Plan) -> Result<Arc<dyn BatchSource>, TrainingError> {
    batches_of_lengths(plan, &plan.run().data.seq_lengths)
}

/// The same, all sequences as long as the model's, whatever lengths the run draws: what costs are measured on.
///
/// # Errors
/// As [`training_batches`].
pub fn whole_batches(plan: &Plan) -> Result<Arc<dyn BatchSource>, TrainingError> {
    batches_of_lengths(plan, &[])
}

fn batches_of_lengths(plan: &Plan, lengths: &[usize]) -> Result<Arc<dyn BatchSource>, TrainingError> {
    let run = plan.run();
    if !run.model.learns() {
        return Ok(Arc::new(Zeros));
    }
    let batches = corpus(plan)?.training_batches(batch_layout(plan), run.seed)?;
    Ok(Arc::new(batches.of_lengths(lengths)))
}

/// The text of a plan's run.
pub(super) fn corpus(plan: &Plan) -> Result<Corpus, DataError> {
    Corpus::load(&plan.run().data, plan.micro_batch_shape().seq_length, plan.vocab_size())
}
