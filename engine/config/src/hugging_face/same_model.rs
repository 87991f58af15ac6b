//! Whether a run trains the model of a folder.

use std::path::Path;

use pipezero_models::ModelConfig;

use super::config_json::PublishedModel;
use super::error::HuggingFaceError;
use super::fit::Fit;
use crate::model_sizes::{first_difference, sizes};
use crate::resolved::Run;

impl PublishedModel {
    /// The model of a folder whose weights a run begins with. Where config.json ties the head, and the run file says itself whether it is tied, that counts.
    ///
    /// # Errors
    /// When config.json cannot be read, as [`PublishedModel::open`]; when the weights compute something else than the run's model would with
    /// them.
    pub fn open_for(run: &Run, folder: &Path, fit: Fit) -> Result<Self, HuggingFaceError> {
        let mut model = Self::open(folder)?;
        if let (Some(theirs), Some(ours)) = (model.model.gpt_mut(), run.model.gpt())
            && theirs.tie_embeddings
            && run.tie_is_written
        {
            theirs.tie_embeddings = ours.tie_embeddings;
            model.tie_is_written = true;
        }
        model.check_is(&run.model, folder, fit)?;
        Ok(model)
    }

    /// Refuses a folder whose weights compute something else than a run's model would with them.
    fn check_is(&self, run: &ModelConfig, folder: &Path, fit: Fit) -> Result<(), HuggingFaceError> {
        let wrong = |reason: String| Err(HuggingFaceError::tensors(&folder.join(Self::FILE), reason));
        let [theirs, ours] = [&self.model, run].map(ModelConfig::facts);
        if theirs.family != ours.family {
            return wrong(format!(
                "its model is of family \"{}\", and the run's of \"{}\"",
                theirs.family, ours.family
            ));
        }
        if let Some((key, theirs, ours)) = first_difference(&sizes(&self.model), run, fit) {
            if key == "tie_embeddings" {
                return wrong(format!(
                    "its `{key}` is {theirs}, and the run's `model.{key}` {ours}; make them equal"
                ));
            }
            return wrong(format!(
                "its `{key}` is {theirs}, and the run's {ours}; `\"model\": {{\"from\": \"{}\"}}` takes all sizes from there",
                folder.display()
            ));
        }
        let [longest, seq_length] = [&self.model, run].map(ModelConfig::seq_length);
        if matches!(run, ModelConfig::Gpt2(_)) && seq_length > longest {
            return wrong(format!(
                "it knows {longest} positions, and the run's `model.seq_length` is {seq_length}; use at most {longest}"
            ));
        }
        if let Some(window) = self.window.filter(|&window| seq_length > window) {
            return wrong(format!(
                "its tokens see only the last {window} (`sliding_window`), which is not offered where sequences are longer, and the run's \
                 `model.seq_length` is {seq_length}; use {window} or less"
            ));
        }
        Ok(())
    }
}
