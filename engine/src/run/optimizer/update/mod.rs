//! One door to every optimizer: what an update works on, and the choice of its kind.

use super::{AdamW, DecayRanges, Sgd};
use crate::config::OptimizerConfig;

/// An optimizer and its hyper-parameters. The state lives with whoever owns the elements: `num_states` flat runs as
/// long as the parameters, all zero before the first step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Optimizer {
    /// Adam with decoupled weight decay.
    AdamW(AdamW),
    /// Stochastic gradient descent with momentum.
    Sgd(Sgd),
}

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

impl Optimizer {
    /// The optimizer that a run file describes.
    pub fn new(config: &OptimizerConfig) -> Self {
        match *config {
            OptimizerConfig::AdamW { lr: _, betas, eps, weight_decay, no_decay: _ } => {
                Self::AdamW(AdamW { betas, eps, weight_decay })
            }
            OptimizerConfig::Sgd { lr: _, momentum, weight_decay, no_decay: _ } => {
                Self::Sgd(Sgd { momentum, weight_decay })
            }
        }
    }

    /// State elements per parameter.
    pub fn num_states(&self) -> usize {
        match self {
            Self::AdamW(_) => AdamW::NUM_STATES,
            Self::Sgd(sgd) => sgd.num_states(),
        }
    }

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
        match self {
            Self::AdamW(adamw) => adamw.update(decay, update),
            Self::Sgd(sgd) => sgd.update(decay, update),
        }
    }
}

#[cfg(test)]
mod tests;
