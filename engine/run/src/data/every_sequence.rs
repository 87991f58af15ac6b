//! All sequences of a text, each once and in order: what `eval --all` scores.

use pipezero_models::layer::IGNORED_TARGET;

use super::batches::BatchLayout;
use super::source::{BatchError, BatchSource};
use super::stream::Stream;
use super::token_batch::TokenBatch;
use super::window::{Row, Window};

/// Batches of all sequences of some sources, in order. Every token but the first of a source is a target once: a source's last sequence may
/// be shorter than the others, and the last batch may have sequences without a target.
#[derive(Clone, Debug)]
pub struct EverySequence {
    sources: Vec<Stream>,
    layout: BatchLayout,
    attends_in_documents: bool,
}

impl EverySequence {
    pub(super) fn new(sources: Vec<Stream>, layout: BatchLayout, attends_in_documents: bool) -> Self {
        Self { sources, layout, attends_in_documents }
    }

    /// Sequences of a source.
    fn num_sequences_of(&self, source: &Stream) -> u64 {
        source.num_tokens().saturating_sub(1).div_ceil(self.layout.seq_length as u64)
    }

    /// Batches that hold all sequences.
    pub fn num_batches(&self) -> u64 {
        let num_sequences: u64 = self.sources.iter().map(|source| self.num_sequences_of(source)).sum();
        num_sequences.div_ceil(self.layout.train_batch_size() as u64)
    }

    /// The source of a sequence and where it begins there; `None` behind the last.
    fn sequence(&self, mut number: u64) -> Option<(&Stream, u64)> {
        for source in &self.sources {
            let num_sequences = self.num_sequences_of(source);
            if number < num_sequences {
                return Some((source, number * self.layout.seq_length as u64));
            }
            number -= num_sequences;
        }
        None
    }
}

impl BatchSource for EverySequence {
    fn micro_batch(
        &self,
        step: u64,
        data_rank: usize,
        micro_batch: usize,
        batch: &mut TokenBatch,
    ) -> Result<(), BatchError> {
        let seq_length = self.layout.seq_length;
        let first_of_step = (step - 1) * self.layout.train_batch_size() as u64;
        let rows = Row::all(batch, seq_length);
        let mut window = Window::of(seq_length);
        for (sequence, row) in self.layout.sequences(data_rank, micro_batch).zip(rows) {
            row.inputs.fill(0);
            row.targets.fill(IGNORED_TARGET);
            row.document_starts.fill(0);
            let Some((source, at)) = self.sequence(first_of_step + sequence as u64) else { continue };
            let num_tokens = (seq_length + 1).min((source.num_tokens() - at) as usize);
            source.read(at, num_tokens, &mut window)?;
            if let Some(rest) = row.document_starts.get_mut(num_tokens - 1..) {
                // What follows is no part of the last document, and of none that counts.
                rest.fill(num_tokens as u32 - 1);
            }
            window.fill(row.first(num_tokens - 1), self.attends_in_documents);
        }
        Ok(())
    }
}
