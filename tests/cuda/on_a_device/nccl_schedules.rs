//! A program that the checker accepts never hangs over NCCL, whatever its schedule: operations of different lanes begin in any order there, and all
//! that can be under way have room on a GPU.

use std::env;
use std::time::Duration;

use pipezero_config::{CommConfig, GptConfig, ResidencyConfig, Run, ZeroLevel};
use pipezero_models::family::ModelConfig;
use pipezero_models::queue::Cuda;
use pipezero_run::engine::{Engine, EngineError};
use tests::features::GRIDS;
use tests::{Case, Mask, Sample, plan_and_batches, small_gpt, small_run, zero};

use super::nccl::over_nccl;
use super::training::on_gpus;

/// A wait that is longer is a hang: a step is some milliseconds of work.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Data degrees.
const DATA: [usize; 4] = [1, 2, 3, 4];

/// The smallest model that has a block for each stage.
pub(super) fn smallest(case: Case) -> Run {
    let model = GptConfig {
        num_layers: case.num_layers,
        hidden_size: 4,
        num_attention_heads: 1,
        seq_length: 2,
        vocab_size: 5,
        ..small_gpt(case.tied)
    };
    let run = small_run(case);
    let comm = CommConfig { timeout: TIMEOUT, ..run.comm };
    Run { model: ModelConfig::Gpt2(model), comm, steps: 1, ..run }
}

/// Every schedule on each data degree for which there are GPUs, with ZeRO-1 and ZeRO-3 in turn; an odd seed begins with the other of the two.
fn cases(num_devices: usize, seed: usize) -> Vec<Case> {
    let mut cases = Vec::new();
    for (grid, (pipeline, schedule)) in GRIDS.into_iter().enumerate() {
        for data in DATA.into_iter().filter(|data| pipeline * data <= num_devices) {
            let zero = match (grid + data + seed) % 2 {
                0 => zero(ZeroLevel::Zero1, ResidencyConfig::Units(1), 0),
                _ => zero(ZeroLevel::Zero3, ResidencyConfig::Strict, data % 3),
            };
            let num_micro_batches = pipeline + 1;
            let num_layers = pipeline * schedule.virtual_stages();
            let tied = data % 2 == 0;
            cases.push(Case {
                pipeline,
                data,
                num_micro_batches,
                schedule,
                zero,
                tied,
                num_layers,
                ..Case::ONE_RANK
            });
        }
    }
    cases
}

#[test]
#[ignore = "needs several GPUs, or fake GPUs"]
fn no_schedule_hangs_that_the_checker_accepts() {
    let num_devices = Cuda::num_devices().expect("GPUs");
    let seed = env::var("FAKE_GPU_SEED").map_or(0, |seed| seed.parse().expect("a number"));
    let mut sample = Sample::one_in(6, "schedule on GPUs that NCCL connects, for a step that ends");
    let mut num_run = 0;
    for case in cases(num_devices, seed) {
        if !sample.takes_next() {
            continue;
        }
        let step = || -> Result<(), EngineError> {
            let (plan, source) = plan_and_batches(over_nccl(on_gpus(smallest(case.clone()))), Mask::None);
            Engine::new(plan, source)?.train_batch().map(drop)
        };
        step().unwrap_or_else(|error| panic!("{case:?}: {error}"));
        num_run += 1;
    }
    assert!(num_run > 0, "no schedule has so few ranks as there are GPUs");
    println!("steps | {num_run} |");
}
