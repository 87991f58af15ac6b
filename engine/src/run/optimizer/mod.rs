//! The optimizer: what turns reduced gradients into new weights, on the elements that a rank owns.
//!
//! One step is, in order: [`SquareSum`] of every owned gradient, added over all ranks; [`clip_factor`] of its root;
//! [`LearningRate::at`] this step; [`OptimizerConfig::update`] of every owned part with [`DecayRanges`]. No file here knows
//! ranks: a shard is a slice, and an element's new value depends only on its own old values and the step's numbers. So
//! weights do not depend on where shards are cut.

mod adamw;
mod clip;
mod decay;
mod learning_rate;
mod loss_scale;
mod norm;
mod sgd;
mod update;

#[cfg(test)]
mod tests;

pub use clip::clip_factor;
pub use decay::DecayRanges;
pub use learning_rate::LearningRate;
pub use loss_scale::{LossScaler, ScaleChange};
pub use norm::{NUM_LIMBS, SquareSum};
pub use update::Update;

use adamw::AdamW;
use sgd::Sgd;

use crate::config::OptimizerConfig;

/// The state is held by the owner of the elements: [`OptimizerConfig::num_states`] flat arrays as long as the parameters,
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
