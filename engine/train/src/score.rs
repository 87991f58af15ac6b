//! The loss of a finished run's model on some text.

use std::path::PathBuf;
use std::sync::Arc;

use pipezero_config::Resources;
use pipezero_models::layer::IGNORED_TARGET;
use pipezero_plan::Plan;
use pipezero_run::data::{BatchLayout, BatchSource, Corpus, DataError, TokenBatch};
use pipezero_run::engine::batch_layout;
use pipezero_run::engine::{Engine, EngineError, LoadedWeights};
use pipezero_run::world::{World, world_of};
use pipezero_tokens::TextCodec;

use super::batches::corpus;
use super::evaluate::evaluate;
use super::trained::{TrainedRun, TrainedRunError};

/// Which sequences are scored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scored {
    /// So many batches, drawn at random and the same in every call; `None` is the number of the run file.
    Batches(Option<u64>),
    /// All, each once: every token but the first is predicted.
    All,
}

/// The loss of a model on some text.
#[derive(Clone, Debug, PartialEq)]
pub struct Score {
    /// Tokens that were predicted.
    pub num_tokens: u64,
    /// Bytes of their text; `None` of tokens without a tokenizer that could say it.
    pub num_bytes: Option<u64>,
    /// Mean loss, nats per token.
    pub loss: f64,
    /// The type and the devices that it was computed in and on: `f32 on CPU`.
    pub computed_in: String,
    /// The weights that were read for it.
    pub loaded_weights: Option<LoadedWeights>,
}

impl Score {
    /// How many tokens the model is undecided between, on average.
    pub fn perplexity(&self) -> f64 {
        self.loss.exp()
    }

    /// Bits per byte of text, by which models of different tokenizers compare.
    pub fn bits_per_byte(&self) -> Option<f64> {
        let bits = self.loss * self.num_tokens as f64 / std::f64::consts::LN_2;
        self.num_bytes.filter(|&bytes| bytes > 0).map(|bytes| bits / bytes as f64)
    }
}

impl TrainedRun {
    /// Scores sequences of the run's validation data or, if `data` names files, of those.
    ///
    /// # Errors
    /// When the model has not learned anything, the data cannot be read, is too short or has fewer batches than are asked for, or the ranks
    /// cannot be started.
    pub fn score(&self, data: &[PathBuf], scored: Scored) -> Result<Score, TrainedRunError> {
        self.score_in(data, scored, |plan| Ok(world_of(plan)?))
    }

    /// As [`TrainedRun::score`], in a world for its plan; each process gets the score.
    ///
    /// # Errors
    /// As [`TrainedRun::score`].
    pub fn score_in(
        &self,
        data: &[PathBuf],
        scored: Scored,
        world: impl FnOnce(&Plan) -> Result<Arc<dyn World>, EngineError>,
    ) -> Result<Score, TrainedRunError> {
        let (run, _) = self.file.resolve_without_training(Resources::this_host())?;
        if !run.model.learns() {
            return Err(TrainedRunError::NothingLearned("score"));
        }
        let plan = Plan::new(run)?;
        let corpus = match data {
            [] => corpus(&plan).map_err(TrainedRunError::RunText)?,
            paths => {
                let (seq_length, vocab_size) = (plan.micro_batch_shape().seq_length, plan.vocab_size());
                Corpus::unsplit(paths, &plan.run().data, seq_length, vocab_size)?
            }
        };
        // Text needs to become the tokens that the model knows; files of tokens are scored without it.
        let codec = match self.codec() {
            Err(TrainedRunError::NoTokenizer) if !corpus.is_text() => None,
            codec => Some(codec?),
        };
        let (source, num_batches) = batches(&plan, &corpus, data.is_empty(), scored)?;
        let bytes = codec.filter(|codec| corpus.is_text() || matches!(codec, TextCodec::Tokenizer(_)));
        let bytes = bytes.map(|codec| BytesOfTargets { codec, layout: batch_layout(&plan) });
        let world = world(&plan)?;
        // A run file can ask for batches of any size.
        Engine::check_host(&plan, &*world)?;
        let num_bytes = bytes.map(|bytes| bytes.of(&*source, num_batches)).transpose()?;
        let mut engine = Engine::for_inference_with(plan, Arc::clone(&source), world, &self.weights)?;
        let report = evaluate(&mut engine, &source, num_batches, |_| {})?;
        let loss = report.loss.ok_or(TrainedRunError::NoTargets)?;
        Ok(Score {
            num_tokens: report.num_targets,
            num_bytes,
            loss,
            computed_in: engine.computed_in(),
            loaded_weights: engine.loaded_weights().cloned(),
        })
    }
}

