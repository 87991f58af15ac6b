//! What the ranks agree on beside the program: how many buffers there are.

pub use crate::gather_buffers::gather_buffer_bytes;
pub use crate::gradient_buffers::{gradient_buffer_bytes, unreduced_gradients};

/// Buffers into which an edge receives. One would make the next message wait for the consumer of the last.
pub const RECEIVE_BUFFERS: usize = 2;

/// The fewest buffers out of which a stage sends input gradients: one being filled, one being sent. Where a rank turns
/// to another stage while its messages wait, it has as many as wait, see
/// [`crate::CheckedProgram::num_gradient_send_buffers`]. Activations are sent out of their own slot.
pub const GRADIENT_SEND_BUFFERS: usize = 2;

/// Activation slots of a stage that sends and has no backward, in an evaluation or in front of all that is trained: one being computed, one
/// being sent. In front of what is trained it may be more, see [`crate::CheckedProgram::num_slots`].
pub const FORWARD_SLOTS: usize = 2;
