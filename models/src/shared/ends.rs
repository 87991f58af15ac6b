//! The two ends of a model that reads tokens, between which a family puts its layers.

use std::sync::Arc;

use super::{GptConfig, Head, HeadWithLoss, TokenEmbedding, VocabularyOptions};
use crate::error::{ModelError, require};
use crate::loss::Loss;
use crate::model::{LayerRole, ModelLayer, Tying};

/// The token embedding, or its slices.
pub(crate) fn token_embeddings(config: &GptConfig) -> impl Iterator<Item = ModelLayer> {
    let tying = if config.tie_embeddings { Tying::Embedding } else { Tying::Untied };
    let layer = move |slice| ModelLayer::new(TokenEmbedding::new(config, slice), LayerRole::Embedding, tying);
    config.vocabulary.slices().map(layer)
}

/// The head, or its slices; a loss that the caller brings is given whole rows of logits.
///
/// # Errors
/// [`ModelError::Shape`] where such a loss meets slices or logits that are not kept.
pub(crate) fn heads(config: &GptConfig, loss: Option<Arc<dyn Loss>>) -> Result<Vec<ModelLayer>, ModelError> {
    let tying = if config.tie_embeddings { Tying::Head } else { Tying::Untied };
    let Some(loss) = loss else {
        let layer = |slice| ModelLayer::new(Head::new(config, slice), LayerRole::Head, tying);
        return Ok(config.vocabulary.slices().map(layer).collect());
    };
    let rule =
        "must be 1, with logits kept, for a loss of one's own: it may read all logits of a row at once";
    let is_whole = config.vocabulary == VocabularyOptions::WHOLE;
    require(is_whole, "vocabulary_slices", config.vocabulary.num_slices, rule)?;
    Ok(vec![ModelLayer::new(HeadWithLoss::new(config, loss), LayerRole::Head, tying)])
}
