//! The run file as it is written: every section and key, with type, meaning and default.
//!
//! Where DeepSpeed has a key, it has DeepSpeed's name and meaning. Defaults stand here as text, for the documentation;
//! `resolve` applies them, and a test holds the two together.

use super::kind::{Auto, Either, FileName};
use super::section::section;
use super::words::{
    BackendWord, FamilyWord, OptimizerWord, PartitionWord, ReduceWord, ResidencyWord, ScheduleWord,
    SchedulerWord, UnitWord, WarmupWord,
};

section! {
    /// A training run.
    RawRun at "" {
        /// Sequences of a step over all data ranks. Any two of the three batch keys imply the third; `"auto"` is as
        /// good as absent.
        train_batch_size: Auto<usize> = "from the other two", "the three are one equation";
        /// Sequences of one micro-batch of one data rank.
        train_micro_batch_size_per_gpu: Auto<usize> = "from the other two", "the three are one equation";
        /// Micro-batches of a step.
        gradient_accumulation_steps: Auto<usize> = "from the other two; 1 with one other", "the three are one equation";
        /// Largest norm of all gradients; 0 switches clipping off. `"auto"` is 1.0.
        gradient_clipping: Auto<f64> = "1.0", "DeepSpeed's default; GPT recipes use it";
        /// Optimizer steps of the run.
        steps: u64 = "", "how long to train is the user's choice";
        /// Seed of initial values and of the order of the data.
        seed: u64 = "0", "a run repeats unless it is told otherwise";
        /// Threads of each rank. `"auto"` is max(1, cores / ranks).
        threads: Auto<usize> = "\"auto\"", "every core has one thread";
    }
    sections {
        model: RawModel;
        data: RawData;
        evaluation: RawEvaluation;
        parallel: RawParallel;
        zero_optimization: RawZero;
        optimizer: RawOptimizer;
        scheduler: RawScheduler;
        comm: RawComm;
        bf16: RawBf16;
        fp16: RawFp16;
        data_types: RawDataTypes;
        activation_checkpointing: RawActivationCheckpointing;
        checkpoint: RawCheckpoint;
    }
}

section! {
    /// The model's family and sizes, under Megatron's names.
    RawModel at "model" {
        /// `"gpt2"`: learned positions, pre-LN, tanh GELU, biases. `"mlp"`: an embedding, one linear layer and GELU per
        /// layer and token, a head; the smallest model, for tests and studies.
        family: FamilyWord = "", "it decides what the sizes mean";
        /// Transformer blocks.
        num_layers: usize = "", "the size is the user's choice";
        /// Width of the residual stream.
        hidden_size: usize = "", "the size is the user's choice";
        /// Attention heads; divides `hidden_size`. Needed for `"gpt2"`; `"mlp"` has none.
        num_attention_heads: usize = "1 for \"mlp\"", "the size is the user's choice";
        /// Tokens of a sequence.
        seq_length: usize = "", "the size is the user's choice";
        /// Number of tokens; at least 256, since text is read as bytes.
        vocab_size: usize = "256", "text is read as bytes";
        /// Whether the head uses the embedding's weight.
        tie_embeddings: bool = "true for \"gpt2\", false for \"mlp\"", "GPT-2 is tied";
        /// Standard deviation of the initial weights.
        init_std: f64 = "0.02", "GPT-2's";
    }
}

section! {
    /// Where the text comes from.
    RawData at "data" {
        /// Files, folders and globs of UTF-8 text; relative paths start at the run file's folder.
        text: Either<String, Vec<String>> = "", "there is nothing to train on without it";
        /// Share of the text that is kept for validation, from 0 to 0.5, in interleaved blocks of each file.
        validation: f64 = "0.05", "enough for a steady figure, little lost to training";
    }
}

section! {
    /// When and how much to validate.
    RawEvaluation at "evaluation" {
        /// Every so many steps; 0 is only at the end.
        every: u64 = "0", "validation takes time from training";
        /// Batches of `train_batch_size` sequences each time.
        batches: u64 = "8", "a steady figure at a small cost";
    }
}

section! {
    /// The grid and the pipeline schedule.
    RawParallel at "parallel" {
        /// Pipeline degree p: into how many stages the layers are split.
        pipeline: usize = "1", "no pipeline unless asked for";
        /// Data degree d: how many copies of the pipeline train on shares of the batch. `"auto"` is world / p, where the
        /// world is the ranks that a launcher started; the threads backend starts what the file says, so there it is 1.
        data: Auto<usize> = "\"auto\"", "the launcher knows the number of ranks";
        /// `"gpipe"` or `"1f1b"`.
        schedule: Either<ScheduleWord, FileName> = "\"1f1b\"", "gpipe's time with the fewest activations";
        /// How layers are split into stages: `"uniform"`, or a list with the transformer blocks of each stage. The
        /// embedding joins the first stage, the head the last.
        partition: Either<PartitionWord, Vec<usize>> = "\"uniform\"", "blocks are equal";
    }
}

