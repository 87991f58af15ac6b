//! Keys of other systems: what says the same here.

use super::other_type_words::NamedType;

/// What says here what an unknown key says elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Elsewhere {
    /// This key, and how its value follows, where it does not mean the same. Of `enabled` that is what follows on `true`.
    Key(String, Option<&'static str>),
    /// No key, for this reason.
    None(&'static str),
}

impl Elsewhere {
    pub(super) fn repair(&self) -> String {
        match self {
            Self::Key(path, None) => format!("write `{path}`"),
            Self::Key(path, Some(value)) => match path.strip_suffix(".enabled") {
                // As it stands in the file, where a path is no key.
                Some(section) => format!("write \"{section}\": {{\"enabled\": true}}{value}"),
                None => format!("write `{path}`: {value}"),
            },
            Self::None(why) => format!("remove it: {why}"),
        }
    }
}

/// Keys whose other names mean the same value: they can be renamed where they stand.
const SAME_VALUE: [&str; 12] = [
    "gradient_accumulation_steps",
    "gradient_clipping",
    "model.num_attention_heads",
    "model.num_layers",
    "model.hidden_size",
    "model.seq_length",
    "model.vocab_size",
    "optimizer.params.eps",
    "optimizer.params.lr",
    "optimizer.params.weight_decay",
    "steps",
    "train_batch_size",
];

/// How the value of a key follows from that of its other name, where the two count something else.
const VALUES: &[(&[&str], &str)] = &[
    (&["make_vocab_size_divisible_by"], "the number of tokens, rounded up to a multiple of it"),
    (
        &["num_tokens_per_train_step", "total_batch_size"],
        "sequences: its tokens divided by `model.seq_length`",
    ),
    (&["batch_size", "local_batch_size"], "sequences of one micro-batch on one data rank"),
    (
        &["num_layers_per_virtual_pipeline_stage"],
        "stages of a rank: the layers of a rank divided by its value",
    ),
    (&["use_distributed_optimizer"], "1 for true, 0 for false"),
    (
        &["fsdp_sharding_strategy", "sharding_strategy", "data_parallel_sharding_strategy"],
        "3 shards everything, 1 the optimizer state alone",
    ),
    (&["reshard_after_forward", "fsdp_reshard_after_forward"], "\"strict\" for true, \"all\" for false"),
    (&["forward_prefetch", "backward_prefetch"], "1 for true, 0 for false"),
    (&["adam_beta1", "adam_beta2", "beta1", "beta2"], "a list of both, such as [0.9, 0.95]"),
    (&["warmup_ratio", "warmup_fraction"], "a number of steps: its share times `steps`"),
    (
        &["min_lr"],
        "a share of `optimizer.params.lr`: its value divided by that, with the scheduler \"WarmupCosineLR\"",
    ),
    (
        &["dtype", "mixed_precision", "mixed_precision_param", "precision", "torch_dtype", "params_dtype"],
        " for bf16, \"auto\" in it for bf16 on a GPU and f32 on a CPU; for fp16 write \"fp16\": {\"enabled\": true}; fp8 is not offered",
    ),
    (
        &["recompute", "recompute_granularity", "activation_checkpoint", "selective_ac_option"],
        ", or false in it",
    ),
    (&["distributed_timeout_minutes"], "seconds, so 60 x it"),
    (&["no_weight_tying", "untie_embeddings_and_output_weights"], "the contrary"),
];

/// The name of a key for an unknown one of this path, where both are in one section and mean the same value.
pub(super) fn renamed<'a>(path: &str, usual: &'a str) -> Option<&'a str> {
    let (section, name) = usual.rsplit_once('.').unwrap_or(("", usual));
    let (of_path, written) = path.rsplit_once('.').unwrap_or(("", path));
    // Others of its names say the contrary.
    let ties = usual == "model.tie_embeddings"
        && ["tie_word_embeddings", "tie_weights", "weight_tying"].contains(&written);
    let is_same = SAME_VALUE.contains(&usual) && value(written).is_none();
    ((is_same || ties) && of_path == section).then_some(name)
}

