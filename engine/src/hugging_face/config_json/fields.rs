//! The fields of an object of config.json, taken one by one.

use std::collections::BTreeSet;

use crate::files::json::{Node, Span, Value, join, nearest, shorten};
use crate::hugging_face::HuggingFaceError;

/// Fields that have no part in training: names, tokens, outputs, what is kept while text is generated.
const WITHOUT_EFFECT: [&str; 60] = [
    "_attn_implementation",
    "_name_or_path",
    "architectures",
    "bad_words_ids",
    "begin_suppress_tokens",
    "bos_token_id",
    "cross_attention_hidden_size",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "dtype",
    "early_stopping",
    "encoder_no_repeat_ngram_size",
    "eos_token_id",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "gradient_checkpointing",
    "id2label",
    "is_decoder",
    "is_encoder_decoder",
    "keys_to_ignore_at_inference",
    "label2id",
    "length_penalty",
    "max_length",
    "min_length",
    "n_ctx",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_scores",
    "pad_token_id",
    "prefix",
    "problem_type",
    "remove_invalid_values",
    "repetition_penalty",
    "return_dict",
    "return_dict_in_generate",
    "sep_token_id",
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
    "suppress_tokens",
    "task_specific_params",
    "temperature",
    "tie_encoder_decoder",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torch_dtype",
    "torchscript",
    "transformers_version",
    "typical_p",
    "use_cache",
];

/// The fields of an object, and which of them were taken.
pub(super) struct Fields<'a> {
    node: &'a Node,
    path: String,
    taken: BTreeSet<&'a str>,
    known: BTreeSet<&'static str>,
}

impl<'a> Fields<'a> {
    /// Those of the object at `path`.
    pub(super) fn of(node: &'a Node, path: &str) -> Result<Self, HuggingFaceError> {
        let fields = Self { node, path: path.to_owned(), taken: BTreeSet::new(), known: BTreeSet::new() };
        match node.value {
            Value::Object(_) => Ok(fields),
            _ => Err(fields.wrong(format!("it is {}, and must be an object", node.describe()))),
        }
    }

