//! Fields of config.json that have no part in training, and what each is for.

/// The purpose of a field that training does not use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Tokens,
    Generation,
    OtherTasks,
    Runtime,
    Names,
    Lengths,
}

/// Every field that is known and not used.
const FIELDS: [(&str, Purpose); 78] = [
    ("bos_token_id", Purpose::Tokens),
    ("eos_token_id", Purpose::Tokens),
    ("pad_token_id", Purpose::Tokens),
    ("sep_token_id", Purpose::Tokens),
    ("decoder_start_token_id", Purpose::Tokens),
    ("forced_bos_token_id", Purpose::Tokens),
    ("forced_eos_token_id", Purpose::Tokens),
    ("bad_words_ids", Purpose::Generation),
    ("begin_suppress_tokens", Purpose::Generation),
    ("diversity_penalty", Purpose::Generation),
    ("do_sample", Purpose::Generation),
    ("early_stopping", Purpose::Generation),
    ("encoder_no_repeat_ngram_size", Purpose::Generation),
    ("exponential_decay_length_penalty", Purpose::Generation),
    ("force_words_ids", Purpose::Generation),
    ("length_penalty", Purpose::Generation),
    ("max_length", Purpose::Generation),
    ("min_length", Purpose::Generation),
    ("no_repeat_ngram_size", Purpose::Generation),
    ("num_beam_groups", Purpose::Generation),
    ("num_beams", Purpose::Generation),
    ("num_return_sequences", Purpose::Generation),
    ("predict_special_tokens", Purpose::Generation),
    ("prefix", Purpose::Generation),
    ("remove_invalid_values", Purpose::Generation),
    ("renormalize_logits", Purpose::Generation),
    ("repetition_penalty", Purpose::Generation),
    ("suppress_tokens", Purpose::Generation),
    ("task_specific_params", Purpose::Generation),
    ("temperature", Purpose::Generation),
    ("top_k", Purpose::Generation),
    ("top_p", Purpose::Generation),
    ("typical_p", Purpose::Generation),
    ("_num_labels", Purpose::OtherTasks),
    ("cross_attention_hidden_size", Purpose::OtherTasks),
    ("finetuning_task", Purpose::OtherTasks),
    ("id2label", Purpose::OtherTasks),
    ("is_composition", Purpose::OtherTasks),
    ("is_decoder", Purpose::OtherTasks),
    ("is_encoder_decoder", Purpose::OtherTasks),
    ("label2id", Purpose::OtherTasks),
    ("num_labels", Purpose::OtherTasks),
    ("problem_type", Purpose::OtherTasks),
    ("summary_activation", Purpose::OtherTasks),
    ("summary_first_dropout", Purpose::OtherTasks),
    ("summary_proj_to_labels", Purpose::OtherTasks),
    ("summary_type", Purpose::OtherTasks),
    ("summary_use_proj", Purpose::OtherTasks),
    ("tf_legacy_loss", Purpose::OtherTasks),
    ("tie_encoder_decoder", Purpose::OtherTasks),
    ("_attn_implementation", Purpose::Runtime),
    ("_attn_implementation_autoset", Purpose::Runtime),
    ("dtype", Purpose::Runtime),
    ("gradient_checkpointing", Purpose::Runtime),
    ("keys_to_ignore_at_inference", Purpose::Runtime),
    ("output_attentions", Purpose::Runtime),
    ("output_hidden_states", Purpose::Runtime),
    ("output_past", Purpose::Runtime),
    ("output_scores", Purpose::Runtime),
    ("reorder_and_upcast_attn", Purpose::Runtime),
    ("return_dict", Purpose::Runtime),
    ("return_dict_in_generate", Purpose::Runtime),
    ("torch_dtype", Purpose::Runtime),
    ("torchscript", Purpose::Runtime),
    ("transformers.js_config", Purpose::Runtime),
    ("use_bfloat16", Purpose::Runtime),
    ("use_cache", Purpose::Runtime),
    ("_commit_hash", Purpose::Names),
    ("_name_or_path", Purpose::Names),
    ("architectures", Purpose::Names),
    ("is_llama_config", Purpose::Names),
    ("tokenizer_class", Purpose::Names),
    ("transformers_version", Purpose::Names),
    ("unsloth_fixed", Purpose::Names),
    ("unsloth_version", Purpose::Names),
    ("max_sequence_length", Purpose::Lengths),
    ("model_max_length", Purpose::Lengths),
    ("n_ctx", Purpose::Lengths),
];

impl Purpose {
    /// All, in the order in which a notice names them.
    pub(super) const ALL: [Self; 6] =
        [Self::Tokens, Self::Generation, Self::Lengths, Self::OtherTasks, Self::Runtime, Self::Names];

    /// That of a field; `None` where the field may change what the model computes.
    pub(super) fn of(field: &str) -> Option<Self> {
        // The whole name of the field that ends so, which says how much is computed at once, has a word that the glossary bans.
        if field.ends_with("_size_feed_forward") {
            return Some(Self::Runtime);
        }
        FIELDS.iter().find(|(name, _)| *name == field).map(|(_, purpose)| *purpose)
    }

    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Tokens => "special tokens, which the run's data decide",
            Self::Generation => "for generated text",
            Self::OtherTasks => "for other tasks than predicting the next token",
            Self::Runtime => "how transformers computes and stores the model",
            Self::Names => "names and versions",
            Self::Lengths => "other names of the longest sequence",
        }
    }
}
