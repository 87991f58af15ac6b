//! Tensors of a folder that are no parameter of the model: constants, which are not read, and what makes the weights another model's.

use std::collections::HashSet;
use std::path::Path;

use pipezero_models::ModelConfig;

use super::config_json::PublishedModel;
use super::error::HuggingFaceError;
use super::fit::Fit;
use super::unused::{NOT_OF_THE_MODEL, Unused};

/// Constants that older versions of transformers wrote, by the model and the end of their names within a block.
const CONSTANTS: [(Family, &str, &str); 3] = [
    (Family::Gpt2, "attn.bias", "the causal mask, which is the same for every model"),
    (Family::Gpt2, "attn.masked_bias", "the number that masks attention, which is the same for every model"),
    (Family::Llama, "self_attn.rotary_emb.inv_freq", ANGLES),
];
const ANGLES: &str = "the frequencies of rotary angles, which config.json says";

/// Parts of names that show that the tensors of the model are not what they seem, each with what follows.
const CHANGING_OTHERS: [(&[&str], &str); 2] = [
    (
        &[".lora_", "lora_embedding_", ".base_layer.", ".modules_to_save."],
        "a part of an adapter; merge it into the model with PEFT's `merge_and_unload`, and save that",
    ),
    (
        &[
            ".qweight",
            ".qzeros",
            ".scales",
            ".g_idx",
            ".weight_scale",
            ".weight_packed",
            ".absmax",
            ".quant_map",
            ".quant_state",
            ".SCB",
            ".input_scale",
        ],
        "a part of quantised weights, which are not read; use the unquantised model",
    ),
];

/// The same of heads, which change nothing else.
const OTHER_HEADS: [(&[&str], &str); 1] = [(
    &[
        "score.",
        "classifier.",
        "v_head.",
        "value_head.",
        "qa_outputs.",
        "multiple_choice_head.",
        "reward_head.",
    ],
    "of a head for another task than predicting the next token, which is not offered; save the model without it",
)];

/// Which names a model's tensors have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    Gpt2,
    Llama,
}

/// How the tensors that are no parameters are judged.
pub(super) struct OtherTensors<'a> {
    pub(super) model: &'a PublishedModel,
    /// Tensors that are parameters.
    pub(super) taken: &'a HashSet<String>,
    pub(super) fit: Fit,
}

impl OtherTensors<'_> {
    /// The constants among these tensors of a folder, of whose files `named` is the one that messages name.
    ///
    /// # Errors
    /// When there is anything else: the first of them, and what it is.
    pub(super) fn unused<'n>(
        &self,
        tensors: impl Iterator<Item = &'n str>,
        named: &Path,
    ) -> Result<Vec<Unused>, HuggingFaceError> {
        let mut tensors: Vec<&str> = tensors.collect();
        tensors.sort_unstable();
        let mut constants: Vec<(&str, Vec<&str>)> = Vec::new();
        let (mut foreign, mut left) = (Vec::new(), Vec::new());
        for name in tensors {
            match self.constant(name) {
                None if self.fit.may_differ() && !self.changes_others(name) => left.push(name),
                None => foreign.push(name),
                Some(why) => match constants.iter_mut().find(|(known, _)| *known == why) {
                    Some((_, names)) => names.push(name),
                    None => constants.push((why, vec![name])),
                },
            }
        }
        if let Some(first) = foreign.first() {
            let more = match foreign.len() - 1 {
                0 => String::new(),
                1 => "; there is one more such tensor".to_owned(),
                more => format!("; there are {more} more such tensors"),
            };
            let reason = format!("it has a tensor `{first}`, {}{more}", self.why_refused(first));
            return Err(HuggingFaceError::tensors(named, reason));
        }
        if !left.is_empty() {
            constants.push((NOT_OF_THE_MODEL, left));
        }
        let listed = |(why, names): (&str, Vec<&str>)| {
            let more = match names.len() - 1 {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            Unused::new(format!("`{}`{more}", names[0]), why)
        };
        Ok(constants.into_iter().map(listed).collect())
    }

    /// Whether a tensor says that those of the model are not what they seem, as those of adapters and of quantised weights do.
    fn changes_others(&self, name: &str) -> bool {
        CHANGING_OTHERS.iter().flat_map(|(parts, _)| *parts).any(|part| name.contains(part))
    }

    /// The family, and what names of blocks begin with.
    fn family(&self) -> (Family, &'static str) {
        match self.model.model {
            ModelConfig::Gpt2(_) => (Family::Gpt2, "h."),
            _ => (Family::Llama, "layers."),
        }
    }

    /// A tensor's name without the model's prefix.
    fn bare<'n>(&self, name: &'n str) -> &'n str {
        name.strip_prefix(self.model.prefix()).unwrap_or(name)
    }

    /// The number of a tensor's block and its name within that.
    fn in_block<'n>(&self, name: &'n str) -> Option<(usize, &'n str)> {
        let (block, rest) = self.bare(name).strip_prefix(self.family().1)?.split_once('.')?;
        Some((block.parse().ok()?, rest))
    }

    /// Why a constant is not read; `None` where it is none.
    fn constant(&self, name: &str) -> Option<&'static str> {
        let (family, _) = self.family();
        if family == Family::Llama && self.bare(name) == "rotary_emb.inv_freq" {
            return Some(ANGLES);
        }
        let (block, rest) = self.in_block(name)?;
        let is_it = |&&(of, known, _): &&(Family, &str, &str)| of == family && rest == known;
        let (.., why) = CONSTANTS.iter().find(is_it)?;
        (block < self.model.model.num_layers()).then_some(*why)
    }

    /// What is said of a tensor that belongs to no parameter.
    fn why_refused(&self, name: &str) -> String {
        let bare = self.bare(name);
        let of_purpose = |(parts, _): &&(&[&str], &str)| {
            parts
                .iter()
                .any(|part| if part.starts_with('.') { name.contains(part) } else { bare.starts_with(part) })
        };
        if let Some((_, why)) = CHANGING_OTHERS.iter().chain(&OTHER_HEADS).find(of_purpose) {
            return (*why).to_owned();
        }
        let num_layers = self.model.model.num_layers();
        if self.in_block(name).is_some_and(|(block, _)| block >= num_layers) {
            let field = if self.family().0 == Family::Gpt2 { "n_layer" } else { "num_hidden_layers" };
            return format!("and `{field}` of config.json is {num_layers}; mend one of the two");
        }
        let weight = name.strip_suffix(".bias").map(|map| format!("{map}.weight"));
        if weight.is_some_and(|weight| self.taken.contains(&weight)) {
            return "and the model of config.json has no bias there (`attention_bias`, `mlp_bias`); mend one of the two".to_owned();
        }
        "which the model of config.json has not".to_owned()
    }
}
