//! Keys of `zero_optimization` without effect.

use super::{ForeignKey, Off, hint, not_offered, not_yet};

const COLLECTIVES: &str = "each unit is gathered and reduced by one collective; `unit_layers` sets its size";

pub(super) const ZERO: &[ForeignKey] = &[
    hint("allgather_bucket_size", COLLECTIVES),
    hint("allgather_partitions", COLLECTIVES),
    hint("contiguous_gradients", "each unit's gradients are one flat buffer"),
    hint("elastic_checkpoint", "nothing: saved weights do not depend on the grid"),
    hint("enable_sanity_checks", "every program is checked before it runs"),
    hint("fast_sharding_for_leaf_module", "`unit_layers` sets what is gathered at once"),
    hint("ignore_unused_parameters", "every parameter is used, so every one has a gradient"),
    hint("leaf_module", "`unit_layers` sets what is gathered at once"),
    hint("legacy_stage1", "there is one ZeRO-1"),
    hint("load_from_fp32_weights", "weights are saved and loaded in f32"),
    hint("log_trace_cache_warnings", "gathers follow a checked program, so there is no trace to invalidate"),
    hint("memory_efficient_linear", "saved activations never hold weights"),
    hint(
        "overlap_comm",
        "communication runs on lanes of its own and always overlaps; `prefetch_units` sets how far ahead",
    ),
    hint("override_module_apply", "each rank initialises only what it holds"),
    hint("reduce_bucket_size", COLLECTIVES),
    hint("reduce_scatter", "gradients are always reduce-scattered where they are sharded"),
    hint("round_robin_gradients", "each data rank owns one contiguous shard of each unit"),
    hint("stage3_gather_fp16_weights_on_model_save", "weights are always saved whole, gathered unit by unit"),
    hint(
        "stage3_gather_16bit_weights_on_model_save",
        "weights are always saved whole, gathered unit by unit",
    ),
    hint("stage3_max_live_parameters", "`resident_units` bounds what is gathered"),
    hint(
        "stage3_max_reuse_distance",
        "`resident_units` bounds what is gathered; the program decides what stays",
    ),
    hint("stage3_module_granularity_threshold", "`unit_layers` sets what is gathered at once"),
    hint("stage3_prefetch_bucket_size", "`prefetch_units` sets how far ahead gathers are issued"),
    hint("stage3_use_all_reduce_for_fetch_params", "units are gathered by all-gathers"),
    hint("sub_group_size", "the optimizer updates unit by unit"),
    hint("use_all_reduce_for_fetch_params", "units are gathered by all-gathers"),
    not_offered(
        "cpu_offload",
        Off::False,
        "offload",
        "remove it; more data ranks shard the optimizer further",
    ),
    not_offered("cpu_offload_params", Off::False, "offload", "remove it; smaller units gather less at once"),
    not_offered("cpu_offload_use_pin_memory", Off::False, "offload", "remove it"),
    not_offered(
        "mics_hierarchical_params_gather",
        Off::False,
        "MiCS (sharding over a part of the data ranks)",
        "remove it",
    ),
    not_offered(
        "mics_shard_size",
        Off::Number(-1.0),
        "MiCS (sharding over a part of the data ranks)",
        "remove it, or set -1",
    ),
    not_offered(
        "offload_optimizer",
        Off::NoDevice,
        "offload of the optimizer",
        "remove it; more data ranks shard the optimizer further",
    ),
    not_offered(
        "offload_param",
        Off::NoDevice,
        "offload of parameters",
        "remove it; ZeRO-3 with smaller units gathers less at once",
    ),
    not_offered("zenflow", Off::Never, "ZenFlow (late optimizer updates)", "remove it"),
    not_offered(
        "zero_hpz_partition_size",
        Off::Number(1.0),
        "a secondary copy of the weights in each host (ZeRO++ hpZ)",
        "remove it, or set 1",
    ),
    not_offered(
        "zero_quantized_gradients",
        Off::False,
        "quantised reduction (ZeRO++)",
        "remove it, or set false",
    ),
    not_offered(
        "zero_quantized_nontrainable_weights",
        Off::False,
        "quantised weights (ZeRO++)",
        "remove it, or set false",
    ),
    not_offered(
        "zero_quantized_weights",
        Off::False,
        "quantised gathering (ZeRO++)",
        "remove it, or set false",
    ),
    not_yet(
        "exclude",
        Off::Empty,
        "leaving parameters unsharded by pattern",
        "remove it; every parameter is sharded",
    ),
    not_yet("include", Off::Empty, "sharding parameters by pattern", "remove it; every parameter is sharded"),
];
