//! Layers with explicit forward and backward passes, their kernels, and the model families.
//!
//! A [`Model`] is a chain of [`Layer`]s. The engine groups consecutive layers into [`Unit`]s, each with one
//! flat parameter [`Buffer`], and calls forward and backward on them; what they compute they ask of a [`Queue`], which is a
//! device's. Nothing here knows of ranks, stages or shards.
//!
//! A unit may store 16-bit values ([`Unit::with_precision`]) and keep only the input of some of its layers
//! ([`Unit::with_checkpoints`]); what it computes does not change with how layers are grouped.
//!
//! ```
//! use pipezero_models::layer::{GradientView, LossSum, MicroBatchShape, Tokens};
//! use pipezero_models::unit::{UnitBackward, UnitForward};
//! use pipezero_models::{
//!     Ablation, Buffer, ElementType, GptConfig, Host, Queue, Unit, VocabularyOptions, gpt2, init,
//! };
//!
//! let model = gpt2::build(&GptConfig {
//!     num_layers: 2,
//!     hidden_size: 32,
//!     num_attention_heads: 4,
//!     seq_length: 8,
//!     vocab_size: 256,
//!     tie_embeddings: false,
//!     init_std: 0.02,
//!     dropout: 0.0,
//!     ablation: Ablation::None,
//!     vocabulary: VocabularyOptions::default(),
//! })?;
//! // One unit of everything; an engine makes several and gathers each when it is its turn.
//! let unit = Unit::new(model.layers.into_iter().map(|layer| layer.layer).collect());
//! let mut parameters = Buffer::zeros(unit.num_elements())?;
//! for entry in unit.entries() {
//!     init::fill(&entry.spec, 42, 0, &mut parameters.host_mut()[entry.range.clone()]);
//! }
//!
//! let shape = MicroBatchShape { num_sequences: 2, seq_length: 8 };
//! let sizes = unit.sizes(shape);
//! let inputs = Buffer::from_vec(b"To be or not to ".map(u32::from).to_vec())?;
//! let targets = Buffer::from_vec(b"o be or not to b".map(u32::from).to_vec())?;
//! let tokens = Tokens {
//!     inputs: inputs.view(),
//!     targets: targets.view(),
//!     document_starts: None,
//!     loss_inputs: None,
//!     masks: None,
//!     encoder_inputs: None,
//! };
//! let mut saved = Buffer::zeros(sizes.saved)?;
//! let mut workspace = Buffer::zeros(sizes.workspace)?;
//! let mut loss = Buffer::zeros_of(LossSum::NUM_WORDS, ElementType::U32)?;
//! unit.forward(
//!     &Host,
//!     shape,
//!     UnitForward {
//!         tokens,
//!         parameters: parameters.view().into(),
//!         input: &Buffer::zeros(0)?,
//!         output: &mut Buffer::zeros(0)?,
//!         saved: &mut saved,
//!         recomputed: &mut Buffer::zeros(sizes.recompute)?,
//!         workspace: &mut workspace,
//!         loss: loss.view_mut(),
//!         row_logits: None,
//!     },
//! );
//! let mut words = [0; LossSum::NUM_WORDS];
//! Host.download(loss.view(), &mut words).unwrap();
//! let loss = LossSum::from_words(words);
//! // Nothing is learned yet: about the logarithm of the vocabulary's size.
//! assert!((loss.sum / loss.num_targets as f64 - 256_f64.ln()).abs() < 0.1);
//!
//! let mut gradients = Buffer::zeros(unit.num_elements())?;
//! unit.backward(
//!     &Host,
//!     shape,
//!     UnitBackward {
//!         tokens,
//!         parameters: parameters.view().into(),
//!         gradient: &mut Buffer::zeros(sizes.gradient)?,
//!         saved: &mut saved,
//!         recomputed: &mut Buffer::zeros(sizes.recompute)?,
//!         parameter_gradients: GradientView::overwriting(gradients.view_mut()).into(),
//!         workspace: &mut workspace,
//!         loss_seed: 1.0 / shape.num_tokens() as f32,
//!     },
//! );
//! # Ok::<(), pipezero_models::ModelError>(())
//! ```

pub mod buffer;
pub mod distillation;
pub mod element;
pub mod error;
pub mod facts;
pub mod family;
pub mod gpt2;
pub mod init;
pub mod input_encoder;
pub mod kernels;
pub mod layer;
pub mod layout;
pub mod llama;
pub mod loss;
pub mod memory;
pub mod micro_batch;
pub mod mlp;
pub mod model;
pub mod parameter;
pub mod queue;
pub mod shared;
pub mod split_mix;
#[cfg(test)]
mod testing;
pub mod timed;
pub mod unit;
pub mod views;

pub use buffer::Buffer;
pub use distillation::{Distillation, DistillationLoss};
pub use element::{Element, ElementType};
pub use error::ModelError;
pub use facts::Facts;
pub use family::ModelConfig;
pub use input_encoder::{EncoderLimits, EncoderModule, InputEncoder};
pub use layer::Layer;
pub use llama::{LlamaConfig, RopeScaling};
pub use loss::{CrossEntropy, Loss};
pub use memory::{View, ViewMut};
pub use model::Model;
pub use queue::{Device, Host, Queue};
pub use shared::{Ablation, GptConfig, HeadLogits, VocabularyOptions};
pub use timed::TimedConfig;
pub use unit::Unit;
