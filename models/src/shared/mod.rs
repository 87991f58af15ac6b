//! Layers that several families have in common.

mod head;
mod token_embedding;

pub use head::Head;
pub use token_embedding::TokenEmbedding;
