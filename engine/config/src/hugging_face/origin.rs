//! The files that a run keeps of the folder that its model came from, so that an export has the folder's settings.
//!
//! An export is then the folder's own config.json with what the run or the export has decided, its generation_config.json, and for GPT-2,
//! whose positions are a table, the positions beyond the run's sequences.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use pipezero_files::input::read_text_of_folder;
use pipezero_files::opened::open_regular;
use pipezero_files::partial::{Existing, PartialFile};
use pipezero_files::safetensors::{Header, HeaderError, f32_header};
use pipezero_models::ModelConfig;
use serde_json::{Map, Value};

use super::config_json::{CONFIG_BYTES_MAX, PublishedModel, SpecialTokens};
use super::error::HuggingFaceError;
use super::fit::Fit;
use super::folder::PublishedWeights;
use super::tensors::POSITIONS;
use crate::model_sizes::{first_difference, sizes};
use crate::resolved::Run;

/// The kept files of a folder; empty if the model came from none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Origin {
    config: Option<String>,
    generation_config: Option<String>,
    /// The rows of the table of positions behind those of the run, one after the other.
    positions: Vec<f32>,
}

impl Origin {
    /// The folder's config.json in a run directory.
    const CONFIG: &str = "from.config.json";
    /// Its generation_config.json in a run directory.
    const GENERATION_CONFIG: &str = "from.generation_config.json";
    /// Its positions that the run does not train, in a run directory.
    const REST_OF_POSITIONS: &str = "from.positions.safetensors";
    /// The files of a run directory.
    pub const FILES: [&str; 3] = [Self::CONFIG, Self::GENERATION_CONFIG, Self::REST_OF_POSITIONS];
    /// The file of a folder that says how text is generated.
    const OF_GENERATION: &str = "generation_config.json";

    /// Reads the files to keep of the folder whose sizes a run has. If `has_weights`, it has the folder's weights too.
    ///
    /// # Errors
    /// When files cannot be read.
    pub fn of_folder(folder: &Path, run: &Run, has_weights: bool) -> Result<Self, HuggingFaceError> {
        let config = Some(PublishedModel::text_of(folder)?);
        let generation_config = text_if_there(&folder.join(Self::OF_GENERATION))?;
        let positions = if has_weights { rest_of_positions(folder, run)? } else { Vec::new() };
        Ok(Self { config, generation_config, positions })
    }

