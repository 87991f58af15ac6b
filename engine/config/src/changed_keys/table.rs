//! For each key of the run file, the consequence for a resumed run if its value has changed.
//!
//! Values are compared as they were resolved, not as they were written. So a default that is written out is no change, and what became of an
//! `"auto"` may be one. A test holds this table against the keys of the run file and against a resolved [`Run`](crate::Run): every key has a row
//! here, and every value of a run has one.

use super::{Effect, Row, ValueOf};

const BATCH: &str = "each step learns from another number of sequences";
const CUT: &str =
    "the text is cut into other sequences: their order and the place in the epoch are others from here on";
const DATA: &str = "the training data is another: its order of samples is another one from here on";
const DECAY: &str = "weights decay otherwise from here on";
const DOCUMENTS: &str = "tokens see other tokens than before";
const LENGTHS: &str = "other parts of the samples are read from here on";
const LOSS: &str = "what is minimised is another sum from here on";
const MODEL: &str = "the weights were trained as those of another model";
const OPTIMIZER: &str = "gradients change the weights otherwise from here on";
const ORDER: &str =
    "the order of samples is another one from here on: within this epoch some come twice and others never";
const PRECISION: &str = "weights and activations are rounded otherwise from here on";
const TOKENIZER: &str = "it has other contents, so each token may mean another text than the one that the weights were trained for";
const TEACHER: &str =
    "its weights are others, so the student learns from the logits of another model from here on";
const TRAINED: &str = "other parameters are trained from here on";
const VALIDATION: &str = "validation losses are those of other data from here on";

