//! Every integration test, in one binary so that there is one link step.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod auto_recomputation; // Recomputation that the plan chooses.
mod background_checkpoints; // A checkpoint that is written while training goes on.
mod batch_logits; // All logits of a batch, on any grid.
mod beside_zero_1; // ZeRO-3 on models that people train.
mod checkpoints; // What one grid has written, any other goes on from.
mod collectives; // What every communication backend promises.
mod cuda; // A GPU, or the fake GPU of one.
mod custom_loss; // A loss that the user wrote.
mod deferred; // Kernels that run later than asked, in any order that events allow.
mod distillation; // A student on a teacher's logits.
mod dropout; // Masks belong to sequences.
mod engine_methods; // No method panics, whatever failed before.
mod evaluation; // Evaluating, saving and sampling do not change training, on any grid.
mod examples; // Run files in pages load.
mod failing_devices; // A device that fails ends the run with one report.
mod failures; // A rank that fails stops all, with one report.
mod fault_matrix; // A rank or a link that fails, at each phase and in each stage.
mod features; // Features, pair by pair, give the same bits.
mod frozen; // Layers that are not trained.
mod fuzz; // Input that is nearly valid.
mod gradient_overlap; // One gradient buffer on a rank, or two.
mod ignored_targets; // A step without a target.
mod in_turn; // Runs in one process whose steps alternate.
mod input_encoder; // Inputs beside the tokens, of any number and length.
mod joint_checkpoints; // What several engines were at one time.
mod json_files; // Every file that is JSON is read alike.
mod lengths; // Micro-batches of different lengths.
mod level; // What "level" saves.
mod loss_scaling; // fp16: what overflows is skipped.
mod low_memory; // What a rank holds while it is built.
mod memory; // What ranks hold, against the plan and the process.
mod micro_batch_counts; // Several stages per rank, whatever the number of micro-batches.
mod mlp; // The small family on grids.
#[cfg(feature = "mpi")]
mod mpi; // Ranks that are processes.
mod mutants; // Programs that are accepted run, whoever made them.
mod new_parameters; // Weights that a model has more than.
mod not_finite; // What has ceased to be finite, and where it began.
mod oracle; // What PyTorch and DeepSpeed compute, from golden files.
mod overlap; // When gathers are issued, by recorded order.
mod pages; // What pages say in figures.
mod parameters; // Lists of what is sharded.
mod parity; // Every grid gives the same bits.
mod persistence; // Units that stay whole.
mod precision_curves; // bf16 and fp16 beside f32.
mod processes; // Several processes run one program.
mod published_models; // Weights of transformers.
mod quickstart; // The README's first command learns, and needs attention to.
mod recomputation_traffic; // Recomputation costs no gather.
mod residency_choice; // What every residency costs, and what fits.
mod schedule_files; // Orders and placements from files.
mod seed_example; // The 48-layer example, counted.
mod shaped_links; // Delays change no bit.
mod sharding_choice; // "auto" sharding, against every list there is.
mod tidy; // The tree keeps its own rules.
mod timed_run; // Layers that take time alone.
mod trace; // What is recorded of a step is what its program says.
mod traffic; // What ranks send, against the plan.
mod weights; // Weights go from grid to grid.
mod zero_and_pipeline; // Which combinations are refused, of random files.