/// The batches to score, and how many they are; `is_own`: of what the run held out.
fn batches(
    plan: &Plan,
    corpus: &Corpus,
    is_own: bool,
    scored: Scored,
) -> Result<(Arc<dyn BatchSource>, u64), TrainedRunError> {
    let (layout, seed) = (batch_layout(plan), plan.run().seed);
    let asked = match scored {
        Scored::All => {
            let every = corpus.every_sequence(layout, is_own)?;
            let num_batches = every.num_batches();
            return Ok((Arc::new(every), num_batches));
        }
        Scored::Batches(asked) => asked,
    };
    let drawn = match is_own {
        true => corpus.validation_batches(layout, seed)?.ok_or(DataError::NoValidation)?,
        false => corpus.training_batches(layout, seed)?,
    };
    let train_batch_size = layout.train_batch_size();
    let all = (drawn.num_samples() / train_batch_size as u64).max(1);
    match asked {
        Some(asked) if asked > all => Err(TrainedRunError::MoreThanAll { asked, all, train_batch_size }),
        asked => Ok((Arc::new(drawn), asked.unwrap_or(plan.run().evaluation.batches))),
    }
}

/// Counts the bytes of the text that targets stand for.
struct BytesOfTargets {
    codec: TextCodec,
    layout: BatchLayout,
}

impl BytesOfTargets {
    fn of(&self, source: &dyn BatchSource, num_batches: u64) -> Result<u64, TrainedRunError> {
        let BatchLayout { data_degree, num_micro_batches, micro_batch_size, seq_length } = self.layout;
        let mut batch = TokenBatch::zeros(micro_batch_size, seq_length);
        let mut num_bytes = 0;
        for step in 1..=num_batches {
            for place in 0..data_degree * num_micro_batches {
                let (data_rank, micro_batch) = (place / num_micro_batches, place % num_micro_batches);
                let read = source.micro_batch(step, data_rank, micro_batch, &mut batch);
                read.map_err(DataError::of_source)?;
                let rows = batch.inputs.chunks_exact(seq_length).zip(batch.targets.chunks_exact(seq_length));
                for (inputs, targets) in rows {
                    num_bytes += self.of_row(inputs, targets)?;
                }
            }
        }
        Ok(num_bytes)
    }

    /// The text of a row's targets is what the row's text has more than that of the inputs before them, so that what a decoder
    /// does at the beginning of a text is not counted. A special token has no text, and a character that a row cuts counts where it ends.
    fn of_row(&self, inputs: &[u32], targets: &[u32]) -> Result<u64, TrainedRunError> {
        let TextCodec::Tokenizer(tokenizer) = &self.codec else {
            return Ok(targets.iter().filter(|&&target| target != IGNORED_TARGET).count() as u64);
        };
        let mut num_bytes = 0;
        let is_scored = |target: &u32| *target != IGNORED_TARGET;
        for run in (0..targets.len())
            .collect::<Vec<_>>()
            .chunk_by(|&a, &b| is_scored(&targets[a]) == is_scored(&targets[b]))
        {
            let (first, last) = (run[0], run[run.len() - 1]);
            if is_scored(&targets[first]) {
                let whole = [&inputs[..=first], &targets[first..=last]].concat();
                let (whole, before) = (tokenizer.decode(&whole)?, tokenizer.decode(&inputs[..=first])?);
                num_bytes += whole.len().saturating_sub(before.len()) as u64;
            }
        }
        Ok(num_bytes)
    }
}