/// Names that other systems have for a key: Hugging Face's models and trainer, Megatron-LM, torchtitan, nanoGPT.
const KEYS: &[(&str, &[&str])] = &[
    ("model.num_layers", &["n_layer", "n_layers", "num_hidden_layers", "depth"]),
    ("model.hidden_size", &["n_embd", "d_model", "dim", "n_embed", "embed_dim", "model_dim"]),
    ("model.num_attention_heads", &["n_head", "n_heads", "num_heads", "attention_heads"]),
    (
        "model.seq_length",
        &[
            "sequence_length",
            "max_context_length",
            "block_size",
            "context_length",
            "context_size",
            "max_position_embeddings",
            "max_seq_len",
            "max_seq_length",
            "n_positions",
            "n_ctx",
            "seq_len",
            "encoder_seq_length",
        ],
    ),
    (
        "model.tie_embeddings",
        &[
            "no_weight_tying",
            "tie_word_embeddings",
            "tie_weights",
            "untie_embeddings_and_output_weights",
            "weight_tying",
        ],
    ),
    ("model.init_std", &["initializer_range", "init_method_std", "init_std_dev"]),
    (
        "model.dropout",
        &[
            "attention_dropout",
            "attn_pdrop",
            "embd_pdrop",
            "hidden_dropout",
            "hidden_dropout_prob",
            "resid_pdrop",
            "attention_probs_dropout_prob",
        ],
    ),
    ("model.ffn_hidden_size", &["intermediate_size", "n_inner"]),
    ("model.num_query_groups", &["n_kv_heads", "num_key_value_heads"]),
    ("model.kv_channels", &["head_dim"]),
    ("model.norm_epsilon", &["norm_eps", "rms_norm_eps", "layernorm_epsilon"]),
    ("model.rotary_base", &["rope_theta"]),
    ("model.add_qkv_bias", &["attention_bias"]),
    ("model.add_mlp_bias", &["mlp_bias"]),
    ("model.qk_layernorm", &["qk_norm"]),
    ("model.vocab_size", &["padded_vocab_size", "make_vocab_size_divisible_by"]),
    ("model.family", &["model_type", "flavor", "architecture", "architectures"]),
    ("data.text", &["data_dir", "dataset", "dataset_path", "train_file", "dataset_name", "files"]),
    (
        "data.tokens",
        &["data_path", "train_data_path", "data_prefix", "train_data_prefix", "blend", "dataset_prefix"],
    ),
    ("data.weights", &["data_weights", "blend_weights", "dataset_weights"]),
    (
        "data.tokenizer",
        &[
            "tokenizer",
            "tokenizer_model",
            "tokenizer_path",
            "tokenizer_name",
            "tokenizer_name_or_path",
            "hf_assets_path",
        ],
    ),
    ("data.validation_tokens", &["valid_data_prefix", "val_bin"]),
    ("data.document_attention", &["reset_attention_mask", "reset_position_ids"]),
    ("data.validation", &["split", "val_split", "validation_split", "valid_data_path", "validation_file"]),
    ("checkpoint.every", &["save_interval", "save_steps", "checkpoint_interval"]),
    ("checkpoint.keep", &["save_total_limit", "keep_latest_k"]),
    ("evaluation.every", &["eval_interval", "eval_steps", "eval_freq"]),
    ("evaluation.batches", &["val_max_steps", "eval_iters", "eval_batches", "max_eval_samples"]),
    (
        "parallel.pipeline",
        &[
            "pipeline_model_parallel_size",
            "pipeline_parallel_degree",
            "pipeline_parallel_size",
            "pp",
            "pp_size",
            "pipe_parallel_size",
            "pipeline_parallel",
            "num_stages",
            "pp_degree",
        ],
    ),
    (
        "parallel.data",
        &[
            "data_parallel",
            "data_parallel_degree",
            "data_parallel_size",
            "data_parallel_shard_degree",
            "data_parallel_replicate_degree",
            "dp",
            "dp_size",
            "dp_degree",
        ],
    ),
    (
        "parallel.schedule",
        &["pipeline_parallel_schedule_csv", "pipeline_parallel_schedule", "pipeline_schedule", "pp_schedule"],
    ),
    (
        "parallel.virtual_stages",
        &[
            "num_layers_per_virtual_pipeline_stage",
            "num_virtual_stages_per_pipeline_rank",
            "virtual_pipeline_model_parallel_size",
        ],
    ),
    (
        "parallel.partition",
        &[
            "module_fqns_per_model_part",
            "pipeline_model_parallel_layout",
            "pipeline_parallel_split_points",
            "partition_method",
            "decoder_first_pipeline_num_layers",
        ],
    ),
    (
        "zero_optimization.stage",
        &[
            "fsdp_sharding_strategy",
            concat!("zero", "_stage"),
            "sharding_strategy",
            "use_distributed_optimizer",
            "data_parallel_sharding_strategy",
        ],
    ),
    ("zero_optimization.resident_units", &["reshard_after_forward", "fsdp_reshard_after_forward"]),
    ("zero_optimization.overlap_comm", &["overlap_grad_reduce"]),
    ("zero_optimization.prefetch_units", &["forward_prefetch", "backward_prefetch", "prefetch"]),
    ("train_batch_size", &["num_tokens_per_train_step", "global_batch_size", "total_batch_size"]),
    (
        "train_micro_batch_size_per_gpu",
        &[
            "batch_size",
            "micro_batch_size",
            "local_batch_size",
            "per_device_train_batch_size",
            "train_micro_batch_size",
            "micro_batch_size_per_gpu",
            "pipeline_parallel_microbatch_size",
        ],
    ),
    (
        "gradient_accumulation_steps",
        &[
            "num_pp_microbatches",
            "grad_accum",
            "num_micro_batches",
            "num_microbatches",
            "gradient_accumulation",
        ],
    ),
    ("gradient_clipping", &["clip_grad", "grad_clip", "max_grad_norm", "max_norm", "gradient_clip_val"]),
    (
        "steps",
        &[
            "num_iterations",
            "max_iters",
            "max_steps",
            "num_steps",
            "train_iters",
            "train_steps",
            "num_train_steps",
            "training_steps",
            "total_steps",
        ],
    ),
    ("threads", &["num_threads", "omp_num_threads"]),
    ("memory", &["memory_limit", "max_memory"]),
    ("optimizer.type", &["optim", "optimizer_name"]),
    ("optimizer.params.lr", &["learning_rate", "max_lr"]),
    ("optimizer.params.betas", &["adam_beta1", "adam_beta2", "beta1", "beta2"]),
    ("optimizer.params.eps", &["adam_eps", "adam_epsilon", "epsilon"]),
    ("optimizer.params.weight_decay", &["wd"]),
    ("optimizer.params.momentum", &["sgd_momentum"]),
    ("scheduler.type", &["lr_scheduler", "lr_scheduler_type", "lr_decay_style", "decay_type", "lr_schedule"]),
    (
        "scheduler.params.warmup_num_steps",
        &[
            "warmup_ratio",
            "warmup_fraction",
            "lr_warmup_iters",
            "lr_warmup_steps",
            "warmup",
            "warmup_iters",
            "warmup_steps",
        ],
    ),
    ("scheduler.params.total_num_steps", &["lr_decay_iters", "lr_decay_steps", "decay_steps"]),
    (
        "scheduler.params.cos_min_ratio",
        &["learning_rate_decay_frac", "min_lr", "min_lr_factor", "min_lr_ratio"],
    ),
    (
        "bf16.enabled",
        &["dtype", "mixed_precision", "mixed_precision_param", "precision", "torch_dtype", "params_dtype"],
    ),
    (
        "activation_checkpointing.enabled",
        &[
            "gradient_checkpointing",
            "recompute",
            "recompute_granularity",
            "checkpoint_activations",
            "activation_checkpoint",
            "selective_ac_option",
        ],
    ),
    ("activation_checkpointing.every_layers", &["checkpoint_num_layers", "recompute_num_layers"]),
    ("fp16.initial_scale_power", &["initial_loss_scale"]),
    ("comm.backend", &["distributed_backend", "dist_backend"]),
    (
        "comm.timeout_s",
        &[
            "distributed_timeout_minutes",
            "ddp_timeout",
            "init_timeout_seconds",
            "train_timeout_seconds",
            "timeout",
        ],
    ),
];