/// The keys in the order of docs/run-file.md, each with the place of its value in a resolved run and the consequence of a change.
pub(super) const TABLE: &[Row] = &[
    learned("train_batch_size", "batch.train_batch_size", BATCH),
    plain("train_micro_batch_size_per_gpu", "batch.micro_batch_size"),
    plain("gradient_accumulation_steps", "batch.num_micro_batches"),
    learned("gradient_clipping", "gradient_clipping", "gradients are clipped at another norm from here on"),
    // It has a part in the rate only through a default of the scheduler.
    row("steps", "steps", Effect::RateThrough("scheduler.")),
    learned("seed", "seed", ORDER),
    // A run that goes on has the weights of its checkpoint.
    row("init.from", "init/from", Effect::None),
    row("init.new", "init/new", Effect::None),
    learned("train_only", "train_only", TRAINED),
    plain("threads", "threads"),
    plain("device", "device"),
    learned("tf32", "precision", PRECISION).of_variant("tf32"),
    plain("memory", "memory_bytes"),
    learned("model.family", "model", MODEL).variant(),
    made_of_others("model.from"),
    learned("model.num_layers", "model.*.num_layers", MODEL),
    learned("model.seq_length", "model.*.seq_length", CUT),
    learned("model.hidden_size", "model.*.hidden_size", MODEL),
    learned("model.num_attention_heads", "model.*.num_attention_heads", MODEL),
    learned("model.vocab_size", "model.*.vocab_size", MODEL),
    learned("model.tie_embeddings", "model.*.tie_embeddings", MODEL),
    // Weights are drawn before the first step.
    plain("model.init_std", "model.*.init_std"),
    learned("model.dropout", "model.*.dropout", "a training step drops another share from here on"),
    learned("model.ffn_hidden_size", "model.*.ffn_hidden_size", MODEL),
    learned("model.num_query_groups", "model.*.num_query_groups", MODEL),
    learned("model.kv_channels", "model.*.kv_channels", MODEL),
    learned("model.norm_epsilon", "model.*.norm_epsilon", MODEL),
    learned("model.rotary_base", "model.*.rotary_base", MODEL),
    learned("model.add_qkv_bias", "model.*.add_qkv_bias", MODEL),
    learned("model.add_proj_bias", "model.*.add_proj_bias", MODEL),
    learned("model.add_mlp_bias", "model.*.add_mlp_bias", MODEL),
    learned("model.qk_layernorm", "model.*.qk_layernorm", MODEL),
    // A timed model learns nothing.
    plain("model.parameters_per_layer", "model.*.parameters_per_layer"),
    plain("model.activation_elements", "model.*.activation_elements"),
    plain("model.forward_ms", "model.*.forward").times(1e3),
    plain("model.backward_input_ms", "model.*.backward_input").times(1e3),
    plain("model.backward_weight_ms", "model.*.backward_weight").times(1e3),
    plain("model.recompute_ms", "model.*.recompute").times(1e3),
    learned("model.rope_scaling.rope_type", "model.*.rope_scaling.rope_type", MODEL),
    learned("model.rope_scaling.factor", "model.*.rope_scaling.factor", MODEL),
    learned(
        "model.rope_scaling.original_max_position_embeddings",
        "model.*.rope_scaling.original_max_position_embeddings",
        MODEL,
    ),
    learned("model.rope_scaling.low_freq_factor", "model.*.rope_scaling.low_freq_factor", MODEL),
    learned("model.rope_scaling.high_freq_factor", "model.*.rope_scaling.high_freq_factor", MODEL),
    learned("model.rope_scaling.attention_factor", "model.*.rope_scaling.attention_factor", MODEL),
    learned("model.rope_scaling.beta_fast", "model.*.rope_scaling.beta_fast", MODEL),
    learned("model.rope_scaling.beta_slow", "model.*.rope_scaling.beta_slow", MODEL),
    learned("model.rope_scaling.truncate", "model.*.rope_scaling.truncate", MODEL),
    data("data.text", "data.text"),
    data("data.tokens", "data.tokens"),
    data("data.weights", "data.weights"),
    data("data.token_type", "data.token_type"),
    content("data.tokenizer", "data.tokenizer", "data.tokenizer_checksum", TOKENIZER),
    data("data.end_token", "data.end_token"),
    data("data.validation", "data.validation"),
    content("data.validation_tokens", "data.validation_tokens", "data.validation_checksum", VALIDATION),
    learned("data.document_attention", "data.document_attention", DOCUMENTS),
    learned("data.seq_lengths", "data.seq_lengths", LENGTHS),
    plain("data.verify", "data.verify"),
    plain("evaluation.every", "evaluation.every"),
    plain("evaluation.batches", "evaluation.batches"),
    plain("parallel.pipeline", "parallel.pipeline"),
    plain("parallel.data", "parallel.data"),
    plain("parallel.schedule", "parallel.schedule").variant(),
    plain("parallel.schedule.file", "parallel.schedule.file.path"),
    plain("parallel.virtual_stages", "parallel.virtual_stages"),
    plain("parallel.group_size", "parallel.schedule.interleaved.group_size"),
    plain("parallel.partition", "parallel.partition"),
    plain("zero_optimization.stage", "zero.level"),
    plain("zero_optimization.unit_layers", "zero.unit_layers"),
    plain("zero_optimization.resident_units", "zero.resident_units"),
    plain("zero_optimization.vocabulary_slices", "vocabulary_slices"),
    plain("zero_optimization.prefetch_units", "zero.prefetch_units"),
    plain("zero_optimization.parameters", "zero.parameters"),
    plain("zero_optimization.sharding", "zero.sharding"),
    plain("zero_optimization.stage3_param_persistence_threshold", "zero.param_persistence_threshold"),
    plain("zero_optimization.stage3_model_persistence_threshold", "zero.model_persistence_threshold"),
    plain("zero_optimization.reduce", "zero.reduce"),
    plain("zero_optimization.overlap_comm", "zero.overlap_comm"),
    learned("optimizer.type", "optimizer", OPTIMIZER).variant(),
    learned("optimizer.no_decay", "optimizer.*.no_decay", DECAY),
    rate("optimizer.params.lr", "optimizer.*.lr"),
    learned("optimizer.params.betas", "optimizer.*.betas", OPTIMIZER),
    learned("optimizer.params.eps", "optimizer.*.eps", OPTIMIZER),
    learned("optimizer.params.weight_decay", "optimizer.*.weight_decay", DECAY),
    learned("optimizer.params.momentum", "optimizer.*.momentum", OPTIMIZER),
    rate("scheduler.type", "scheduler").variant(),
    rate("scheduler.params.warmup_min_lr", "scheduler.*.warmup?.warmup_min_lr"),
    rate("scheduler.params.warmup_max_lr", "scheduler.*.warmup?.warmup_max_lr"),
    rate("scheduler.params.warmup_num_steps", "scheduler.*.warmup?.warmup_num_steps"),
    rate("scheduler.params.warmup_type", "scheduler.*.warmup?.warmup_type"),
    rate("scheduler.params.total_num_steps", "scheduler.*.total_num_steps"),
    rate("scheduler.params.warmup_min_ratio", "scheduler.*.warmup_min_ratio"),
    rate("scheduler.params.cos_min_ratio", "scheduler.*.cos_min_ratio"),
    plain("comm.backend", "comm.backend"),
    plain("comm.port", "comm.port"),
    plain("comm.ranks_per_node", "comm.ranks_per_node"),
    plain("comm.reduction", "comm.reduction"),
    plain("comm.timeout_s", "comm.timeout"),
    plain("comm.links.ranks_per_node", "comm.links.ranks_per_node"),
    plain("comm.links.shared", "comm.links.shared"),
    plain("comm.links.near.latency_us", "comm.links.near.latency").times(1e6),
    plain("comm.links.near.gb_per_s", "comm.links.near.bytes_per_s").times(1e-9),
    plain("comm.links.far.latency_us", "comm.links.far.latency").times(1e6),
    plain("comm.links.far.gb_per_s", "comm.links.far.bytes_per_s").times(1e-9),
    learned("bf16.enabled", "precision", PRECISION).of_variant("bf16"),
    learned("fp16.enabled", "precision", PRECISION).of_variant("fp16"),
    // The scale itself is part of the checkpoint, and gradients are divided by it before they are used.
    plain("fp16.loss_scale", "precision.fp16").of(ValueOf::StaticScale),
    plain("fp16.initial_scale_power", "precision.fp16").of(ValueOf::FirstScalePower),
    plain("fp16.loss_scale_window", "precision.fp16.window"),
    plain("fp16.hysteresis", "precision.fp16.hysteresis"),
    plain("fp16.consecutive_hysteresis", "precision.fp16.consecutive_hysteresis"),
    plain("fp16.min_loss_scale", "precision.fp16.min_scale"),
    plain("activation_checkpointing.enabled", "checkpointing").variant(),
    plain("activation_checkpointing.every_layers", "checkpointing.layers"),
    plain("activation_checkpointing.head_logits", "head_logits"),
    plain("checkpoint.every", "checkpoint.every"),
    plain("checkpoint.minutes", "checkpoint.interval").times(1.0 / 60.0),
    plain("checkpoint.background", "checkpoint.background"),
    plain("checkpoint.keep", "checkpoint.keep"),
    plain("checkpoint.on_error", "checkpoint.on_error"),
    plain("checkpoint.signal", "checkpoint.signal"),
    plain("checkpoint.per_host", "checkpoint.per_host"),
    // These are said elsewhere than in a run file: by a task of a master file, or by the program that made the model.
    plain("ranks", "comm.first_rank"),
    content("loss", "loss", "loss", LOSS),
    content("teacher", "teacher.weights", "teacher.checksum", TEACHER),
];

