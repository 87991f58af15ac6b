//! A step on GPUs that NCCL connects takes the times that the simulator says, instruction by instruction, on the compute queue and on every lane:
//! what overlaps there overlaps here.
//!
//! The fake GPU's times are virtual (`tests/fake_gpu/times.h`): they follow from what waits for what. What an instruction costs is read off the step;
//! when it begins and ends is the simulator's to say.

mod costs;
mod ran;

use std::env;

use pipezero_config::{
    CommConfig, GptConfig, LlamaConfig, NoDecay, OptimizerConfig, Precision, ReductionOrder, ResidencyConfig,
    Run, ZeroLevel,
};
use pipezero_models::family::ModelConfig;
use pipezero_plan::Plan;
use pipezero_schedule::simulate::{Span, simulate};
use pipezero_schedule::{InstructionKind, Lane, PipelineRank};
use tests::{Case, Sample, Schedule, grids, small_run, zero};

use self::costs::costs;
use self::ran::{Step, step_of};
use super::nccl::over_nccl;
use super::training::on_gpus;

/// Holds a step against the simulator's; returns how many pairs of a message and a compute of the same rank overlap, and how many do not.
fn compare(plan: &Plan, step: &Step) -> Result<[usize; 2], String> {
    let timeline = simulate(plan.training(), &costs(plan, step)).expect("costs of the program");
    let mut pairs = [0; 2];
    for (rank, ran) in step.iter().enumerate() {
        let pipeline_rank = PipelineRank(plan.grid().pipeline_rank(rank) as u32);
        let row = plan.training().row(pipeline_rank);
        let found =
            ran.iter().map(|ran| ran.under_way.unwrap_or(Span { start: ran.started, end: ran.ended }));
        let found: Vec<Span> = found.collect();
        for (index, (found, expected)) in found.iter().zip(timeline.row(pipeline_rank)).enumerate() {
            if found != expected {
                let instruction = row[index];
                return Err(format!(
                    "rank {rank}, instruction {index}, {instruction:?}: {found:?}, in the simulator {expected:?}"
                ));
            }
        }
        let computes = || (0..row.len()).filter(|&index| row[index].is_micro_batch_compute());
        for message in (0..row.len()).filter(|&index| row[index].lane() != Lane::Compute) {
            for compute in computes() {
                let [one, other] = [message, compute].map(|index| found[index]);
                let overlap = one.start < other.end && other.start < one.end;
                pairs[usize::from(!overlap)] += 1;
            }
        }
    }
    Ok(pairs)
}

/// The simulator's data ranks are all alike. So units have as many elements for each, and all parameters decay: else shards have parts that do and parts that
/// do not, with a kernel each.
fn even(run: Run, reduction: ReductionOrder) -> Run {
    // Of a unit, each data rank has some times 16 elements: of every tensor one side is a multiple of this.
    let num_attention_heads = run.parallel.data.max(2);
    let width = 16 * num_attention_heads;
    let widened = |gpt| GptConfig { hidden_size: width, num_attention_heads, ..gpt };
    let model = match run.model {
        ModelConfig::Gpt2(gpt) => ModelConfig::Gpt2(widened(gpt)),
        ModelConfig::Llama(llama) => ModelConfig::Llama(LlamaConfig {
            gpt: widened(llama.gpt),
            ffn_hidden_size: width,
            kv_channels: width,
            ..llama
        }),
        other => panic!("small runs are of GPT-2 and Llama, not {other:?}"),
    };
    let optimizer = OptimizerConfig::AdamW {
        lr: 1e-2,
        betas: (0.9, 0.95),
        eps: 1e-8,
        weight_decay: 0.1,
        no_decay: NoDecay::Patterns(Vec::new()),
    };
    Run { model, comm: CommConfig { reduction, ..run.comm }, optimizer, ..run }
}

/// Whether a rank's compute queue does something to begin a gather, beside asking for it.
fn copies_shards(plan: &Plan, step: &Step) -> bool {
    let is_grouped = plan.grid().data_degree > 1;
    step.iter().enumerate().any(|(rank, ran)| {
        let row = plan.training().row(PipelineRank(plan.grid().pipeline_rank(rank) as u32));
        let mut gathers = row.iter().zip(ran).filter(|(of, _)| of.kind() == InstructionKind::Unshard);
        is_grouped && gathers.any(|(_, ran)| ran.issued > ran.started)
    })
}

/// Gathers two units ahead.
fn prefetching() -> Case {
    let zero = zero(ZeroLevel::Zero3, ResidencyConfig::Units(3), 2);
    Case { pipeline: 2, data: 2, num_micro_batches: 4, num_layers: 8, zero, ..Case::ONE_RANK }
}

fn cases() -> Vec<Case> {
    let mut cases = grids();
    cases.push(Case { schedule: Schedule::Interleaved { virtual_stages: 2 }, ..prefetching() });
    cases.push(Case { pipeline: 3, num_layers: 9, num_micro_batches: 7, ..prefetching() });
    cases
}

#[test]
#[ignore = "needs several fake GPUs with virtual times"]
fn a_step_takes_the_times_that_the_simulator_says() {
    let mut pairs = [0; 2];
    let mut sample = Sample::one_in(4, "grid over NCCL, for times that are the simulator's");
    for case in cases().into_iter().filter(|_| sample.takes_next()) {
        for order in [ReductionOrder::Ordered, ReductionOrder::Library] {
            let (engine, step) = step_of(even(over_nccl(on_gpus(small_run(case.clone()))), order));
            let found = compare(engine.plan(), &step)
                .unwrap_or_else(|fault| panic!("{fault} in {case:?}, {order:?}"));
            assert!(case.precision != Precision::F32 || !copies_shards(engine.plan(), &step), "{case:?}");
            pairs = [0, 1].map(|index| pairs[index] + found[index]);
        }
    }
    let [overlapping, apart] = pairs;
    println!("messages and computes | {overlapping} overlap | {apart} do not |");
    assert!(overlapping > 100 && apart > 100, "{overlapping} overlap, {apart} do not");
}

/// `FAKE_GPU_EARLY_WAIT` says for which message of rank 0 its compute queue waits at once.
#[test]
#[ignore = "needs several fake GPUs with virtual times, and a wait that comes too early"]
fn a_wait_that_comes_too_early_is_found() {
    env::var_os("FAKE_GPU_EARLY_WAIT").expect("it has the number of a message");
    let (engine, step) = step_of(even(over_nccl(on_gpus(small_run(prefetching()))), ReductionOrder::Ordered));
    let fault = compare(engine.plan(), &step).expect_err("a message that nothing hides any more");
    println!("{fault}");
}