    /// Takes a field; one that is null is absent.
    pub(super) fn take(&mut self, name: &'static str) -> Option<&'a Node> {
        self.known.insert(name);
        let Value::Object(entries) = &self.node.value else { return None };
        let entry = entries.iter().find(|entry| entry.key == name)?;
        self.taken.insert(&entry.key);
        (!matches!(entry.node.value, Value::Null)).then_some(&entry.node)
    }

    /// Whether a field is written, be it as null.
    pub(super) fn has(&self, name: &str) -> bool {
        let Value::Object(entries) = &self.node.value else { return false };
        entries.iter().any(|entry| entry.key == name)
    }

    /// Takes a whole number of at least 1.
    pub(super) fn size(&mut self, name: &'static str) -> Result<Option<usize>, HuggingFaceError> {
        let Some(node) = self.take(name) else { return Ok(None) };
        let size = node.number().and_then(|number| number.parse().ok()).filter(|&size| size > 0);
        let size = size.ok_or_else(|| self.refuse(name, node, "it must be a whole number of at least 1"));
        size.map(Some)
    }

    /// As [`Fields::size`], of a field that a model cannot do without.
    pub(super) fn needed(&mut self, name: &'static str) -> Result<usize, HuggingFaceError> {
        let message = format!("`{}` is missing: it is a size of the model", join(&self.path, name));
        self.size(name)?.ok_or_else(|| self.wrong(message))
    }

    /// Takes a finite number.
    pub(super) fn number(&mut self, name: &'static str) -> Result<Option<f64>, HuggingFaceError> {
        let Some(node) = self.take(name) else { return Ok(None) };
        let number =
            node.number().and_then(|number| number.parse().ok()).filter(|number: &f64| number.is_finite());
        number.ok_or_else(|| self.refuse(name, node, "it must be a number")).map(Some)
    }

    /// Takes `true` or `false`.
    pub(super) fn flag(&mut self, name: &'static str, default: bool) -> Result<bool, HuggingFaceError> {
        match self.take(name) {
            None => Ok(default),
            Some(Node { value: Value::Bool(flag), .. }) => Ok(*flag),
            Some(node) => Err(self.refuse(name, node, "it must be true or false")),
        }
    }

    /// Takes one of these words, by its place in the list; the field must be there.
    pub(super) fn word(&mut self, name: &'static str, words: &[&str]) -> Result<usize, HuggingFaceError> {
        let rule = format!("it must be one of {}", words.join(", "));
        let Some(node) = self.take(name) else {
            return Err(self.wrong(format!("`{}` is missing: {rule}", join(&self.path, name))));
        };
        let Value::String(word) = &node.value else { return Err(self.refuse(name, node, &rule)) };
        words.iter().position(|known| known == word).ok_or_else(|| self.refuse(name, node, &rule))
    }

    /// Takes a word that must be one of these where it is there.
    pub(super) fn only(&mut self, name: &'static str, words: &[&str]) -> Result<(), HuggingFaceError> {
        match self.take(name) {
            Some(Node { value: Value::String(word), .. }) if words.contains(&word.as_str()) => Ok(()),
            Some(node) => Err(self.refuse(name, node, &format!("only \"{}\" is offered", words[0]))),
            None => Ok(()),
        }
    }

    /// Takes a number that must be this one where it is there.
    pub(super) fn only_number(&mut self, name: &'static str, number: f64) -> Result<(), HuggingFaceError> {
        let node = self.take(name);
        let found = node.and_then(|node| node.number()?.parse().ok());
        match node {
            Some(node) if found != Some(number) => {
                Err(self.refuse(name, node, &format!("only {number} is offered")))
            }
            _ => Ok(()),
        }
    }

    /// Takes a flag that must be this one where it is there.
    pub(super) fn only_flag(&mut self, name: &'static str, flag: bool) -> Result<(), HuggingFaceError> {
        match self.take(name) {
            Some(node) if !matches!(node.value, Value::Bool(found) if found == flag) => {
                Err(self.refuse(name, node, &format!("only {flag} is offered")))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a field that must not be there.
    pub(super) fn absent(&mut self, name: &'static str, rule: &str) -> Result<(), HuggingFaceError> {
        self.take(name).map_or(Ok(()), |node| Err(self.refuse(name, node, rule)))
    }

    /// Refuses what is left.
    pub(super) fn finish(&self) -> Result<(), HuggingFaceError> {
        let Value::Object(entries) = &self.node.value else { return Ok(()) };
        // The whole name of the field that ends so, which says how much is computed at once, has a word that the glossary bans.
        let has_no_part = |key: &str| WITHOUT_EFFECT.contains(&key) || key.ends_with("_size_feed_forward");
        let may_stay = |key: &str| self.taken.contains(key) || (self.path.is_empty() && has_no_part(key));
        let Some(entry) = entries.iter().find(|entry| !may_stay(&entry.key)) else { return Ok(()) };
        let nearest = nearest(&entry.key, self.known.iter().copied());
        let repair = nearest.map_or_else(
            || "remove it if it has no part in training".to_owned(),
            |nearest| format!("did you mean `{nearest}`?"),
        );
        let message = format!(
            "`{}` is not known, and may change what the model computes; {repair}",
            join(&self.path, &shorten(&entry.key))
        );
        Err(at(&entry.key_span, message))
    }

    /// An error about a field's value.
    pub(super) fn refuse(&self, name: &str, node: &Node, rule: &str) -> HuggingFaceError {
        at(&node.span, format!("`{}` is {}: {rule}", join(&self.path, name), node.describe()))
    }

    /// An error about the whole object.
    pub(super) fn wrong(&self, message: impl Into<String>) -> HuggingFaceError {
        at(&self.node.span, message.into())
    }
}

fn at(span: &Span, message: String) -> HuggingFaceError {
    HuggingFaceError::Config { place: span.to_string(), message }
}
