//! The logits that follow prompts.

use super::Engine;
use super::command::Command;
use super::error::EngineError;
use super::kind::EngineKind;

impl<K: EngineKind> Engine<K> {
    /// The logits `[V]` that follow `tokens`, through the pipeline.
    ///
    /// # Errors
    /// As [`Engine::logits_of`].
    pub fn logits(&mut self, tokens: &[u32]) -> Result<Vec<f32>, EngineError> {
        Ok(self.logits_of(&[tokens.to_vec()])?.swap_remove(0))
    }

    /// The logits `[V]` that follow each of several prompts, which go through the pipeline one behind the other: at most as many as an
    /// evaluation has micro-batches.
    ///
    /// # Errors
    /// [`EngineError::PromptLength`] for no tokens or more than a sequence, [`EngineError::PromptToken`] for one outside
    /// the vocabulary, [`EngineError::NumPrompts`] for none or too many prompts; otherwise as [`Engine::train_batch`].
    pub fn logits_of(&mut self, prompts: &[Vec<u32>]) -> Result<Vec<Vec<f32>>, EngineError> {
        let seq_length = self.plan.micro_batch_shape().seq_length;
        let (vocab_size, at_most) =
            (self.plan.vocab_size(), self.plan.evaluation().num_micro_batches() as usize);
        if !(1..=at_most).contains(&prompts.len()) {
            return Err(EngineError::NumPrompts { num_prompts: prompts.len(), at_most });
        }
        for tokens in prompts {
            if tokens.is_empty() || tokens.len() > seq_length {
                return Err(EngineError::PromptLength { num_tokens: tokens.len(), seq_length });
            }
            if let Some(&token) = tokens.iter().find(|&&token| token as usize >= vocab_size) {
                return Err(EngineError::PromptToken { token, vocab_size });
            }
        }
        let logits = self.ranks.ask_for_values(&Command::Logits { prompts: prompts.into() })?;
        let bytes = logits.iter().flat_map(|logit| logit.to_le_bytes()).collect();
        let bytes = self.ranks.together(|world| world.broadcast(bytes))?;
        let logits: Vec<f32> = bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
        Ok(logits.chunks_exact(self.plan.num_logits()).map(<[f32]>::to_vec).collect())
    }
}
