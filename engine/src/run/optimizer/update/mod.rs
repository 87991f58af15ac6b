//! The update of owned elements by the optimizer that the run file names.

use super::DecayRanges;
use super::adamw::AdamW;
use super::sgd::Sgd;
use crate::config::OptimizerConfig;

/// What the update of one owned part of a unit works on. N elements.
#[derive(Debug)]
pub struct Update<'a> {
    /// `[N]` parameters.
    pub parameters: &'a mut [f32],
    /// `[N]` gradients, as summed over the step.
    pub gradients: &'a [f32],
    /// `[num_states, N]` state, one run after another.
    pub states: &'a mut [f32],
    /// The step, from 1.
    pub step: u64,
    /// The step's rate, see [`super::LearningRate::at`].
    pub learning_rate: f64,
    /// What every gradient is multiplied by first: the loss's normalisation times [`super::clip_factor`].
    pub gradient_scale: f32,
}

/// The state lives with whoever owns the elements: [`OptimizerConfig::num_states`] flat runs as long as the parameters,
/// all zero before the first step.
impl OptimizerConfig {
    /// Updates parameters and state, on the threads of the current rayon pool. `decay` counts from the part's first
    /// element ([`DecayRanges::within`]).
    ///
    /// An element's bits depend on its own values and the step's numbers alone: not on where the part was cut out of
    /// its unit, nor on the number of threads.
    ///
    /// # Panics
    /// If a slice's length is not that of [`Update`]'s documentation.
    pub fn update(&self, decay: &DecayRanges, update: Update<'_>) {
        let len = update.parameters.len();
        assert_eq!(update.gradients.len(), len, "one gradient per parameter");
        assert_eq!(
            update.states.len(),
            self.num_states() * len,
            "{} states per parameter",
            self.num_states()
        );
        match *self {
            Self::AdamW { lr: _, betas, eps, weight_decay, no_decay: _ } => {
                AdamW { betas, eps, weight_decay }.update(decay, update);
            }
            Self::Sgd { lr: _, momentum, weight_decay, no_decay: _ } => {
                Sgd { momentum, weight_decay }.update(decay, update);
            }
        }
    }
}

#[cfg(test)]
mod tests;
