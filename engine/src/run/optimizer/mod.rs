//! The optimizer: what turns reduced gradients into new weights, on the elements that a rank owns.
//!
//! One step is, in order: [`SquareSum`] of every owned gradient, added over all ranks; [`clip_factor`] of its root;
//! [`LearningRate::at`] this step; [`OptimizerConfig::update`](crate::config::OptimizerConfig::update) of every owned part with [`DecayRanges`]. No file here knows of
//! ranks: a shard is a slice, and an element's new value depends on nothing but its own old values and the step's
//! numbers. So weights do not depend on where shards cut.

mod adamw;
mod clip;
mod decay;
mod learning_rate;
mod loss_scale;
mod norm;
mod sgd;
mod update;

pub use clip::clip_factor;
pub use decay::{DecayRanges, Segment};
pub use learning_rate::LearningRate;
pub use loss_scale::{LossScaler, ScaleChange};
pub use norm::{NUM_LIMBS, SquareSum};
pub use update::Update;
