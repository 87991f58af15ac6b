//! The run file as it is written: every section and key, with type, meaning and default.
//!
//! Where DeepSpeed has a key, it has DeepSpeed's name and meaning. Defaults stand here as text, for the documentation;
//! `resolve` applies them, and a test holds the two together.

use super::byte_size::ByteSize;
use super::kind::{Auto, Either};
use super::resolved::{
    BackendName, DeviceName, EndSignal, NamePattern, OnCheckpointError, OverlapComm, PartitionConfig,
    ReductionOrder, ReductionPolicy, ShardingRule, UnitLayers, WarmupType,
};
use super::schedule_name::ScheduleName;
use super::section::section;
use super::words::{
    FamilyWord, HeadLogitsWord, OptimizerWord, ResidencyWord, RopeWord, SchedulerWord, ShardingWord,
};
use crate::TokenType;

section! {
    /// A training run.
    RawRun at "" {
        /// A run file that has all keys that are not written here: its base, which may extend another. Sections are merged key by key, anything
        /// else counts as a whole, and `null` takes a key of the base away. See docs/run-file.md.
        extends: String = "none", "a file says everything itself";
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
        seed: u64 = "0", "the same file gives the same run";
        /// Which parameters are trained: regular expressions, found in the names of layers, as `plan` prints them, or of parameters, whatever
        /// the case. All others are frozen: they keep the weights that they begin with, and have no gradients and no optimizer state. Both uses
        /// of a tied weight are trained, or neither. See docs/zero.md.
        train_only: Vec<NamePattern> = "all parameters", "a model is trained from the beginning";
        /// Threads of each rank. `"auto"` is max(1, cores / ranks).
        threads: Auto<usize> = "\"auto\"", "every core has one thread";
        /// What computes: `"cpu"`, `"cuda"` (the GPUs of the host, which its ranks use in turn) or `"auto"` (a GPU where the driver knows of one,
        /// else the CPU; `train` says which). What is proved of GPUs: see docs/backends.md.
        device: Auto<DeviceName> = "\"auto\"", "one file serves hosts with and without GPUs";
        /// Whether products of f32 on a GPU round their factors to TF32, with 10 bits behind the point instead of 23, for tensor cores.
        /// Nothing else is rounded. No effect in 16 bits, nor on a CPU.
        tf32: bool = "false", "what is stored as f32 is computed in f32";
        /// Bytes that each rank may hold: a number, or a string with a unit of powers of 1024 (`"80GiB"`) or of 1000
        /// (`"24GB"`). `"balanced"` splits within it, `"activation_checkpointing": "auto"` recomputes what does not fit it, `"resident_units": "auto"`
        /// fills it, and a plan beyond it is refused.
        memory: ByteSize = "no bound for a rank", "`train` holds the ranks of its host together against what is free there in any case";
    }
    sections {
        model: RawModel;
        init: RawInit;
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
    /// Weights that the run begins with, where they are not drawn from the seed. A run that is resumed has those of its checkpoint.
    RawInit at "init" {
        /// A run directory, its `weights.safetensors`, a checkpoint's folder, or a folder of Hugging Face's transformers, as `train --init` takes them, which counts
        /// before this key. A relative path starts at the run file's folder. Each rank reads the elements that it holds.
        from: String = "weights are drawn", "a model is trained from the beginning";
        /// Parameters that are drawn from the seed all the same: regular expressions, found in the names of layers, as `plan` prints them, or of
        /// parameters, whatever the case. All others must be there. So a model can have more than the weights, such as an input encoder or another head.
        new: Vec<NamePattern> = "none", "a parameter that is missing is a mistake, unless it is named";
    }
}

section! {
    /// The model's family and sizes, under Megatron's names.
    RawModel at "model" {
        /// `"gpt2"`: learned positions, pre-LN, tanh GELU, biases. `"llama"`: RMS norms, rotary positions, SwiGLU, grouped queries, as
        /// Llama, Mistral, Qwen2 and Qwen3 have them. `"mlp"`: an embedding, one linear layer and GELU per
        /// layer and token, a head; the smallest model, for tests and studies. `"timed"`: layers that hold memory and take
        /// a given time without using the CPU, to study grids larger than the host; it learns nothing.
        family: FamilyWord = "needed without `from`", "it decides what the sizes mean";
        /// A folder with a config.json of Hugging Face's transformers, whose sizes the model has; beside it only `seq_length`, `init_std`,
        /// `dropout` and `tie_embeddings` are written. A relative path starts at the run file's folder. Weights, should the folder have them, are read by
        /// `train --init`.
        from: String = "none", "sizes are written here";
        /// Transformer blocks, or layers of the timed family.
        num_layers: usize = "needed without `from`", "the size is the user's choice";
        /// Tokens of a sequence.
        seq_length: usize = "needed without `from`; with it, the longest that the model knows", "the size is the user's choice";
        /// Width of the residual stream. Not for `"timed"`.
        hidden_size: usize = "needed without `from`, but for \"timed\"", "the size is the user's choice";
        /// Attention heads; those of queries. Needed for `"gpt2"` and `"llama"`; `"mlp"` has none and may leave the key out. A number that is
        /// written must divide `hidden_size`, unless `kv_channels` is written too. Not for `"timed"`.
        num_attention_heads: usize = "1 for \"mlp\"", "the size is the user's choice";
        /// Number of tokens: at least as many as the tokenizer has, and 256 where text is read as bytes. Not for `"timed"`.
        vocab_size: usize = "256", "text without a tokenizer is read as bytes";
        /// Whether the head uses the embedding's weight. Beside `from` it decides where config.json ties the head, whatever the weights hold. Not for `"timed"`.
        tie_embeddings: bool = "true for \"gpt2\", else false; beside \"from\", what the folder says", "GPT-2 is tied";
        /// Standard deviation of the initial weights. Not for `"timed"`.
        init_std: f64 = "0.02", "GPT-2's";
        /// Share of embeddings, attention weights and residual branches that a training step drops, from 0 to below 1. The
        /// masks depend on seed, step, sequence, layer and position, never on the grid. `"gpt2"` alone.
        dropout: f64 = "0", "large models see their text once, and do without";
        /// Width of gate and of up in SwiGLU. `"llama"` alone.
        ffn_hidden_size: usize = "8/3 of hidden_size, rounded up to a multiple of 256", "as many parameters as two maps of 4 hidden_size; Llama's rounding";
        /// Heads of keys and of values, which divide those of queries. `"llama"` alone.
        num_query_groups: usize = "num_attention_heads", "every head has its own";
        /// Elements of a head, an even number. `"llama"` alone.
        kv_channels: usize = "hidden_size / num_attention_heads", "attention is as wide as the residual stream";
        /// Added to the mean square in norms. `"llama"` alone.
        norm_epsilon: f64 = "1e-5", "Llama's";
        /// Base of the rotary angles. `"llama"` alone.
        rotary_base: f64 = "10000", "Llama 2's; Llama 3 has 500000";
        /// Whether queries, keys and values have biases, as in Qwen2. `"llama"` alone.
        add_qkv_bias: bool = "false", "Llama has none";
        /// Whether attention's projection has a bias. `"llama"` alone.
        add_proj_bias: bool = "false", "Llama has none";
        /// Whether the linear maps of the feed-forward half have biases. `"llama"` alone.
        add_mlp_bias: bool = "false", "Llama has none";
        /// Whether heads of queries and keys are normalised, as in Qwen3. `"llama"` alone.
        qk_layernorm: bool = "false", "Llama does not";
        /// Parameters of each layer. `"timed"` alone.
        parameters_per_layer: usize = "needed for \"timed\"", "the size is the user's choice";
        /// Elements of the activation between two layers for one micro-batch; a layer saves as many again. `"timed"` alone.
        activation_elements: usize = "needed for \"timed\"", "the size is the user's choice";
        /// Milliseconds of a layer's forward of one micro-batch. `"timed"` alone.
        forward_ms: f64 = "needed for \"timed\"", "the time is what is studied";
        /// Milliseconds of a layer's input gradient. `"timed"` alone.
        backward_input_ms: f64 = "forward_ms", "a backward has the products of two forwards, half of them here";
        /// Milliseconds of a layer's weight gradient. `"timed"` alone.
        backward_weight_ms: f64 = "forward_ms", "a backward has the products of two forwards, half of them here";
        /// Milliseconds in which the saved values of a segment's last layer are recomputed; the layers before it run their
        /// forward. `"timed"` alone.
        recompute_ms: f64 = "forward_ms", "a recomputation is a forward";
    }
    sections {
        rope_scaling: RawRopeScaling;
    }
}

section! {
    /// How rotary angles are changed for sequences longer than those of the training, under Hugging Face's names and by its formulas.
    /// `"llama"` alone.
    RawRopeScaling at "model.rope_scaling" {
        /// `"linear"`: all frequencies are divided by `factor`. `"dynamic"`: the base grows with `seq_length` beyond the original length.
        /// `"llama3"`: long waves are divided by `factor`, short ones stay. `"yarn"`: the same by a ramp along the pairs of a head, and
        /// attention's scores grow.
        rope_type: RopeWord = "\"default\"", "angles as they are";
        /// How many times longer sequences become; at least 1. For every type but `"default"`.
        factor: f64 = "needed but for \"default\"", "the length is the user's choice";
        /// The longest sequence of the training. For `"dynamic"`, `"llama3"` and `"yarn"`.
        original_max_position_embeddings: usize = "needed for \"dynamic\", \"llama3\" and \"yarn\"", "it is a fact of the model";
        /// Waves that turn fewer times than this within the original length are divided by `factor`. `"llama3"` alone.
        low_freq_factor: f64 = "1", "Llama 3.1's";
        /// Waves that turn more often than this stay. `"llama3"` alone.
        high_freq_factor: f64 = "4", "Llama 3.1's";
        /// What sines and cosines are multiplied by. `"yarn"` alone.
        attention_factor: f64 = "0.1 ln(factor) + 1", "YaRN's";
        /// Waves that turn more often than this within the original length stay. `"yarn"` alone.
        beta_fast: f64 = "32", "YaRN's";
        /// Waves that turn fewer times than this are divided by `factor`. `"yarn"` alone.
        beta_slow: f64 = "1", "YaRN's";
        /// Whether the ramp begins and ends at whole pairs. `"yarn"` alone.
        truncate: bool = "true", "YaRN's";
    }
}

section! {
    /// Where the text comes from. A timed model may do without.
    RawData at "data" {
        /// Files, folders and globs of UTF-8 text; relative paths start at the run file's folder. A file is a document; of `.json`, `.jsonl` and `.ndjson`
        /// each object is one: a text, a conversation, or a prompt with its completion. Tokens are bytes, or those of `tokenizer`.
        text: Either<String, Vec<String>> = "needed without `tokens`, but not for \"timed\"", "there is nothing to train on without it";
        /// Files of tokens in place of `text`: a prefix or a `.bin` with its `.idx`, as `pipezero tokenize` and Megatron write them, or a `.bin`
        /// of nanoGPT or llm.c.
        tokens: Either<String, Vec<String>> = "needed without `text`, but not for \"timed\"", "there is nothing to train on without it";
        /// A weight for each file of `tokens`: the share of its sequences in each 4096 of the run. A file with more than its share of tokens is
        /// then read less often than the others, and each has epochs of its own.
        weights: Vec<f64> = "none: all files are one text", "every token once in an epoch";
        /// How a `.bin` that does not say so stores its tokens: `"u16"` as nanoGPT, `"u32"`, `"i32"`, `"u8"` or others of that form.
        token_type: TokenType = "\"u16\"", "what nanoGPT writes";
        /// A tokenizer.json of Hugging Face's tokenizers, or a folder with one: what makes the tokens of `text`, and what `generate` and `eval` use.
        tokenizer: String = "none: tokens of text are its bytes", "a text needs no tokenizer to be learned";
        /// The token that ends a document, by its name in the tokenizer or by its number: where a `.bin` without an index is cut into documents, and
        /// where `generate` stops.
        end_token: Either<String, u64> = "the tokenizer's", "tokenizer_config.json or the names of published models say it";
        /// Share of the data that is kept for validation, from 0 to 0.5: whole documents of files of tokens and of JSON; of text, and of a `.bin` whose documents
        /// are not known, interleaved blocks of 4096 tokens; of little data its end.
        validation: f64 = "0.05", "enough for a steady figure, little lost to training";
        /// Files of tokens that are validated on, such as nanoGPT's val.bin; then nothing of the rest is held out.
        validation_tokens: Either<String, Vec<String>> = "none", "`validation` is held out";
        /// Whether a token sees the earlier tokens of its own document alone, and positions are counted from there. A file of text is a document.
        /// `"gpt2"` and `"llama"` alone.
        document_attention: bool = "true for conversations, else false", "conversations have nothing to do with each other; without a mask rows cost less";
        /// Lengths of sequences in training. For each micro-batch one of them is drawn with the run's seed, and only that many first tokens of each of
        /// its samples are used. Memory is planned for `model.seq_length`, the longest possible; less is computed and sent for shorter ones.
        seq_lengths: Vec<u64> = "[model.seq_length]", "every token is a target once in an epoch";
        /// Whether the processes of a job compare every byte of their files of tokens and weights before the first step. `false` reads whole files, in their
        /// order, as far as they have at most 1 GiB together; of the others it compares sizes and some blocks. Each file is read once on each host. Text is
        /// always compared whole.
        verify: bool = "false", "reading hundreds of GiB takes minutes before the first step";
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
        /// `"gpipe"`, `"1f1b"`, `"eager-1f1b"` (more activations, latency hidden), `"interleaved"` and `"bfs"` (several
        /// stages per rank, smaller bubble), `"zb-h1"`, `"zb-h2"` and `"zb-v"` (weight gradients apart, in the bubble), or
        /// `{"file": "order.csv"}`: an order of one's own in PyTorch's CSV, a row per rank; a relative path starts at the run
        /// file's folder. See docs/schedules.md.
        schedule: ScheduleName = "\"1f1b\"", "gpipe's time with the fewest activations";
        /// v: stages of each rank. At least 2, and needed, for `"interleaved"` and `"bfs"`; 2 for `"zb-v"`; 1 for the others;
        /// a file says it itself.
        virtual_stages: usize = "1, except where it is needed", "more stages cost more messages and activations";
        /// Micro-batches that a rank runs through one of its stages before it turns to its next: at least `pipeline`.
        /// `"interleaved"` alone.
        group_size: usize = "pipeline", "the fewest that keep every rank busy, and so the fewest activations";
        /// Which layers each stage gets: `"balanced"` (the slowest stage is as fast as possible, within `memory`),
        /// `"uniform"` (equal numbers of blocks), `"parameters"` (the largest stage is as small as can be), `"type:REGEX"`
        /// (equal numbers of the layers whose name matches, whatever the case), or a list with the transformer blocks of each
        /// stage. The embedding joins the first stage, the head the last.
        partition: PartitionConfig = "\"balanced\"", "embedding and head cost time too";
    }
}

section! {
    /// What is sharded over the data ranks. Beside these keys, DeepSpeed's are known.
    RawZero at "zero_optimization" {
        /// The ZeRO level: 0 shards nothing, 1 the optimizer, 2 gradients too, 3 parameters too.
        stage: u64 = "0", "DeepSpeed's default";
        /// Transformer blocks of an FSDP unit, which is gathered and reduced at once; 0.5 is half a block (attention and MLP
        /// apart, not `"mlp"`), `"stage"` makes one unit of all the blocks of a stage.
        unit_layers: UnitLayers = "1", "the smallest unit of whole blocks gathers the least at once";
        /// Gathered units that a rank may hold at once, those in use and prefetched included: a budget of so many of its
        /// largest, one number for all ranks or a list with one for each pipeline rank. `"level"` keeps on each rank as many
        /// as leave it at or below the fullest rank's peak with `1 + prefetch_units`, and at least 5% below its own under
        /// ZeRO-1, or fewer where all ranks share a host that is too small for that; `"auto"` as many as fit `memory`; `"strict"` reshards after every use, `"all"`
        /// never. ZeRO-3 alone.
        resident_units: Either<usize, Either<ResidencyWord, Vec<usize>>> = "\"level\"", "fewer gathers in memory that nothing else uses";
        /// Slices, of whole blocks of 1024 tokens (4096 where `vocab_size` is above 16384), that the token table and the head's are each
        /// cut into. A slice is a unit of its own, so no unit needs to be as large as a vocabulary; 1 leaves them whole, and untied ones in
        /// the first and the last unit. `"auto"`: under ZeRO-3 over several data ranks as many as make none larger than the largest unit of
        /// transformer blocks, 64 at most, else 1. No result depends on it.
        vocabulary_slices: Auto<usize> = "\"auto\"", "a vocabulary is often the largest thing that a rank gathers";
        /// How many uses ahead a unit's gather is issued. ZeRO-3 alone. `"auto"` is 1.
        prefetch_units: Auto<usize> = "1", "a gather runs while the unit before it computes";
        /// What is sharded, by names of parameters, or of layers as `plan` and `check` print them, which means all of a layer's
        /// parameters: `"sharded:REGEX"`; `"persistent:REGEX"`, gathered all step and gathered once after it; `"whole:REGEX"`, as under
        /// ZeRO-1: weights and gradients are whole and gradients are reduced once. Of several entries that match a parameter the last
        /// decides; what none matches is sharded. A unit may have parameters of every kind. Both uses of a tied weight are
        /// sharded alike. In place of thresholds. ZeRO-3 alone.
        parameters: Vec<ShardingRule> = "[]", "everything is sharded";
        /// `"listed"`: `parameters` or thresholds say what is sharded. `"auto"`: the plan makes the list and prints it. With `memory` it
        /// sends the fewest bytes that fit; without, it has the lowest peak, or up to 1% more where that sends at least 10% less. The
        /// list depends on the grid, and results depend on the list in their last bits: write it as `parameters` to keep them. ZeRO-3
        /// alone.
        sharding: ShardingWord = "\"listed\"", "a list that the plan chooses changes results in their last bits, so it must be asked for";
        /// Parameters of at most so many elements stay gathered all step, and are gathered once after it; 0 is none. ZeRO-3 alone.
        /// `"auto"` is 10 x `hidden_size`. DeepSpeed's default is 100000.
        stage3_param_persistence_threshold: Auto<u64> = "0", "a unit is gathered in one message, so a small parameter costs none of its own";
        /// Most elements that may stay gathered in this way, over the whole model. ZeRO-3 alone. `"auto"` is no limit.
        stage3_model_persistence_threshold: Auto<u64> = "no limit", "DeepSpeed's";
        /// When gradients are reduced over the data ranks: `"every"` micro-batch, or after the `"last"`, unsharded until
        /// then. ZeRO-0 and ZeRO-1 reduce after the last, ZeRO-2 after every; ZeRO-3 does either.
        reduce: ReductionPolicy = "\"every\" for ZeRO-2 and ZeRO-3, else \"last\"", "the level's own memory";
        /// Whether a gradient that is reduced after every micro-batch is reduced while the next one is computed: `true` holds two on each
        /// rank, `false` one, for which the next backward waits. `"auto"` is `false` where two do not fit `memory` and one does. No result
        /// depends on it, and gathers, messages between stages and what is reduced `"last"` overlap in any case. DeepSpeed's default is
        /// true for ZeRO-3 alone.
        overlap_comm: OverlapComm = "true", "a reduction that is waited for costs time";
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
        warmup_max_lr: Auto<f64> = "optimizer.params.lr for WarmupLR, 0.001 for WarmupDecayLR", "DeepSpeed's";
        /// Steps of the warm-up. `"auto"` is steps / 10, at least 1.
        warmup_num_steps: Auto<u64> = "1000", "DeepSpeed's";
        /// `"log"` or `"linear"`.
        warmup_type: WarmupType = "\"log\"", "DeepSpeed's";
        /// Steps until the rate has decayed. `"auto"` is `steps`. Not for WarmupLR.
        total_num_steps: Auto<u64> = "steps", "the decay ends with the run";
        /// Share of the optimizer's rate at the first step. WarmupCosineLR alone.
        warmup_min_ratio: Auto<f64> = "0", "DeepSpeed's";
        /// Share of the optimizer's rate at the end. WarmupCosineLR alone.
        cos_min_ratio: Auto<f64> = "0.0001", "DeepSpeed's";
    }
}

section! {
    /// How ranks communicate.
    RawComm at "comm" {
        /// `"threads"`: ranks are threads of one process. `"mpi"`: each rank is a process, started by a launcher such as `mpirun`; for programs that
        /// were built with the feature `mpi`, and ranks on CPUs. `"nccl"`: each rank has a GPU of its own, be it a process that a launcher has started or a thread, and NCCL connects them. `"auto"`: where a launcher has started several processes `"nccl"` on GPUs and `"mpi"` on CPUs, else `"threads"`.
        backend: Auto<BackendName> = "\"auto\"", "one file serves a laptop and a job";
        /// Port on which the process of rank 0 listens for the others until all are there.
        port: u64 = "MASTER_PORT + 1, or from the number of SLURM's job, or any", "the launcher knows which is free";
        /// Ranks on each host, which follow each other: with 4, ranks 0 to 3 are on the first host and 4 to 7 on the second; the last host may have fewer. `simulate` takes
        /// links within and between hosts from it, and a job of processes whose hosts are filled otherwise is refused. Ranks that are threads train without it.
        ranks_per_node: Auto<usize> = "\"auto\"", "a job takes its hosts as they are, and `simulate` nodes of the device's own size";
        /// In which order `"nccl"` adds gradients. `"ordered"`: data ranks ascending, as every other backend, with the same bits. `"library"`: as NCCL does,
        /// which depends on sizes and on how GPUs are connected.
        reduction: ReductionOrder = "\"ordered\"", "results do not depend on the backend";
        /// Seconds that a rank waits for another before the run stops with a report.
        timeout_s: f64 = "300", "longer than any step of a run that fits one machine";
    }    sections {
        links: RawLinks;
    }
}

section! {
    /// Links that the threads backend emulates: a message arrives as late as over such a link, and nothing else is slower, since nothing is
    /// computed to delay it. Absent, messages are as fast as memory.
    RawLinks at "comm.links" {
        /// Ranks that share a node; ranks on one node are near each other, others far.
        ranks_per_node: usize = "comm.ranks_per_node, else all ranks", "one host";
        /// Whether a rank's gathers and reductions share one link, so that each waits for the other.
        shared: bool = "false", "lanes are independent";
    }
    sections {
        near: RawNearLink;
        far: RawFarLink;
    }
}

section! {
    /// A link within a node.
    RawNearLink at "comm.links.near" {
        /// Microseconds from the last byte sent to its arrival; they do not occupy the link.
        latency_us: f64 = "0", "bandwidth is the larger part of a gather";
        /// Bytes that a rank sends in a second, in units of 10^9.
        gb_per_s: f64 = "", "there is no usual link";
    }
}

section! {
    /// A link between nodes.
    RawFarLink at "comm.links.far" {
        /// As for near links.
        latency_us: f64 = "near.latency_us", "links between nodes are like those within one unless the file says otherwise";
        /// As for near links.
        gb_per_s: f64 = "near.gb_per_s", "links between nodes are like those within one unless the file says otherwise";
    }
}

section! {
    /// bf16 parameters and activations; master weights, gradient sums and reductions are f32. One resolver decides precision
    /// from this and `fp16`; see docs/numerics.md.
    RawBf16 at "bf16" {
        /// Whether to compute in bf16. `"auto"`: yes where the device computes in bf16 natively, which a CPU does not.
        enabled: Auto<bool> = "false", "DeepSpeed's";
    }
}

section! {
    /// fp16 parameters and activations, the rest as for bf16, with a scaled loss. `"auto"` is the default of a key;
    /// `consecutive_hysteresis` has none.
    RawFp16 at "fp16" {
        /// Whether to compute in fp16. `"auto"` is no.
        enabled: Auto<bool> = "false", "DeepSpeed's";
        /// What the loss is multiplied by; 0 is a scale that follows overflows.
        loss_scale: Auto<f64> = "0", "DeepSpeed's";
        /// The first scale is 2 to this power; at most 127. For `loss_scale` 0, as the keys below.
        initial_scale_power: Auto<u64> = "16", "DeepSpeed's";
        /// Steps without overflow until the scale is doubled.
        loss_scale_window: Auto<u64> = "1000", "DeepSpeed's";
        /// Overflows until the scale is halved.
        hysteresis: Auto<u64> = "2", "DeepSpeed's";
        /// Whether a step without overflow starts that count anew.
        consecutive_hysteresis: bool = "false", "DeepSpeed's";
        /// The scale is never below this.
        min_loss_scale: Auto<f64> = "1", "DeepSpeed's";
    }
}

section! {
    /// DeepSpeed's types of gradients and parameters; here they follow from precision.
    RawDataTypes at "data_types" {}
}

section! {
    /// Which activations of transformer blocks are computed again in the backward instead of kept. `"auto"` in place of the section is
    /// `{"enabled": "auto"}`. DeepSpeed's keys of this section, known too, say how and not which: there the model's code decides that.
    RawActivationCheckpointing at "activation_checkpointing" {
        /// Whether to recompute: the blocks of each unit from the unit's input, while the unit is gathered for its backward
        /// anyway. `"auto"`: only where a rank would not fit `memory` otherwise, and then every layer, every so many or each unit, the
        /// first of these that fits; without `memory`, and with schedules that split backwards, nothing. No result depends on it.
        enabled: Auto<bool> = "true if every_layers is set, else false", "recomputation costs a third more compute";
        /// Keeps the input of every so many blocks of a unit instead of the unit's alone; at most `unit_layers`.
        every_layers: usize = "unit_layers", "the fewest activations for one recomputation";
        /// The head's logits, 4 bytes for each token of a micro-batch and of the vocabulary: `"keep"` them for the backward, or
        /// `"recompute"` them there, block by block, for a third more work in the head's backward; not with schedules that split
        /// backwards. `"auto"` recomputes where a rank would not fit `memory` with them, or, without `memory`, where they
        /// make the last stage's rank the fullest of several. No result depends on it.
        head_logits: HeadLogitsWord = "\"auto\"", "they can be larger than all other activations";
    }
}

section! {
    /// When the whole state of a run is kept, to go on from it with `train --resume`. A run that a signal ends keeps it in any case.
    RawCheckpoint at "checkpoint" {
        /// After every so many steps; 0 is never.
        every: u64 = "0", "how often is worth the time is the user's choice";
        /// After the step in which so many minutes have passed since the last one; 0 is never.
        minutes: f64 = "0", "how often is worth the time is the user's choice";
        /// Whether training goes on while one is written, after each rank has copied what it writes. `false` saves the memory of the copy,
        /// column `checkpoint` of `plan`: training then waits for the disk.
        background: bool = "true", "the copy takes less time than the disk";
        /// How many are kept: the last ones, at least 1.
        keep: usize = "2", "another one, should the last be damaged";
        /// What a checkpoint that cannot be written means, on a full disk for example: `"continue"` warns and trains on, `"stop"` ends the
        /// run.
        on_error: OnCheckpointError = "\"continue\"", "the earlier ones are whole, and the next may succeed";
        /// The signal by which a scheduler announces the end: the run ends after its step, with a checkpoint, as it does at Ctrl-C, SIGTERM
        /// and SIGHUP. `"none"` leaves such signals to the system.
        signal: EndSignal = "\"SIGUSR1\"", "what Slurm's users ask it to send";
        /// Whether hosts may have run directories of their own, on their own disks. `false` allows that only where no other host sees that of rank 0: if some do and
        /// some do not, a disk is not mounted, and the run is refused.
        per_host: bool = "false", "a disk that is not mounted is the likelier cause";
    }
}
