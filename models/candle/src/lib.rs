//! Modules over candle tensors as layers.
//!
//! [`CandleLayer`] turns a function written with candle or `candle_nn` into a layer. The function takes parameters and activations and returns
//! activations. The engine then shards its parameters and runs it on every grid, as it does with every [`Layer`](pipezero_models::Layer):
//!
//! ```
//! use candle_core::Tensor;
//! use pipezero_candle::{CandleLayer, Parameters};
//! use pipezero_models::parameter::ParameterSpec;
//!
//! // y = x + tanh(x Wᵀ), of width 8 and sequences of 4 tokens.
//! let weight = ParameterSpec::normal("weight", [8, 8], 0.2);
//! let module = |parameters: &Parameters, input: &Tensor| {
//!     let hidden = input.broadcast_matmul(&parameters.get("weight")?.t()?)?;
//!     input + hidden.tanh()?
//! };
//! let layer = CandleLayer::new("h.0", [8, 8], 4, vec![weight], module)?;
//! # Ok::<(), pipezero_models::ModelError>(())
//! ```
//!
//! The backward runs the module once more, over variables, and asks candle's autograd for their gradients: nothing but the layer's input is kept
//! from forward to backward, and gathered weights are copied and let go. The module computes in f32, whatever a unit stores, and on the host alone. This
//! is there to bring a model that exists: a layer that asks a queue for kernels copies nothing, keeps what it likes, and runs
//! on every device.

mod autograd;
mod counted;
mod derivative;
mod layer;
mod parameters;

pub use layer::CandleLayer;
pub use parameters::Parameters;