const NO_TENSOR: &str =
    "there is no tensor parallelism; `parallel.pipeline` and ZeRO-3 split the model instead";
const NO_FP8: &str = "fp8 is not offered; besides f32 there are \"bf16\": {\"enabled\": true} and \"fp16\": {\"enabled\": true}";
const F32: &str =
    "a run computes in f32 unless the file says another type; \"bf16\": {\"enabled\": false} says it";
const DEEPSPEED_FILE: &str =
    "the keys of a DeepSpeed file stand in the run file itself, or in the file that \"extends\" names";
const TOKENIZER: &str = "`data.tokenizer` names a tokenizer.json, which has vocabulary and merges";
const METRICS: &str = "each step is one line of `metrics.jsonl` in the run's folder";

/// Names of what no key says.
const NO_KEYS: &[(&str, &[&str])] = &[
    (NO_FP8, &["fp8_backend", "fp8_config", "fp8_format", "fp8_recipe"]),
    (DEEPSPEED_FILE, &["deepspeed_config", "deepspeed_config_file", "deepspeed_plugin"]),
    (
        "`parallel` and `zero_optimization` say how a run is distributed; with DeepSpeed, its keys stand in the run file itself, or in the file that \"extends\" names",
        &["distributed_type"],
    ),
    (
        "a run has `parallel.pipeline` x `parallel.data` ranks",
        &["num_gpus", "num_processes", "nproc_per_node", "world_size"],
    ),
    (
        NO_TENSOR,
        &[
            "tensor",
            "tensor_model_parallel_size",
            "tensor_parallel_degree",
            "tensor_parallel_size",
            "model_parallel_size",
            "tp",
            "tp_size",
            "sequence_parallel",
        ],
    ),
    (
        "there are no experts",
        &["expert", "expert_model_parallel_size", "expert_parallel_degree", "num_experts", "moe"],
    ),
    (
        "sequences are not split over ranks",
        &["context", "context_parallel_size", "context_parallel_degree", "cp_size"],
    ),
    (TOKENIZER, &["tokenizer_type", "vocab_file", "merge_file"]),
    (
        "`--out` names the run's folder",
        &["output_dir", "out_dir", "save", "dump_folder", "save_dir", "checkpoint_dir"],
    ),
    (
        "`train --resume` goes on from the run's last checkpoint",
        &["load", "resume", "resume_from_checkpoint", "init_from", "load_step", "save_strategy"],
    ),
    (
        METRICS,
        &[
            "log_interval",
            "log_freq",
            "logging_steps",
            "report_to",
            "wandb_log",
            "wandb_project",
            "enable_wandb",
            "enable_tensorboard",
            "logging_dir",
        ],
    ),
    (
        "the family says them: \"gpt2\" has layer norm, tanh GELU, biases and learned positions, \"llama\" RMS norm, SwiGLU and rotary positions",
        &[
            "activation_function",
            "hidden_act",
            "swiglu",
            "normalization",
            "layer_norm_epsilon",
            "multiple_of",
            "ffn_dim_multiplier",
            "group_query_attention",
            "position_embedding_type",
            "rotary_percent",
            "bias",
            "add_bias_linear",
            "use_rotary_position_embeddings",
        ],
    ),
    ("`steps` says how long a run is", &["num_train_epochs", "epochs", "num_epochs"]),
    (
        "kernels are those of the engine",
        &[
            "compile",
            "torch_compile",
            "use_flash_attn",
            "flash_attention",
            "attn_implementation",
            "fused_kernels",
        ],
    ),
];