    /// Reads the files that a run directory has kept.
    ///
    /// # Errors
    /// When files are damaged or cannot be read.
    pub fn kept_in(directory: &Path) -> Result<Self, HuggingFaceError> {
        Ok(Self {
            config: text_if_there(&directory.join(Self::CONFIG))?,
            generation_config: text_if_there(&directory.join(Self::GENERATION_CONFIG))?,
            positions: read_positions(&directory.join(Self::REST_OF_POSITIONS))?,
        })
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Writes it to a run directory, in place of what an earlier start of the run has left there.
    ///
    /// # Errors
    /// When a file cannot be written or removed.
    pub fn write_to(&self, directory: &Path) -> Result<(), HuggingFaceError> {
        for (name, text) in [(Self::CONFIG, &self.config), (Self::GENERATION_CONFIG, &self.generation_config)]
        {
            write_or_remove(&directory.join(name), text.as_ref().map(String::as_bytes))?;
        }
        let path = directory.join(Self::REST_OF_POSITIONS);
        let bytes = (!self.positions.is_empty()).then(|| {
            let shape = [self.positions.len()];
            let mut bytes = f32_header([(POSITIONS, &shape[..])].into_iter())?;
            bytes.extend(self.positions.iter().flat_map(|value| value.to_le_bytes()));
            Ok(bytes)
        });
        let bytes = bytes.transpose().map_err(HuggingFaceError::io(&path))?;
        write_or_remove(&path, bytes.as_deref())
    }

    /// A model with all positions that are kept, which lie behind its own.
    pub(super) fn with_all_positions(&self, model: &PublishedModel) -> PublishedModel {
        let mut model = model.clone();
        if let ModelConfig::Gpt2(gpt) = &mut model.model {
            let rest = self.positions.len() / gpt.hidden_size;
            let is_of_it = self.published().is_some_and(|from| {
                from.model.seq_length() == gpt.seq_length + rest
                    && from.model.gpt().is_some_and(|from| from.hidden_size == gpt.hidden_size)
            });
            if is_of_it {
                gpt.seq_length += rest;
            }
        }
        model
    }

    /// The kept positions' elements, one row after the other.
    pub(super) fn positions(&self) -> &[f32] {
        &self.positions
    }

    /// The generation_config.json for an export.
    pub(super) fn write_generation_config(&self, folder: &Path) -> Result<(), HuggingFaceError> {
        match &self.generation_config {
            Some(text) => write_or_remove(&folder.join(Self::OF_GENERATION), Some(text.as_bytes())),
            None => Ok(()),
        }
    }

    fn published(&self) -> Option<PublishedModel> {
        PublishedModel::parse(PublishedModel::FILE, self.config.as_ref()?).ok()
    }

    /// The config.json of an export: that of the folder, with what differs in `own`, the fields that the program would write of itself. What cannot
    /// be kept is added to `lost`. `None` where no folder is known, or it had another model.
    pub(super) fn config_json(
        &self,
        model: &PublishedModel,
        own: &Value,
        tokens: SpecialTokens,
        lost: &mut Vec<String>,
    ) -> Option<String> {
        let text = self.config.as_ref()?;
        let mut fields: Map<String, Value> = serde_json::from_str(text).ok()?;
        let from = self.published()?;
        let (theirs, ours) = (from.model.gpt()?, model.model.gpt()?);
        fields.shift_remove("_name_or_path");
        fields.insert("architectures".to_owned(), vec![from.model_type.architecture()].into());
        let dtype = if fields.contains_key("dtype") { "dtype" } else { "torch_dtype" };
        if dtype == "dtype" {
            fields.shift_remove("torch_dtype");
        }
        fields.insert(dtype.to_owned(), own["torch_dtype"].clone());
        let changes = [
            (theirs.tie_embeddings != ours.tie_embeddings, &["tie_word_embeddings"][..]),
            (theirs.init_std.to_bits() != ours.init_std.to_bits(), &["initializer_range"]),
            (
                theirs.dropout.to_bits() != ours.dropout.to_bits() || from.unequal_dropouts.is_some(),
                &["resid_pdrop", "embd_pdrop", "attn_pdrop"],
            ),
            (self.length_changes(&from, model), &["n_positions", "max_position_embeddings"]),
        ];
        for key in changes.into_iter().filter(|(changed, _)| *changed).flat_map(|(_, keys)| keys) {
            if let Some(value) = own.get(key) {
                fields.insert((*key).to_owned(), value.clone());
            }
        }
        if let (Some(longest), true) = (own.get("n_positions"), fields.contains_key("n_ctx")) {
            fields.insert("n_ctx".to_owned(), longest.clone());
        }
        for (key, token) in [("bos_token_id", tokens.bos), ("eos_token_id", tokens.eos)] {
            let Some(token) = token else { continue };
            match fields.get(key) {
                None | Some(Value::Null) => drop(fields.insert(key.to_owned(), token.into())),
                Some(kept) if key == "eos_token_id" && !has_token(kept, token) => lost.push(format!(
                    "config.json keeps `{key}` {kept} of the folder that the model came from; the run ended its texts with token {token}"
                )),
                Some(_) => {}
            }
        }
        let text = format!("{:#}\n", Value::Object(fields));
        // The file may be another folder's by now.
        let again = PublishedModel::parse(PublishedModel::FILE, &text).ok()?;
        let is_same = first_difference(&sizes(&again.model), &model.model, Fit::Same).is_none()
            && again.model.seq_length() >= model.model.seq_length();
        if let (ModelConfig::Gpt2(from), ModelConfig::Gpt2(ours), true) = (&from.model, &model.model, is_same)
            && from.seq_length > ours.seq_length
        {
            lost.push(format!(
                "{} of the {} positions of the folder that the model came from are gone: the run has the first {}, and their weights are not \
                 in the run directory",
                from.seq_length - ours.seq_length,
                from.seq_length,
                ours.seq_length
            ));
        }
        is_same.then_some(text)
    }

    /// Whether an export knows another longest sequence than the folder: a table has as many positions as it has, and angles reach further.
    fn length_changes(&self, from: &PublishedModel, model: &PublishedModel) -> bool {
        let [theirs, ours] = [from, model].map(|model| model.model.seq_length());
        match model.model {
            ModelConfig::Gpt2(_) => ours != theirs,
            _ => ours > theirs,
        }
    }
}

/// Whether a field that is a token or a list of tokens has this one.
fn has_token(kept: &Value, token: u32) -> bool {
    match kept {
        Value::Array(tokens) => tokens.contains(&token.into()),
        kept => kept.as_u64() == Some(token.into()),
    }
}

/// The rows of a folder's table of positions behind those of a run.
fn rest_of_positions(folder: &Path, run: &Run) -> Result<Vec<f32>, HuggingFaceError> {
    let model = PublishedModel::open_for(run, folder, Fit::Part)?;
    let ModelConfig::Gpt2(gpt) = &model.model else { return Ok(Vec::new()) };
    let rows = gpt.seq_length - run.model.seq_length();
    let mut values = vec![0.0; rows * gpt.hidden_size];
    // Behind positions that the run draws, those of the folder mean nothing.
    let are_new = run.init.new.iter().any(|new| new.regex().is_match(POSITIONS));
    if values.is_empty() || are_new {
        return Ok(Vec::new());
    }
    let layers = model.model.build().expect("a config.json's model was checked").layers;
    let specs: Vec<_> = layers.iter().flat_map(|layer| layer.layer.parameters()).collect();
    // The other parameters were checked when they were read.
    let specs = specs.iter().filter(|spec| spec.name == POSITIONS);
    let shapes = specs.map(|spec| (&*spec.name, &*spec.shape));
    let weights = PublishedWeights::open(folder, &model, shapes, Fit::Part)?;
    let first = run.model.seq_length() * gpt.hidden_size;
    weights
        .read(POSITIONS, first, &mut values)
        .map_err(|(path, error)| HuggingFaceError::io(&path)(error))?;
    Ok(values)
}

fn read_positions(path: &Path) -> Result<Vec<f32>, HuggingFaceError> {
    let damaged = |reason: String| HuggingFaceError::tensors(path, reason);
    let header = match Header::read(path) {
        Err(HeaderError::Io(error)) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(HeaderError::Io(error)) => return Err(HuggingFaceError::io(path)(error)),
        Err(HeaderError::Damaged(reason)) => return Err(damaged(reason)),
        Ok(header) => header,
    };
    let info = header.metadata.info(POSITIONS);
    let info = info.ok_or_else(|| damaged(format!("it has no tensor `{POSITIONS}`")))?;
    let mut bytes = vec![0; info.data_offsets.1 - info.data_offsets.0];
    let start = header.data_start + info.data_offsets.0 as u64;
    let read = open_regular(path).and_then(|file| file.read_exact_at(&mut bytes, start));
    read.map_err(HuggingFaceError::io(path))?;
    Ok(bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
}

fn text_if_there(path: &Path) -> Result<Option<String>, HuggingFaceError> {
    match read_text_of_folder(path, CONFIG_BYTES_MAX) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.is_missing() => Ok(None),
        Err(error) => Err(HuggingFaceError::unreadable(path, error)),
    }
}

fn write_or_remove(path: &Path, bytes: Option<&[u8]>) -> Result<(), HuggingFaceError> {
    let io = HuggingFaceError::io(path);
    let Some(bytes) = bytes else {
        return match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io(error)),
            _ => Ok(()),
        };
    };
    PartialFile::create(path, Existing::Replaced).and_then(|file| file.finish_with(bytes)).map_err(io)
}
