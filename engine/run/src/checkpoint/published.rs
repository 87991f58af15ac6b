//! The weights of a checkpoint for Hugging Face's transformers.

use std::path::Path;

use pipezero_config::hugging_face::{About, ExportForm, HuggingFaceError, PublishedModel};
use pipezero_models::{GptConfig, LlamaConfig, ModelConfig};
use serde::Deserialize;

use super::cursor::Cursor;
use super::error::CheckpointError;
use super::piece::Piece;
use super::reader::CheckpointReader;

impl CheckpointReader {
    /// Writes the weights with a config.json to a folder that exists, and returns what of the model's folder could not be kept, as
    /// [`PublishedModel::export`] does.
    ///
    /// # Errors
    /// When transformers has no such model; when a file is damaged, or cannot be read or written.
    pub fn export_published(
        &self,
        folder: &Path,
        about: &About,
        form: ExportForm,
    ) -> Result<Vec<String>, CheckpointError> {
        let published = PublishedModel::of(&self.model()?)?;
        let names = self.manifest().parameters.iter().map(|parameter| &*parameter.name);
        let mut cursor = Cursor::new(self);
        published.export(folder, about, form, names, |name, first, values| {
            cursor.read(Piece::PARAMETER, name, first, values)
        })
    }

    /// The model, as the manifest has it.
    fn model(&self) -> Result<ModelConfig, CheckpointError> {
        let damaged =
            |reason: String| CheckpointError::damaged(&self.folder().join(super::Manifest::FILE), reason);
        let family = self.manifest().run.get("model").and_then(|model| model.as_object()?.iter().next());
        let (name, sizes) = family.ok_or_else(|| damaged("its run has no model".to_owned()))?;
        let model = match &**name {
            "gpt2" => GptConfig::deserialize(sizes).map(ModelConfig::Gpt2),
            "llama" => LlamaConfig::deserialize(sizes).map(ModelConfig::Llama),
            _ => return Err(HuggingFaceError::of_family(name).into()),
        };
        model.map_err(|error| damaged(error.to_string()))
    }
}
