//! How the vocabulary's tables are cut, and what becomes of logits.

use pipezero_models::{HeadLogits, VocabularyOptions};
use serde::{Serialize, Serializer};

/// How the vocabulary's tables are cut, and what becomes of logits. The plan resolves what is left to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VocabularyConfig {
    /// Slices of each table; `None` = as many as make none larger than the largest unit of transformer blocks.
    #[serde(rename = "vocabulary_slices", serialize_with = "or_auto")]
    pub num_slices: Option<usize>,
    /// What becomes of logits between forward and backward; `None` = as memory says.
    #[serde(serialize_with = "logits_or_auto")]
    pub head_logits: Option<HeadLogits>,
    /// Whether the model was built by the caller, so that no plan may build another one.
    #[serde(skip)]
    pub is_of_caller: bool,
}

impl VocabularyConfig {
    /// Tables whole, logits kept.
    pub const WHOLE: Self = Self::new(1, HeadLogits::Keep);

    /// So many slices, and logits kept or not.
    pub const fn new(num_slices: usize, head_logits: HeadLogits) -> Self {
        Self { num_slices: Some(num_slices), head_logits: Some(head_logits), is_of_caller: false }
    }

    /// What a model has that the caller built.
    pub fn of_caller(options: VocabularyOptions) -> Self {
        Self { is_of_caller: true, ..Self::new(options.num_slices, options.head_logits) }
    }
}

/// As the run file spells it.
fn or_auto<S: Serializer>(num_slices: &Option<usize>, serializer: S) -> Result<S::Ok, S::Error> {
    match num_slices {
        Some(num_slices) => num_slices.serialize(serializer),
        None => serializer.serialize_str("auto"),
    }
}

/// As the run file spells it.
fn logits_or_auto<S: Serializer>(head_logits: &Option<HeadLogits>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match head_logits {
        Some(HeadLogits::Keep) => "keep",
        Some(HeadLogits::Recompute) => "recompute",
        None => "auto",
    })
}
