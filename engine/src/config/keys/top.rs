//! Keys without effect at the top level and in every section but `zero_optimization`.

use super::{ForeignKey, Meaning, Off, hint, not_offered, not_yet};

const METRICS: &str = "each step is one line of `metrics.jsonl` in the run's folder";
const TIMES: &str = "measured times are in the run's metrics";

pub(super) const TOP: &[ForeignKey] = &[
    ForeignKey { name: "$schema", meaning: Meaning::Silent },
    hint("aio", "nothing is offloaded, so nothing is read from or written to disk during a step"),
    hint("comet", METRICS),
    hint("comms_logger", "messages and bytes are always counted by kind and rank"),
    hint("csv_monitor", METRICS),
    hint("dataloader_drop_last", "every batch is full: samples are numbered over the whole run"),
    hint("datastates_ckpt", "weights are gathered and written unit by unit"),
    hint("disable_allgather", "the program decides which collectives run"),
    hint("disable_python_gc", "there is no Python"),
    hint("dump_state", "`pipezero check` prints the resolved configuration"),
    hint("flops_profiler", TIMES),
    hint("fp32_allreduce", "gradients are always reduced in f32"),
    hint("log_level", "the environment variable `PIPEZERO_LOG` sets it"),
    hint("memory_breakdown", "memory is always counted by rank and category"),
    hint("nebula", "weights are gathered and written unit by unit"),
    hint("pipeline", "`parallel` holds the pipeline's keys; DeepSpeed reads its degree from Python alone"),
    hint(
        "seq_parallel_communication_data_type",
        "there is no sequence parallelism, so nothing is sent for it",
    ),
    hint(
        "steps_per_print",
        "every step is a line of `metrics.jsonl`; progress is shown by time, not by steps",
    ),
    hint("tensorboard", METRICS),
    hint("timers", TIMES),
    hint("use_data_before_expert_parallelism", "there are no experts; data ranks are the innermost"),
    hint("vocabulary_size", "`model.vocab_size` sets it"),
    hint("wall_clock_breakdown", TIMES),
    hint("wandb", METRICS),
    hint("zero_allow_untested_optimizer", "every optimizer here is tested with every ZeRO level"),
    hint("zero_force_ds_cpu_optimizer", "nothing is offloaded, so there is no optimizer of another kind"),
    not_offered(
        "amp",
        Off::Disabled,
        "automatic mixed precision (apex amp)",
        "remove it; `bf16` selects precision",
    ),
    not_offered(
        "autotuning",
        Off::Disabled,
        "DeepSpeed's autotuning",
        "remove it; `pipezero plan` predicts memory and time without running",
    ),
    not_offered("bfloat16", Off::Disabled, "DeepSpeed's older name of `bf16`", "write the section as `bf16`"),
    not_offered(
        "communication_data_type",
        Off::Word("fp32"),
        "reduction in another type than f32",
        "remove it, or write \"fp32\"",
    ),
    not_offered(
        "compile",
        Off::Without("deepcompile"),
        "DeepCompile (gathers and offload by a compiler)",
        "remove it; the program plans gathers, and nothing is offloaded",
    ),
    not_offered("compression_training", Off::Never, "compression", "remove it"),
    not_offered("curriculum_learning", Off::Disabled, "curriculum learning", "remove it"),
    not_offered("data_efficiency", Off::Disabled, "data sampling by difficulty", "remove it"),
    not_offered("eigenvalue", Off::Disabled, "the eigenvalue estimate for quantisation", "remove it"),
    not_offered("elasticity", Off::Disabled, "elasticity", "remove it and write the batch keys"),
    not_offered("expert_parallel", Off::Disabled, "expert parallelism", "remove it"),
    not_offered(
        "gradient_allreduce_op",
        Off::Word("mean"),
        "a sum over data ranks",
        "remove it, or write \"mean\"",
    ),
    not_offered(
        "gradient_predivide_factor",
        Off::Number(1.0),
        "dividing gradients before the reduction",
        "remove it: gradients are reduced in f32 and cannot overflow there",
    ),
    not_offered("hybrid_engine", Off::Disabled, "the hybrid engine", "remove it"),
    not_offered(
        "prescale_gradients",
        Off::False,
        "dividing gradients before the reduction",
        "remove it: gradients are reduced in f32 and cannot overflow there",
    ),
    not_offered(
        "managed_gradient_accumulation",
        Off::True,
        "accumulation by the caller",
        "remove it, or set true",
    ),
    not_offered("progressive_layer_drop", Off::Disabled, "dropping layers at random", "remove it"),
    not_offered("quantize_training", Off::Disabled, "quantised training", "remove it"),
    not_offered("sequence_parallel_size", Off::Number(1.0), "sequence parallelism", "remove it, or set 1"),
    not_offered(
        "sparse_attention",
        Off::Never,
        "sparse attention",
        "remove it; attention is dense and causal",
    ),
    not_offered("sparse_gradients", Off::False, "sparse gradients", "remove it, or set false"),
    not_offered(
        "tensor_parallel",
        Off::Never,
        "tensor parallelism",
        "remove it; `parallel.pipeline` and ZeRO-3 split the model instead",
    ),
    not_offered("torch_autocast", Off::Disabled, "autocast", "remove it; `bf16` selects precision"),
    not_offered("weight_quantization", Off::Never, "quantised weights", "remove it"),
];

