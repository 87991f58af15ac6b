//! Keys without effect at the top level and in every section but `zero_optimization`.

use super::{ForeignKey, LOADING, Meaning, Off, Offer, SHARDED_AT_START};

const METRICS: &str = "each step is one line of `metrics.jsonl` in the run's folder";
const TIMES: &str = "measured times are in the run's metrics";

foreign_keys! { TOP:
    silent "$schema";
    hint "aio": "nothing is offloaded, so nothing is read from or written to disk during a step";
    hint "allgather_size": "each unit is gathered by one collective; `zero_optimization.unit_layers` sets its size";
    hint "comet": METRICS;
    hint "comms_config": "DeepSpeed does not read it either; messages and bytes are always counted by kind and rank";
    hint "comms_logger": "messages and bytes are always counted by kind and rank";
    hint "compile": "there is no PyTorch, and so no torch.compile";
    hint "cuda_visible_devices": "the environment variable `CUDA_VISIBLE_DEVICES` says which GPUs there are";
    hint "csv_monitor": METRICS;
    hint "dataloader_drop_last": "every batch is full: samples are numbered over the whole run";
    hint "datastates_ckpt": "weights are gathered and written unit by unit";
    hint "disable_allgather": "the program decides which collectives run";
    hint "disable_python_gc": "there is no Python";
    hint "dump_state": "`pipezero check --json` prints the resolved configuration";
    hint "flops_profiler": TIMES;
    hint "fp32_allreduce": "gradients are always reduced in f32";
    hint "graph_harvesting": "nothing is recorded as a CUDA graph; a step is one program";
    hint "log_level": "the environment variable `PIPEZERO_LOG` sets it";
    hint "low_cpu_mem_usage": LOADING;
    hint "memory_breakdown": "memory is always counted by rank and category";
    hint "monitor_config":
        "DeepSpeed does not read it either; each step is one line of `metrics.jsonl` in the run's folder";
    hint "nebula": "weights are gathered and written unit by unit";
    hint "pipeline": "`parallel` holds the pipeline's keys; DeepSpeed reads its degree from Python alone";
    hint "seq_parallel_communication_data_type":
        "there is no sequence parallelism, so nothing is sent for it";
    hint "steps_per_print":
        "every step is a line of `metrics.jsonl`; progress is shown by time, not by steps";
    hint "tensorboard": METRICS;
    hint "timers": TIMES;
    hint "use_data_before_expert_parallelism": "there are no experts; data ranks are the innermost";
    hint "vocabulary_size": "`model.vocab_size` sets it";
    hint "wall_clock_breakdown": TIMES;
    hint "wandb": METRICS;
    hint "zero_allow_untested_optimizer": "every optimizer here is tested with every ZeRO level";
    hint "zero_force_ds_cpu_optimizer": "nothing is offloaded, so there is no optimizer of another kind";
    hint "zero_init": SHARDED_AT_START;
    hint "zero3_init_flag": SHARDED_AT_START;
    never "amp" unless Disabled: "automatic mixed precision (apex amp)",
        "remove it; `bf16` selects precision";
    never "autotuning" unless Disabled: "DeepSpeed's autotuning",
        "remove it; `pipezero plan` predicts memory and time without running";
    never "communication_data_type" unless F32: "reduction in another type than f32";
    never "compression_training" unless NoneEnabled: "compression";
    never "curriculum_learning" unless Disabled: "curriculum learning";
    never "data_efficiency" unless Disabled: "data sampling by difficulty";
    never "eigenvalue" unless Disabled: "the eigenvalue estimate for quantisation";
    never "elasticity" unless Disabled: "elasticity", "remove it and write the batch keys";
    never "expert_parallel" unless Disabled: "expert parallelism";
    never "fp8" unless Disabled: "computing in 8 bits (fp8)",
        "remove it, and write \"bf16\": {\"enabled\": true}: bf16 and fp16 are offered besides f32";
    never "gradient_allreduce_op" unless Word("mean"): "a sum over data ranks";
    never "gradient_predivide_factor" unless Number(1.0): "dividing gradients before the reduction",
        "remove it: gradients are reduced in f32 and cannot overflow there";
    never "hf_ds_config" unless Null: "a DeepSpeed configuration besides this file",
        "remove it: the run file is that configuration; copy its sections here, or name it as \"extends\"";
    never "hybrid_engine" unless Disabled: "the hybrid engine";
    never "prescale_gradients" unless False: "dividing gradients before the reduction",
        "remove it: gradients are reduced in f32 and cannot overflow there";
    never "managed_gradient_accumulation" unless True: "accumulation by the caller";
    never "progressive_layer_drop" unless Disabled: "dropping layers at random";
    never "quantize_training" unless Disabled: "quantised training";
    never "sequence_parallel_size" unless Number(1.0): "sequence parallelism";
    never "sparse_attention" unless Null: "sparse attention", "remove it; attention is dense and causal";
    never "sparse_gradients" unless False: "sparse gradients";
    never "tensor_parallel" unless NoDegree("autotp_size"): "tensor parallelism",
        "remove it; `parallel.pipeline` and ZeRO-3 split the model instead";
    never "torch_autocast" unless Disabled: "autocast", "remove it; `bf16` selects precision";
    never "weight_quantization" unless Null: "quantised weights";
}

