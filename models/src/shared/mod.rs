//! What families that read tokens have in common: their sizes, the token embedding, the final norm and the head.

mod chain;
mod config;
mod ends;
mod final_norm;
mod head;
mod head_with_loss;
mod linear;
#[cfg(test)]
mod tests;
mod token_embedding;
mod vocabulary;

pub use chain::chain;
pub use config::{Ablation, GptConfig, GptSizes};
pub(crate) use ends::{heads, token_embeddings};
pub use final_norm::FinalNorm;
pub use head::Head;
pub use head_with_loss::HeadWithLoss;
pub use linear::Linear;
pub use token_embedding::TokenEmbedding;
pub use vocabulary::{HeadLogits, VocabularyOptions, block_tokens, num_blocks};
