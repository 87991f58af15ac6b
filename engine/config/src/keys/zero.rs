//! Keys of `zero_optimization` without effect.

use super::{ForeignKey, LOADING, Meaning, Off, Offer, SHARDED_AT_START};

const COLLECTIVES: &str = "each unit is gathered and reduced by one collective; `unit_layers` sets its size";

foreign_keys! { ZERO:
    hint "allgather_bucket_size": COLLECTIVES;
    hint "allgather_partitions": COLLECTIVES;
    hint "allgather_sequential": "`unit_layers` sets what is gathered at once";
    hint "compute_grad_norm": "the norm is always computed, in the message that ends the step anyway";
    hint "contiguous_gradients": "each unit's gradients are one flat buffer";
    hint "elastic_checkpoint": "nothing: saved weights do not depend on the grid";
    hint "enable_sanity_checks": "every program is checked before it runs";
    hint "fast_sharding_for_leaf_module": "`unit_layers` sets what is gathered at once";
    hint "gather_16bit_weights_on_model_save": "weights are always saved whole, gathered unit by unit";
    hint "ignore_unused_parameters": "every parameter is used, so every one has a gradient";
    hint "leaf_module": "`unit_layers` sets what is gathered at once";
    hint "legacy_stage1": "there is one ZeRO-1";
    hint "load_from_fp32_weights": "weights are saved and loaded in f32";
    hint "log_trace_cache_warnings": "gathers follow a checked program, so there is no trace to invalidate";
    hint "low_cpu_mem_usage": LOADING;
    hint "max_live_parameters": "`resident_units` bounds what is gathered";
    hint "max_reuse_distance": "`resident_units` bounds what is gathered; the program decides what stays";
    hint "memory_efficient_linear": "saved activations never hold weights";
    hint "module_granularity_threshold": "`unit_layers` sets what is gathered at once";
    hint "override_module_apply": "each rank initialises only what it holds";
    hint "parameter_alignment": "buffers, and the shards in them, are always aligned";
    hint "pipeline_loading_checkpoint": "each rank reads its own part of the weights, and no more";
    hint "prefetch_bucket_size": "`prefetch_units` sets how far ahead gathers are issued";
    hint "reduce_bucket_size": COLLECTIVES;
    hint "reduce_scatter": "gradients are always reduce-scattered where they are sharded";
    hint "round_robin_gradients": "each data rank owns one contiguous shard of each unit";
    hint "save_muon_momentum_buffer_in_memory": "there is no Muon, and so none of its momentum";
    hint "stage3_allgather_sequential": "`unit_layers` sets what is gathered at once";
    hint "stage3_gather_fp16_weights_on_model_save": "weights are always saved whole, gathered unit by unit";
    hint "stage3_gather_16bit_weights_on_model_save": "weights are always saved whole, gathered unit by unit";
    hint "stage3_max_live_parameters": "`resident_units` bounds what is gathered";
    hint "stage3_max_reuse_distance":
        "`resident_units` bounds what is gathered; the program decides what stays";
    hint "stage3_module_granularity_threshold": "`unit_layers` sets what is gathered at once";
    hint "stage3_prefetch_bucket_size": "`prefetch_units` sets how far ahead gathers are issued";
    hint "stage3_use_all_reduce_for_fetch_params": "units are gathered by all-gathers";
    hint "sub_group_size": "the optimizer updates unit by unit";
    hint "use_all_reduce_for_fetch_params": "units are gathered by all-gathers";
    hint "use_multi_rank_bucket_allreduce": COLLECTIVES;
    hint "zero_init": SHARDED_AT_START;
    hint "zero3_init_flag": SHARDED_AT_START;
    never "cpu_offload" unless False: "offload", "remove it; more data ranks shard the optimizer further";
    never "cpu_offload_param" unless False: "offload", "remove it; smaller units gather less at once";
    never "cpu_offload_params" unless False: "offload", "remove it; smaller units gather less at once";
    never "cpu_offload_use_pin_memory" unless False: "offload", "remove it";
    never "mics_hierarchical_params_gather" unless False: "MiCS (sharding over a part of the data ranks)",
        "remove it";
    never "mics_shard_size" unless NotPositive: "MiCS (sharding over a part of the data ranks)";
    never "offload_optimizer" unless NoDevice: "offload of the optimizer",
        "remove it; more data ranks shard the optimizer further";
    never "offload_param" unless NoDevice: "offload of parameters",
        "remove it; ZeRO-3 with smaller units gathers less at once";
    never "zenflow" unless Null: "ZenFlow (late optimizer updates)";
    never "zero_hpz_partition_size" unless Number(1.0):
        "a secondary copy of the weights in each host (ZeRO++ hpZ)";
    never "zero_quantized_gradients" unless False: "quantised reduction (ZeRO++)";
    never "zero_quantized_nontrainable_weights" unless False: "quantised weights (ZeRO++)";
    never "zero_quantized_weights" unless False: "quantised gathering (ZeRO++)";
    never "zeropp_loco_param" unless Null: "error feedback for quantised reduction (ZeRO++ LoCo)";
    later "exclude" unless Empty: "a list of what is not sharded",
        "name what stays in \"parameters\": [\"persistent:REGEX\"], or [\"whole:REGEX\"]";
    later "include" unless Empty: "a list of what is sharded alone",
        "write \"parameters\": [\"whole:.\", \"sharded:REGEX\"]";
}
