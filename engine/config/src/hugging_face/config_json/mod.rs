//! config.json: a published model's sizes, read and written.
//!
//! Each type of model has a file that takes the fields it knows. What is then left must be on the list of fields that have no part in
//! training; anything else may change what the model computes, and is refused.

mod fields;
mod gpt2;
mod llama;
mod named_fields;
mod rope;
#[cfg(test)]
mod tests;
mod unused_fields;
mod write;

use std::path::Path;

use pipezero_files::input::read_text;
use pipezero_files::json::{Source, parse_first};
use pipezero_models::ModelConfig;

use super::error::{ConfigFault, HuggingFaceError};
use fields::Fields;

/// Bytes of a config.json at most: published ones have a few thousand.
pub(super) const CONFIG_BYTES_MAX: u64 = 1 << 20;

/// Layers of a model at most, as of a run's.
const LAYERS_MAX: usize = 131_072;

/// transformers' name for a model's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelType {
    /// GPT-2.
    Gpt2,
    /// Llama, 1 to 3.
    Llama,
    /// Mistral.
    Mistral,
    /// Qwen2: Llama with biases of queries, keys and values.
    Qwen2,
    /// Qwen3: Llama with norms of heads.
    Qwen3,
}

impl ModelType {
    /// All that are known.
    pub const ALL: [Self; 5] = [Self::Gpt2, Self::Llama, Self::Mistral, Self::Qwen2, Self::Qwen3];

    /// As the field `model_type` has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gpt2 => "gpt2",
            Self::Llama => "llama",
            Self::Mistral => "mistral",
            Self::Qwen2 => "qwen2",
            Self::Qwen3 => "qwen3",
        }
    }

    /// The class of transformers that computes logits.
    pub(in crate::hugging_face) fn architecture(self) -> &'static str {
        match self {
            Self::Gpt2 => "GPT2LMHeadModel",
            Self::Llama => "LlamaForCausalLM",
            Self::Mistral => "MistralForCausalLM",
            Self::Qwen2 => "Qwen2ForCausalLM",
            Self::Qwen3 => "Qwen3ForCausalLM",
        }
    }
}

/// The tokens that begin and end a text, as far as they are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpecialTokens {
    /// The token that begins a text.
    pub bos: Option<u32>,
    /// The token that ends a text.
    pub eos: Option<u32>,
}

/// A model as a config.json describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct PublishedModel {
    /// Its sizes; `seq_length` is the longest sequence that it reads.
    pub model: ModelConfig,
    /// Its code.
    pub model_type: ModelType,
    /// How many tokens a token sees in some layers, itself among them, where that is fewer than the longest sequence has. In sequences of
    /// at most so many tokens it hides nothing.
    pub window: Option<usize>,
    /// Whether a run file says itself whether the head is tied; then it decides where config.json and the weights contradict each other.
    pub tie_is_written: bool,
    /// What is wrong with the shares that a GPT-2 drops in three places, if they are not one: then only a run file that says its own can be had.
    pub unequal_dropouts: Option<ConfigFault>,
}

impl PublishedModel {
    /// Name of the file in a model's folder.
    pub const FILE: &str = "config.json";

    /// Reads the config.json of a folder.
    ///
    /// # Errors
    /// When there is none, when it is no JSON, and with every field that is missing, wrong or not offered.
    pub fn open(folder: &Path) -> Result<Self, HuggingFaceError> {
        Self::parse(&folder.join(Self::FILE).display().to_string(), &Self::text_of(folder)?)
    }

    /// A model that says nothing beside its sizes.
    fn new(model: ModelConfig, model_type: ModelType) -> Self {
        Self { model, model_type, window: None, tie_is_written: false, unequal_dropouts: None }
    }

    /// The text of a folder's config.json.
    pub(super) fn text_of(folder: &Path) -> Result<String, HuggingFaceError> {
        let path = folder.join(Self::FILE);
        read_text(&path, CONFIG_BYTES_MAX).map_err(|error| HuggingFaceError::unreadable(&path, error))
    }

    /// Reads the text of a config.json that messages call `name`.
    ///
    /// # Errors
    /// As [`PublishedModel::open`].
    pub fn parse(name: &str, text: &str) -> Result<Self, HuggingFaceError> {
        let source = Source::file(name, text);
        let root =
            parse_first(&source).map_err(|error| HuggingFaceError::config(&error.span, error.to_string()))?;
        let mut fields =
            Fields::of(&root, "").map_err(|fault| HuggingFaceError::Config { faults: vec![fault] })?;
        fields.absent(
            "quantization_config",
            "weights that are quantised are not read: use the unquantised model",
        );
        fields.absent("auto_map", "the folder brings code of its own, which is not run");
        fields.absent("pruned_heads", "layers that lack heads are not offered");
        let model_type = fields.word("model_type", &ModelType::ALL.map(ModelType::name));
        let Some(model_type) = model_type.map(|index| ModelType::ALL[index]) else {
            return fields.conclude(None);
        };
        let of_llama = |(llama, window)| Self { window, ..Self::new(ModelConfig::Llama(llama), model_type) };
        let read = match model_type {
            ModelType::Gpt2 => gpt2::read(&mut fields).map(|(gpt, unequal_dropouts)| Self {
                unequal_dropouts,
                ..Self::new(ModelConfig::Gpt2(gpt), model_type)
            }),
            _ => llama::read(&mut fields, model_type).map(of_llama),
        };
        ["bos_token_id", "eos_token_id", "pad_token_id"].into_iter().for_each(|name| fields.tokens(name));
        fields.finish();
        if let Some(Self { model, .. }) = read.as_ref().filter(|_| fields.is_sound()) {
            if model.num_layers() > LAYERS_MAX {
                fields.wrong(format!("{} layers: at most {LAYERS_MAX} are offered", model.num_layers()));
            } else if let Err(error) = model.build() {
                fields.wrong(error.to_string());
            }
        }
        fields.conclude(read)
    }
}