foreign_keys! { COMPILE:
    never "deepcompile" unless False: "DeepCompile (gathers and offload by a compiler)",
        "remove it; the program plans gathers, and nothing is offloaded";
}

foreign_keys! { PIPELINE:
    never "stages" unless Word("auto"): "a pipeline degree in this section", "write `parallel.pipeline`";
}

foreign_keys! { OPTIMIZER:
    hint "legacy_fusion": "gradients and weights are flat buffers per unit; the update is one pass";
}

const ONE_BIT: &str = "compressed communication (1-bit optimizers)";

foreign_keys! { OPTIMIZER_PARAMS:
    hint "foreach": "the update is one pass over flat buffers";
    hint "fused": "the update is one pass over flat buffers";
    hint "torch_adam": "there is one AdamW";
    never "adam_w_mode" unless True: "Adam with L2 regularisation", "remove it: `Adam` means AdamW";
    never "amsgrad" unless False: "AMSGrad";
    never "bias_correction" unless True: "Adam without bias correction";
    never "dampening" unless Number(0.0): "dampening";
    never "comm_backend_name": ONE_BIT, "remove it; `comm.backend` names the backend";
    never "cuda_aware": ONE_BIT;
    never "freeze_step": ONE_BIT;
    never "max_grad_norm": "clipping inside the optimizer", "write `gradient_clipping` instead";
    never "maximize" unless False: "ascent";
    never "nesterov" unless False: "Nesterov momentum";
}

foreign_keys! { SCHEDULER_PARAMS:
    never "last_batch_iteration" unless Number(-1.0): "starting the schedule at another step than the first";
}

foreign_keys! { FP16:
    hint "auto_cast": "a model's inputs are tokens; activations have the type of the parameters";
    never "fp16_master_weights_and_grads" unless False: "keeping master weights and gradients in fp16";
    never "fp16_opt_level": "an apex amp level";
}

const UNSCALED: &str = "loss scaling in bf16";
const NO_SCALE: &str = "remove it: bf16 has the range of f32, so its loss is not scaled";

foreign_keys! { BF16:
    never "bf16_master_weights_and_grads" unless False: "keeping master weights and gradients in bf16";
    never "bf16_optimizer_states" unless False: "keeping optimizer state in bf16";
    hint "check_grad_overflow": "bf16 has the range of f32";
    never "auto_cast": "a key of `fp16`", "remove it";
    never "hysteresis": UNSCALED, NO_SCALE;
    never "initial_scale_power": UNSCALED, NO_SCALE;
    never "loss_scale": UNSCALED, NO_SCALE;
    never "loss_scale_window": UNSCALED, NO_SCALE;
    never "min_loss_scale": UNSCALED, NO_SCALE;
    hint "immediate_grad_update": "`zero_optimization.reduce` decides when gradients are reduced";
}

foreign_keys! { DATA_TYPES:
    never "buffer_dtype" unless F32: "buffers of another type than f32";
    never "grad_accum_dtype" unless F32: "accumulation in another type than f32";
    never "param_dtype" unless Null: "a second way to choose the parameters' type",
        "remove it; `bf16` and `fp16` select precision";
}

foreign_keys! { ACTIVATION_CHECKPOINTING:
    hint "contiguous_memory_optimization":
        "saved activations lie in buffers that the plan sizes, allocated once";
    hint "number_checkpoints": "buffers are sized from the plan; `every_layers` sets how much is kept";
    hint "partition_activations":
        "it splits saved activations over the ranks of tensor parallelism, and there are none";
    hint "profile": TIMES;
    hint "synchronize_checkpoint_boundary": "the program orders compute and communication";
    never "cpu_checkpointing" unless False: "offload of activations";
}

foreign_keys! { CHECKPOINT:
    hint "checkpoint_serialization": "state is written in one format, safetensors";
    hint "load_universal": "a checkpoint can be resumed on every grid";
    hint "parallel_write": "every rank writes what it owns";
    hint "tag_validation": "a checkpoint's name is its step";
    hint "use_node_local_storage": "files go to the run's folder";
    hint "writer": "every rank writes what it owns";
}
