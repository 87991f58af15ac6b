//! Steps of training.

use super::command::Command;
use super::error::EngineError;
use super::kind::Training;
use super::report::StepReport;
use super::{Engine, first};
use crate::executor::StepInputs;
use crate::optimizer::{LossScaler, ScaleChange};
use crate::world::ClockOffset;

impl Engine<Training> {
    /// One optimizer step on the next batch of the source.
    ///
    /// # Errors
    /// When a rank stops; the report names every rank's instruction. No step is half done on disk, but the weights in
    /// memory are lost. [`EngineError::Unread`] where tokens cannot be read, [`EngineError::NotFinite`] where the loss or a gradient is not finite, [`EngineError::LossScale`] where fp16
    /// overflows at the lowest loss scale; weights are kept then.
    pub fn train_batch(&mut self) -> Result<StepReport, EngineError> {
        self.train(self.records)
    }

    /// As [`Engine::train_batch`], and the report holds what happened to each rank's instructions and when, whether or not the
    /// engine records all steps. What is recorded costs a mark of the compute queue for each event and changes no
    /// number.
    ///
    /// # Errors
    /// As [`Engine::train_batch`].
    pub fn train_batch_recorded(&mut self) -> Result<StepReport, EngineError> {
        self.train(true)
    }

    fn train(&mut self, records: bool) -> Result<StepReport, EngineError> {
        let (step, update) = (self.step + 1, self.update + 1);
        let learning_rate = self.learning_rate.at(update);
        let loss_scale = self.loss_scaler.as_ref().map(LossScaler::scale);
        let inputs =
            StepInputs { step, update, learning_rate, loss_scale: loss_scale.unwrap_or(1.0), records };
        let before = self.clock_offset(records)?;
        let outcomes = self.ranks.ask_for_outcomes(&Command::Train(inputs))?;
        // Clocks drift, so it is asked for on both sides of the step.
        let clock = before.and(self.clock_offset(records)?);
        let found = first(&outcomes).clone();
        let overflowed = found.overflowed;
        let unread = outcomes.iter().find_map(|outcome| outcome.unread.clone());
        let tokens_digest =
            outcomes.iter().fold(0_u64, |sum, outcome| sum.wrapping_add(outcome.tokens_digest));
        let processes = self.gather_outcomes(clock, outcomes)?;
        if overflowed {
            self.check_left_out(inputs, unread)?;
        }
        self.tokens_digest = tokens_digest;
        self.update_loss_scale(step, overflowed)?;
        self.step = step;
        self.update += u64::from(!overflowed);
        self.num_samples += self.plan.run().batch.train_batch_size as u64;
        let mut report = StepReport::new(inputs, loss_scale, self.plan.loss_parts(), &found, processes);
        tracing::debug!(step, loss = report.loss, step_s = report.step_s, "step");
        report.next_loss_scale = self.loss_scaler.as_ref().map(LossScaler::scale);
        Ok(report)
    }

    /// How far this process's clock is ahead of the first one's, if events are recorded.
    fn clock_offset(&mut self, records: bool) -> Result<ClockOffset, EngineError> {
        if records { self.ranks.together(|world| world.clock_offset()) } else { Ok(ClockOffset::ZERO) }
    }

    /// Updates the loss scale after a step and logs its change. That a step was left out is in its report, and the caller shows
    /// it.
    fn update_loss_scale(&mut self, step: u64, overflowed: bool) -> Result<(), EngineError> {
        let Some(scaler) = &mut self.loss_scaler else { return Ok(()) };
        let scale = scaler.scale();
        let change = scaler.update(overflowed);
        match (overflowed, change) {
            (_, ScaleChange::Exhausted) => return Err(EngineError::LossScale { step, scale }),
            (true, ScaleChange::To(next)) => {
                tracing::debug!(
                    step,
                    scale,
                    next,
                    "a gradient overflowed: step left out, loss scale lowered"
                );
            }
            (true, ScaleChange::Kept) => {
                tracing::debug!(step, scale, "a gradient overflowed: step left out, loss scale kept");
            }
            (false, ScaleChange::To(next)) => tracing::info!(step, scale, next, "loss scale raised"),
            (false, ScaleChange::Kept) => {}
        }
        Ok(())
    }
}
