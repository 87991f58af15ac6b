//! A run for Hugging Face's transformers: its weights, its tokenizer, and the tokens that begin and end a text.

use std::io;
use std::path::Path;

use pipezero_config::hugging_face::{
    About, ExportForm, Fit, HuggingFaceError, Origin, PublishedModel, SpecialTokens,
};
use pipezero_files::input::read_text;
use pipezero_files::partial::{self, Existing};
use pipezero_models::model::Tying;
use pipezero_run::checkpoint::Checkpoints;
use pipezero_run::engine::{EngineError, OwnWeights, WeightsError};
use pipezero_tokens::Tokenizer;
use serde_json::Value;

use super::run_dir::RunDir;
use super::trained::TrainedRunError;
use super::weights_run::model_of_run;

impl RunDir {
    /// The run directory at this path, or the one of the checkpoint there.
    pub fn around(path: &Path) -> Option<Self> {
        if let Ok(run) = Self::of_run_file(path) {
            return Some(run);
        }
        let absolute = std::fs::canonicalize(path).ok()?;
        let checkpoints = absolute.parent().filter(|folder| folder.ends_with(Checkpoints::NAME))?;
        Self::of_run_file(checkpoints.parent()?).ok()
    }

    /// The folder of a run whose weights file is newer than every checkpoint.
    ///
    /// # Errors
    /// When its summary is damaged.
    pub fn with_newest_weights(path: &Path) -> Result<Option<Self>, TrainedRunError> {
        let Ok(run) = Self::open(path) else { return Ok(None) };
        let steps = Checkpoints::of_run(path).steps().map_err(EngineError::from)?;
        let Some(newest) = steps.last() else { return Ok(Some(run)) };
        let is_newer = run.steps_of_finished()?.is_some_and(|steps| steps > *newest);
        Ok(is_newer.then_some(run))
    }

    /// Writes the weights of a finished run with a config.json to a folder that exists, as
    /// [`CheckpointReader::export_published`](pipezero_run::checkpoint::CheckpointReader::export_published) does those of a checkpoint.
    ///
    /// # Errors
    /// When transformers has no such model; when the run file has mistakes; when weights are damaged, or files cannot be read or written.
    pub fn export_published(&self, folder: &Path, form: ExportForm) -> Result<Vec<String>, TrainedRunError> {
        let model = model_of_run(self)?;
        let published =
            PublishedModel::of(&model).map_err(|error| EngineError::from(WeightsError::from(error)))?;
        let layers = model.build().expect("a run file's model was checked").layers;
        // A tied weight is in the file once.
        let own = layers.iter().filter(|layer| layer.tying != Tying::Head);
        let specs: Vec<_> = own.flat_map(|layer| layer.layer.parameters()).collect();
        let weights = OwnWeights::open(&self.file(Self::WEIGHTS), specs.iter(), Fit::Same)
            .map_err(EngineError::from)?;
        let names = specs.iter().map(|spec| &*spec.name);
        let read = |name: &str, first: usize, values: &mut [f32]| {
            weights.read(name, first, values).map(drop).map_err(WeightsError::io(weights.path()))
        };
        let about = self.about_model().map_err(|error| EngineError::from(WeightsError::from(error)))?;
        Ok(published.export(folder, &about, form, names, read).map_err(EngineError::from)?)
    }

    /// The settings that an export of the run writes next to the weights.
    ///
    /// # Errors
    /// When what the run has kept of the folder that its model came from cannot be read.
    pub fn about_model(&self) -> Result<About, HuggingFaceError> {
        Ok(About { origin: Origin::kept_in(self.path())?, tokens: self.special_tokens() })
    }

    /// The tokens that begin and end a text: the one that the run file says, and what tokenizer_config.json beside the tokenizer calls
    /// `bos_token`, if the tokenizer has it.
    pub fn special_tokens(&self) -> SpecialTokens {
        let json = |name: &str, bytes_max| -> Option<Value> {
            serde_json::from_str(&read_text(&self.file(name), bytes_max).ok()?).ok()
        };
        let number = |run: Value| u32::try_from(run.pointer("/data/end_token")?.as_u64()?).ok();
        let bos = |config: Value| {
            let token = &config["bos_token"];
            let name = token.as_str().or_else(|| token["content"].as_str())?;
            // A token is looked up by its name where it is asked for as the last of a text.
            Tokenizer::load(&self.file(Self::TOKENIZER), Some(name)).ok()?.end_token()
        };
        SpecialTokens {
            bos: json(Self::TOKENIZER_CONFIG, Self::RUN_FILE_BYTES_MAX).and_then(bos),
            eos: json(Self::RUN_FILE, Self::RUN_FILE_BYTES_MAX).and_then(number),
        }
    }

    /// Copies the tokenizer, and what transformers keeps beside it, as far as the run has them and the folder does not.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn copy_tokenizer(&self, folder: &Path) -> io::Result<()> {
        for name in [Self::TOKENIZER].into_iter().chain(Self::BESIDE_TOKENIZER) {
            let is_there = std::fs::symlink_metadata(folder.join(name)).is_ok();
            if self.file(name).is_file() && !is_there {
                partial::copy(&self.file(name), &folder.join(name), Existing::Kept)?;
            }
        }
        Ok(())
    }
}