const fn row(key: &'static str, at: &'static str, effect: Effect) -> Row {
    Row { key, at, value: ValueOf::Whole, effect }
}

/// Changes nothing that is learned, but for rounding.
const fn plain(key: &'static str, at: &'static str) -> Row {
    row(key, at, Effect::None)
}

/// Changes what is learned: how.
const fn learned(key: &'static str, at: &'static str, how: &'static str) -> Row {
    row(key, at, Effect::Learned(how))
}

/// Changes what is learned where the learning rate of some step is another.
const fn rate(key: &'static str, at: &'static str) -> Row {
    row(key, at, Effect::Rate)
}

/// Changes what is learned where the checksum of the training data is another.
const fn data(key: &'static str, at: &'static str) -> Row {
    row(key, at, Effect::Data(DATA))
}

/// Changes what is learned where the contents have another checksum, which checkpoints of earlier versions do not have.
const fn content(key: &'static str, at: &'static str, checksum_at: &'static str, how: &'static str) -> Row {
    row(key, at, Effect::Content { checksum_at, how })
}

/// Has no value of its own: it says those of other keys.
const fn made_of_others(key: &'static str) -> Row {
    row(key, "", Effect::None)
}

impl Row {
    const fn of(self, value: ValueOf) -> Self {
        Self { value, ..self }
    }

    /// Its value is which variant there is, whatever that holds.
    const fn variant(self) -> Self {
        self.of(ValueOf::Variant)
    }

    /// Its value is whether this variant is there.
    const fn of_variant(self, variant: &'static str) -> Self {
        self.of(ValueOf::IsVariant(variant))
    }

    /// Its value is that many times the number, or the seconds, in the resolved run.
    const fn times(self, factor: f64) -> Self {
        self.of(ValueOf::Times(factor))
    }
}