/// How the value of the usual key follows from that of another name.
fn value(name: &str) -> Option<&'static str> {
    let name = &*name.replace('-', "_").to_lowercase();
    VALUES.iter().find(|(names, _)| names.contains(&name)).map(|&(_, value)| value)
}

/// Whether other systems have a section of this name: torchtitan's.
pub(super) fn is_section(name: &str) -> bool {
    ["activation_checkpoint", "job", "lr_scheduler", "parallelism", "training"].contains(&name)
}

/// What says the same here as the key `name` with the value that is `written`, which the section at `path` does not have.
pub(super) fn usual(path: &str, name: &str, written: &str) -> Option<Elsewhere> {
    let name = &*name.replace('-', "_");
    let special = match (path, name) {
        ("optimizer", "name") => Some("optimizer.type"),
        ("activation_checkpoint", "mode") => Some("activation_checkpointing.enabled"),
        _ => None,
    };
    if let Some(key) = special {
        return Some(Elsewhere::Key(key.to_owned(), None));
    }
    let is_name = |names: &&[&str]| names.iter().any(|known| known.eq_ignore_ascii_case(name));
    let key = KEYS.iter().find(|(_, names)| is_name(names));
    if let Some(("bf16.enabled", _)) = key
        && let Some(named) = NamedType::of(written)
    {
        return Some(match named {
            NamedType::Bf16 => Elsewhere::Key("bf16.enabled".to_owned(), Some("")),
            NamedType::Fp16 => Elsewhere::Key("fp16.enabled".to_owned(), Some("")),
            NamedType::F32 => Elsewhere::None(F32),
            NamedType::Fp8 => Elsewhere::None(NO_FP8),
        });
    }
    let key = key.map(|(key, _)| Elsewhere::Key((*key).to_owned(), value(name)));
    key.or_else(|| NO_KEYS.iter().find(|(_, names)| is_name(names)).map(|(why, _)| Elsewhere::None(why)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::RawRun;
    use crate::section::Section;
    use pipezero_files::json::join;

    /// Every path is a key, and no name stands for two.
    #[test]
    fn what_is_to_be_written_is_a_key() {
        let run = RawRun::spec();
        let paths: Vec<String> = run
            .all()
            .iter()
            .flat_map(|section| section.keys.iter().map(|key| join(section.path, key.name)))
            .collect();
        for (key, _) in KEYS {
            assert!(paths.iter().any(|path| path == key), "{key}");
        }
        let names: Vec<&str> =
            KEYS.iter().chain(NO_KEYS).flat_map(|(_, names)| names.iter().copied()).collect();
        for (index, name) in names.iter().enumerate() {
            assert!(!names[..index].contains(name), "{name} stands twice");
        }
        for tokens in ["total_batch_size", "total-batch-size", "Total_Batch_Size"] {
            assert_eq!(renamed(tokens, "train_batch_size"), None, "{tokens} counts tokens");
        }
        for name in VALUES.iter().flat_map(|(names, _)| names.iter()) {
            assert!(KEYS.iter().any(|(_, names)| names.contains(name)), "{name} is no other name");
        }
    }
}
