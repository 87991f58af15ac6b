//! The optimizer: what turns reduced gradients into new weights, on the elements that a rank owns.
//!
//! One step is, in order: [`SquareSum`](pipezero_models::kernels::square_sum::SquareSum) of every owned gradient, added over all ranks; [`clip_factor`] of its root;
//! [`LearningRate::at`] this step; [`Update::apply`] to every owned part
//! with [`DecayRanges`]. No file here knows ranks: a shard is a view, and an element's new value depends only on its own
//! old values and the step's numbers. So weights do not depend on where shards are cut.

mod clip;
mod decay;
mod learning_rate;
mod loss_scale;
mod update;

#[cfg(test)]
mod tests;

pub use clip::clip_factor;
pub use decay::DecayRanges;
pub use learning_rate::LearningRate;
pub use loss_scale::{LossScale, LossScaler, ScaleChange};
pub use update::Update;
