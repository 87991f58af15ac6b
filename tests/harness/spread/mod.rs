//! Runs that differ in everything that shapes what ranks hold and send.

mod features;

use pipezero_config::{
    NoDecay, OptimizerConfig, OverlapComm, ReductionPolicy, ResidencyConfig, Run, ShardingConfig, UnitLayers,
    ZeroConfig, ZeroLevel,
};

use crate::{Case, Family, Schedule, small_run};

/// One run, and what it is, for messages.
#[derive(Clone, Debug)]
pub struct Spread {
    /// What the run is.
    pub name: String,
    /// The run.
    pub run: Run,
}

/// Every combination of level, reduction policy, residency and prefetch that differs by more than a number.
const ZERO: [ZeroConfig; 10] = {
    use ReductionPolicy::{Every, Last};
    use ResidencyConfig::{Strict, Units};
    use ZeroLevel::{Zero0, Zero1, Zero2, Zero3};
    [
        zero(Zero0, Last, Strict, 0, 1),
        zero(Zero1, Last, Strict, 0, 2),
        zero(Zero2, Every, Strict, 0, 1),
        zero(Zero3, Every, Strict, 0, 1),
        zero(Zero3, Every, Strict, 1, 2),
        zero(Zero3, Every, Units(1), 0, 1),
        zero(Zero3, Every, Units(2), 1, 1),
        zero(Zero3, Every, Units(3), 1, 1),
        zero(Zero3, Last, Strict, 1, 1),
        zero(Zero3, Last, Units(2), 0, 2),
    ]
};

const fn zero(
    level: ZeroLevel,
    reduce: ReductionPolicy,
    resident_units: ResidencyConfig,
    prefetch_units: usize,
    unit_layers: usize,
) -> ZeroConfig {
    let unit_layers = UnitLayers::of_blocks(unit_layers).expect("units have layers");
    ZeroConfig {
        level,
        unit_layers,
        resident_units,
        prefetch_units,
        sharding: ShardingConfig::SHARDED,
        reduce,
        overlap_comm: OverlapComm::True,
        param_persistence_threshold: 0,
        model_persistence_threshold: u64::MAX,
    }
}

/// What differs beside the grid and ZeRO.
#[derive(Clone, Copy, Debug)]
struct Work {
    num_micro_batches: usize,
    micro_batch_size: usize,
    schedule: Schedule,
    optimizer: Optimizer,
    family: Family,
}

#[derive(Clone, Copy, Debug)]
enum Optimizer {
    AdamW,
    Sgd { momentum: f64 },
}

/// Micro-batches below and above the pipeline degree, dividing it or not; every optimizer by the number of its states.
/// Seven rows share no factor with the other dimensions, so that in turn every row meets every value of each.
const WORK: [Work; 7] = {
    use Family::{Gpt2, Llama, Mlp};
    use Optimizer::{AdamW, Sgd};
    use Schedule::{GPipe, OneFOneB};
    [
        work(1, 2, OneFOneB, AdamW, Gpt2),
        work(2, 1, GPipe, Sgd { momentum: 0.9 }, Gpt2),
        work(5, 2, OneFOneB, Sgd { momentum: 0.0 }, Llama),
        work(3, 1, OneFOneB, AdamW, Mlp),
        work(8, 1, OneFOneB, Sgd { momentum: 0.9 }, Gpt2),
        work(4, 3, GPipe, AdamW, Llama),
        work(6, 2, OneFOneB, AdamW, Gpt2),
    ]
};

const fn work(
    num_micro_batches: usize,
    micro_batch_size: usize,
    schedule: Schedule,
    optimizer: Optimizer,
    family: Family,
) -> Work {
    Work { num_micro_batches, micro_batch_size, schedule, optimizer, family }
}

/// Runs of every kind: every grid with every level of ZeRO, and every pair of features.
pub fn spread() -> Vec<Spread> {
    let mut runs = grids();
    runs.extend(features::runs());
    runs
}

/// Every grid of 1, 2, 4 pipeline ranks and 1, 2, 3 data ranks, with every combination of ZeRO's settings that its
/// pipeline allows, tied and untied, with schedules, batches, optimizers and families in turn.
fn grids() -> Vec<Spread> {
    let mut runs = Vec::new();
    for pipeline in [1, 2, 4] {
        for data in [1, 2, 3] {
            for tied in [false, true] {
                let is_allowed = |zero: &ZeroConfig| zero.level != ZeroLevel::Zero2 || pipeline == 1;
                for zero in ZERO.into_iter().filter(is_allowed) {
                    let work = WORK[runs.len() % WORK.len()];
                    let case = Case {
                        pipeline,
                        data,
                        num_micro_batches: work.num_micro_batches,
                        schedule: work.schedule,
                        zero,
                        family: work.family,
                        tied,
                        ..Case::ONE_RANK
                    };
                    runs.push(Spread { name: format!("{case:?}, {work:?}"), run: run(case, work) });
                }
            }
        }
    }
    runs
}

fn run(case: Case, work: Work) -> Run {
    let mut run = small_run(case.clone());
    run.batch.micro_batch_size = work.micro_batch_size;
    run.batch.train_batch_size = work.micro_batch_size * work.num_micro_batches * case.data;
    if let Optimizer::Sgd { momentum } = work.optimizer {
        let no_decay = NoDecay::OneDimensional;
        run.optimizer = OptimizerConfig::Sgd { lr: 1e-2, momentum, weight_decay: 0.0, no_decay };
    }
    run
}