pub(super) const COMM: &[ForeignKey] = &[not_yet(
    "port",
    Off::Never,
    "a side channel between processes",
    "remove it: ranks are threads of one process",
)];

pub(super) const OPTIMIZER: &[ForeignKey] =
    &[hint("legacy_fusion", "gradients and weights are flat buffers per unit; the update is one pass")];

const ONE_BIT: &str = "compressed communication (1-bit optimizers)";

pub(super) const OPTIMIZER_PARAMS: &[ForeignKey] = &[
    hint("foreach", "the update is one pass over flat buffers"),
    hint("fused", "the update is one pass over flat buffers"),
    hint("torch_adam", "there is one AdamW"),
    not_offered("adam_w_mode", Off::True, "Adam with L2 regularisation", "remove it: `Adam` means AdamW"),
    not_offered("amsgrad", Off::False, "AMSGrad", "remove it, or set false"),
    not_offered("bias_correction", Off::True, "Adam without bias correction", "remove it, or set true"),
    not_offered("dampening", Off::Number(0.0), "dampening", "remove it, or set 0"),
    not_offered("comm_backend_name", Off::Never, ONE_BIT, "remove it; `comm.backend` names the backend"),
    not_offered("cuda_aware", Off::Never, ONE_BIT, "remove it"),
    not_offered("freeze_step", Off::Never, ONE_BIT, "remove it"),
    not_offered(
        "max_grad_norm",
        Off::Never,
        "clipping inside the optimizer",
        "write `gradient_clipping` instead",
    ),
    not_offered("maximize", Off::False, "ascent", "remove it, or set false"),
    not_offered("nesterov", Off::False, "Nesterov momentum", "remove it, or set false"),
];

pub(super) const SCHEDULER_PARAMS: &[ForeignKey] = &[not_offered(
    "last_batch_iteration",
    Off::Number(-1.0),
    "starting the schedule at another step than the first",
    "remove it, or set -1",
)];

pub(super) const FP16: &[ForeignKey] = &[
    hint("auto_cast", "a model's inputs are tokens; activations have the type of the parameters"),
    not_offered(
        "fp16_master_weights_and_grads",
        Off::False,
        "keeping master weights and gradients in fp16",
        "remove it, or set false",
    ),
    not_offered("fp16_opt_level", Off::Never, "an apex amp level", "remove it"),
];

pub(super) const BF16: &[ForeignKey] = &[
    not_offered(
        "bf16_master_weights_and_grads",
        Off::False,
        "keeping master weights and gradients in bf16",
        "remove it, or set false",
    ),
    not_offered(
        "bf16_optimizer_states",
        Off::False,
        "keeping optimizer state in bf16",
        "remove it, or set false",
    ),
    hint("check_grad_overflow", "bf16 has the range of f32"),
    hint("immediate_grad_update", "`zero_optimization.reduce` decides when gradients are reduced"),
];

pub(super) const DATA_TYPES: &[ForeignKey] = &[
    not_offered(
        "buffer_dtype",
        Off::Word("fp32"),
        "buffers of another type than f32",
        "remove it, or write \"fp32\"",
    ),
    not_offered(
        "grad_accum_dtype",
        Off::Word("fp32"),
        "accumulation in another type than f32",
        "remove it, or write \"fp32\"",
    ),
    not_offered(
        "param_dtype",
        Off::Never,
        "a second way to choose the parameters' type",
        "remove it; `bf16` and `fp16` select precision",
    ),
];

pub(super) const ACTIVATION_CHECKPOINTING: &[ForeignKey] = &[
    hint(
        "contiguous_memory_optimization",
        "saved activations lie in buffers that the plan sizes, allocated once",
    ),
    hint("number_checkpoints", "buffers are sized from the plan; `every_layers` sets how much is kept"),
    hint("profile", TIMES),
    hint("synchronize_checkpoint_boundary", "the program orders compute and communication"),
    not_offered("cpu_checkpointing", Off::False, "offload of activations", "remove it, or set false"),
    not_offered("partition_activations", Off::False, "tensor parallelism", "remove it, or set false"),
];

const RESUME: &str = "a checkpoint to resume from";

pub(super) const CHECKPOINT: &[ForeignKey] = &[
    hint("load_universal", "saved weights load on every grid"),
    hint("parallel_write", "weights are gathered and written unit by unit"),
    hint("tag_validation", "a run's folder holds one set of weights"),
    hint("use_node_local_storage", "files go to the run's folder"),
    not_yet("every", Off::Never, RESUME, "remove it; the final weights are always saved"),
    not_yet("keep", Off::Never, RESUME, "remove it; the final weights are always saved"),
];