section! {
    /// What is sharded over the data ranks. Beside these keys, DeepSpeed's are known.
    RawZero at "zero_optimization" {
        /// The ZeRO level: 0 shards nothing, 1 the optimizer, 2 gradients too, 3 parameters too.
        stage: u64 = "0", "DeepSpeed's default";
        /// Transformer blocks of an FSDP unit, which is gathered and reduced at once; `"stage"` makes one unit of all
        /// the blocks of a stage.
        unit_layers: Either<f64, UnitWord> = "1", "the smallest unit gathers the least at once";
        /// Gathered units that a rank may hold at once, those in use and prefetched included; `"strict"` reshards after
        /// every use. ZeRO-3 alone.
        resident_units: Either<usize, ResidencyWord> = "1 + prefetch_units", "the fewest that let prefetching work";
        /// How many uses ahead a unit's gather is issued: 0 or 1. ZeRO-3 alone. `"auto"` is 1.
        prefetch_units: Auto<usize> = "1", "a gather runs while the unit before it computes";
        /// When gradients are reduced over the data ranks: `"every"` micro-batch, or after the `"last"`, unsharded until
        /// then. ZeRO-0 and ZeRO-1 reduce after the last, ZeRO-2 after every; ZeRO-3 does either.
        reduce: ReduceWord = "\"every\" for ZeRO-2 and ZeRO-3, else \"last\"", "the level's own memory";
    }
}

section! {
    /// The optimizer.
    RawOptimizer at "optimizer" {
        /// `"AdamW"`, `"Adam"` (which means AdamW, as in DeepSpeed) or `"SGD"`.
        r#type: OptimizerWord = "\"AdamW\"", "what GPT models are trained with";
        /// Parameters that are not decayed: those whose name contains one of these. `[]` decays every one.
        no_decay: Vec<String> = "one-dimensional parameters", "biases and norms gain nothing from decay";
    }
    sections {
        params: RawOptimizerParams;
    }
}

section! {
    /// The optimizer's hyper-parameters. `"auto"` is the default.
    RawOptimizerParams at "optimizer.params" {
        /// Learning rate; a scheduler varies it.
        lr: Auto<f64> = "0.001", "PyTorch's and DeepSpeed's";
        /// Decay rates of the two moments. AdamW alone.
        betas: Auto<(f64, f64)> = "[0.9, 0.999]", "PyTorch's and DeepSpeed's";
        /// Added to the root of the second moment. AdamW alone.
        eps: Auto<f64> = "1e-8", "PyTorch's and DeepSpeed's";
        /// Weight decay.
        weight_decay: Auto<f64> = "0", "DeepSpeed's; PyTorch's AdamW has 0.01";
        /// Momentum; 0 keeps no state. SGD alone.
        momentum: Auto<f64> = "0", "PyTorch's";
    }
}

section! {
    /// The learning rate over the steps, as in DeepSpeed's `lr_schedules.py`. Absent, it is constant.
    RawScheduler at "scheduler" {
        /// `"WarmupLR"`, `"WarmupDecayLR"` or `"WarmupCosineLR"`.
        r#type: SchedulerWord = "constant rate without a scheduler", "DeepSpeed's";
    }
    sections {
        params: RawSchedulerParams;
    }
}

section! {
    /// The scheduler's parameters.
    RawSchedulerParams at "scheduler.params" {
        /// Rate at the first step. `"auto"` is 0. Not for WarmupCosineLR.
        warmup_min_lr: Auto<f64> = "0", "DeepSpeed's";
        /// Rate at the end of the warm-up. `"auto"` is the optimizer's. Not for WarmupCosineLR.
        warmup_max_lr: Auto<f64> = "optimizer.params.lr", "DeepSpeed's";
        /// Steps of the warm-up. `"auto"` is steps / 10, at least 1.
        warmup_num_steps: Auto<u64> = "1000", "DeepSpeed's";
        /// `"log"` or `"linear"`.
        warmup_type: WarmupWord = "\"log\"", "DeepSpeed's";
        /// Steps until the rate has decayed. `"auto"` is `steps`. Not for WarmupLR.
        total_num_steps: Auto<u64> = "steps", "the decay ends with the run";
        /// Share of the optimizer's rate at the first step. WarmupCosineLR alone.
        warmup_min_ratio: Auto<f64> = "0", "DeepSpeed's";
        /// Share of the optimizer's rate at the end. WarmupCosineLR alone.
        cos_min_ratio: Auto<f64> = "0.0001", "DeepSpeed's";
    }
}

section! {
    /// How ranks talk.
    RawComm at "comm" {
        /// `"threads"`: ranks are threads of one process.
        backend: BackendWord = "\"threads\"", "it needs no system package";
        /// Seconds that a rank waits for another before the run stops with a report.
        timeout_s: f64 = "300", "longer than any step of a run that fits one machine";
    }
}

section! {
    /// bf16 computation. One resolver decides precision from this and `fp16`; see docs/numerics.md.
    RawBf16 at "bf16" {
        /// Whether to compute in bf16. `"auto"` is: where the device does it natively; the CPU does not.
        enabled: Auto<bool> = "false", "DeepSpeed's";
    }
}

section! {
    /// fp16 computation.
    RawFp16 at "fp16" {
        /// Whether to compute in fp16.
        enabled: Auto<bool> = "false", "DeepSpeed's";
    }
}

section! {
    /// DeepSpeed's types of gradients and parameters; here they follow from precision.
    RawDataTypes at "data_types" {}
}

section! {
    /// Recomputation of activations; not offered yet.
    RawActivationCheckpointing at "activation_checkpointing" {}
}

section! {
    /// What is kept of a run, beside its final weights; not offered yet.
    RawCheckpoint at "checkpoint" {}
}
