//! What the update of one owned part of a unit works on.

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
