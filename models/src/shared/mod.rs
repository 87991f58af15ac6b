//! What GPT-2 and the MLP family have in common: their sizes, the token embedding and the head.

mod config;
mod head;
mod token_embedding;

pub use config::{Ablation, GptConfig, GptSizes};
pub use head::Head;
pub use token_embedding::TokenEmbedding;
