//! The weights that an engine has read: their file, their types, and the bytes and seconds that reading took.

use std::path::Path;
use std::time::Instant;

use pipezero_models::ElementType;
use serde::Serialize;

use super::Engine;
use super::error::EngineError;
use super::kind::EngineKind;
use crate::executor::ReadWeights;

/// Weights that an engine has read, and the bytes and seconds that it took. In the process of rank 0 the figures cover all processes; in any other process, its own ranks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoadedWeights {
    /// The file, or the folder of transformers or of a checkpoint.
    pub from: String,
    /// The types of the tensors that were read.
    pub stored: Vec<String>,
    /// Bytes of tensors that ranks have read. What several ranks hold, each of them reads.
    pub read_bytes: u64,
    /// Seconds that the slowest process read.
    pub seconds: f64,
    /// The type of the run's parameters.
    pub parameter_type: String,
    /// Bytes of parameters on all ranks after reading. In 16 bits, a sharded parameter that is trained has a master copy and no others.
    pub parameter_bytes: u64,
    /// Bytes of f32 master copies on all ranks.
    pub master_bytes: u64,
    /// The most bytes that one process held for the weights while it read, counted: parameters, master copies, and pieces on their way there.
    pub process_bytes: u64,
    /// Bytes of those pieces: what that process held for no longer than it read.
    pub piece_bytes: u64,
}

impl<K: EngineKind> Engine<K> {
    /// The weights that were read last, at the start or by [`Engine::load`] and [`Engine::load_parameters`]; `None` where weights were drawn, or a run
    /// was resumed.
    pub fn loaded_weights(&self) -> Option<&LoadedWeights> {
        self.loaded_weights.as_ref()
    }

    /// Notes what all ranks have read; each process says what its own ranks have.
    pub(super) fn note_loaded(
        &mut self,
        from: &Path,
        stored: &[ElementType],
        of_ranks: &[ReadWeights],
        begun: Instant,
    ) -> Result<(), EngineError> {
        let seconds = begun.elapsed().as_secs_f64();
        let mut own = ReadWeights::default();
        of_ranks.iter().for_each(|of_rank| own += *of_rank);
        let scratch = |rank| self.ranks.ledgers(rank).scratch.total_peak_bytes();
        own.piece_bytes += self.ranks.local().map(scratch).sum::<u64>();
        let of_processes = self.gather((own, seconds))?;
        let mut all = ReadWeights::default();
        of_processes.iter().for_each(|(of_process, _)| all += *of_process);
        let fullest = of_processes.iter().map(|(of_process, _)| of_process).max_by_key(|of| of.held_bytes());
        let fullest = fullest.copied().unwrap_or_default();
        self.loaded_weights = Some(LoadedWeights {
            from: from.display().to_string(),
            stored: stored.iter().map(ElementType::to_string).collect(),
            read_bytes: all.read_bytes,
            seconds: of_processes.iter().map(|(_, seconds)| *seconds).fold(0.0, f64::max),
            parameter_type: self.plan.element_type().to_string(),
            parameter_bytes: all.parameter_bytes,
            master_bytes: all.master_bytes,
            process_bytes: fullest.held_bytes(),
            piece_bytes: fullest.piece_bytes,
        });
        Ok(())
    }
}

impl LoadedWeights {
    /// In which types the run keeps them: `f32`, or `bf16 and an f32 master copy`.
    pub fn kept_as(&self) -> String {
        let element = &self.parameter_type;
        match (self.parameter_bytes, self.master_bytes) {
            (_, 0) => element.clone(),
            (0, _) => format!("an f32 master copy, rounded to {element} for each use"),
            _ => format!("{element} and an f32 master copy"),
        }
    }
}
