//! Micro-batches of tokens, the same samples on every grid.

mod layout;
#[cfg(test)]
mod tests;

pub use layout::{BatchLayout, Start};

use pipezero_models::split_mix::mixed;

use super::blend::Blend;
use super::sampler::Permutation;
use super::source::{BatchError, BatchSource};
use super::stream::Stream;
use super::token_batch::TokenBatch;
use super::window::{Row, Window};

/// Micro-batches of tokens.
///
/// Sample `i` of a source is the window of `T + 1` tokens that begins at `i * T`: inputs and targets overlap in all but one token, and every
/// token is a target once per epoch, but for a rest at the end that fills no window. Sequence `i` of step `s` is number
/// `(s - 1) * train_batch_size + i` of the run, whatever the grid: that of the seeded permutations of its only source or, where several have
/// weights, of those of the source whose turn it is. A run that goes on with another batch size goes on with the sequence after the last
/// that it has read ([`TokenBatches::starting_at`]).
#[derive(Clone, Debug)]
pub struct TokenBatches {
    sources: Vec<(Stream, Permutation)>,
    /// `None` for a single source.
    blend: Option<Blend>,
    layout: BatchLayout,
    start: Start,
    attends_in_documents: bool,
    /// What [`TokenBatches::of_lengths`] was given.
    lengths: Vec<usize>,
    seed: u64,
}

impl TokenBatches {
    /// Micro-batches of these sources; `None` if one of them is shorter than `seq_length + 1`, or `seq_length` is 0.
    pub(super) fn new(
        sources: Vec<Stream>,
        blend: Option<Blend>,
        layout: BatchLayout,
        seed: u64,
    ) -> Option<Self> {
        let with_order = |(number, stream): (usize, Stream)| {
            let num_samples = stream.num_tokens().checked_sub(1)?.checked_div(layout.seq_length as u64)?;
            // Sources of the same length do not keep step.
            let permutation = Permutation::new(num_samples, seed.wrapping_add(number as u64))?;
            Some((stream, permutation))
        };
        let sources = sources.into_iter().enumerate().map(with_order).collect::<Option<Vec<_>>>()?;
        Some(Self {
            sources,
            blend,
            layout,
            start: Start::default(),
            attends_in_documents: false,
            lengths: Vec::new(),
            seed,
        })
    }

    /// The micro-batches of a run that has done some steps.
    pub fn starting_at(self, start: Start) -> Self {
        Self { start, ..self }
    }

    /// The same for a model whose tokens attend to their own document alone.
    pub fn in_documents(self, attends_in_documents: bool) -> Self {
        Self { attends_in_documents, ..self }
    }

    /// The same, but for each micro-batch one of these lengths is drawn with the seed, and only that many first tokens of each of its samples are
    /// used. All have the layout's length where there are none.
    pub fn of_lengths(self, lengths: &[usize]) -> Self {
        Self { lengths: lengths.to_vec(), ..self }
    }

    /// Sequences that have been read before a step.
    fn num_sequences_before(&self, step: u64) -> u64 {
        let num_steps = step - 1 - self.start.num_steps;
        self.start.num_sequences + num_steps * self.layout.train_batch_size() as u64
    }

    /// Number of samples of an epoch of all sources, at least one.
    pub fn num_samples(&self) -> u64 {
        self.sources.iter().map(|(_, permutation)| permutation.num_samples()).sum()
    }

    /// The source of sequence `index` of the run, and the sample of it.
    fn sample(&self, index: u64) -> (&Stream, u64) {
        let (source, index) = self.blend.as_ref().map_or((0, index), |blend| blend.of(index));
        let (stream, permutation) = &self.sources[source];
        (stream, permutation.sample(index))
    }
}

impl BatchSource for TokenBatches {
    /// # Panics
    /// If `step` is not after the start or `batch` is not of the layout's size.
    fn micro_batch(
        &self,
        step: u64,
        data_rank: usize,
        micro_batch: usize,
        batch: &mut TokenBatch,
    ) -> Result<(), BatchError> {
        let longest = self.layout.seq_length;
        let sequences = self.layout.sequences(data_rank, micro_batch);
        let seq_length = batch.inputs.len() / sequences.len();
        let first_of_step = self.num_sequences_before(step);
        let rows = Row::all(batch, seq_length);
        assert_eq!(rows.len(), sequences.len(), "a micro-batch has micro_batch_size sequences");
        let mut window = Window::of(seq_length);
        for (sequence, row) in sequences.zip(rows) {
            let (stream, sample) = self.sample(first_of_step + sequence as u64);
            stream.read(sample * longest as u64, seq_length + 1, &mut window)?;
            window.fill(row, self.attends_in_documents);
        }
        Ok(())
    }

    fn seq_length(&self, step: u64, data_rank: usize, micro_batch: usize) -> Option<usize> {
        let last = self.lengths.len().checked_sub(1)?;
        // That of its first sequence: the same however many data ranks share the batch.
        let first =
            self.num_sequences_before(step) + self.layout.sequences(data_rank, micro_batch).start as u64;
        Some(self.lengths[(mixed(mixed(self.seed) ^ first) % (last as u64 + 1)) as usize])
    }

    fn epoch(&self, step: u64) -> f64 {
        self.num_sequences_before(step + 1) as f64 / self.num_samples() as f64
    }
}
