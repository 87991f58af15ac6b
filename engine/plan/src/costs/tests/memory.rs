//! What is in use over a step, beside what the plan allocates.

use pipezero_schedule::simulate::{MemoryBytes, MemoryCategory, memory};

use crate::costs::{DeviceSpec, Source, Step, for_plan, memory_costs};
use crate::testing::{GPT2, MIXED, plan};
use pipezero_partition::RankMemory;

fn planned(bytes: &RankMemory, category: MemoryCategory) -> u64 {
    match category {
        MemoryCategory::Parameters => bytes.parameters,
        MemoryCategory::Optimizer => bytes.optimizer,
        MemoryCategory::Gradients => bytes.gradients,
        MemoryCategory::Gathered => bytes.gathered,
        MemoryCategory::Activations => bytes.activations,
        MemoryCategory::Communication => bytes.communication,
        MemoryCategory::Checkpoint => bytes.checkpoint,
    }
}

/// The most of each category that is in use at once, by pipeline rank, beside what the plan allocates.
fn peaks(changes: &str) -> Vec<(MemoryBytes, RankMemory)> {
    let plan = plan(GPT2, &format!("model.num_layers=16 {changes}"));
    let device = DeviceSpec::by_name("h100").unwrap();
    let predicted = for_plan(&plan, Source::Analytic(&device)).unwrap();
    let step = Step::new(&plan, &predicted).unwrap();
    let curves = memory(plan.training(), &step.timeline, &memory_costs(&plan)).unwrap();
    let (grid, forecast) = (plan.grid(), plan.forecast());
    let ranks = curves.iter().enumerate();
    ranks.map(|(rank, curve)| (curve.peak_of_each(), forecast[grid.rank(rank, 0)].memory)).collect()
}

#[test]
fn no_more_is_in_use_than_the_plan_allocates() {
    let mut num_ranks = 0;
    for (pipeline, data) in [(1, 2), (2, 2), (4, 1)] {
        for zero in [
            "0",
            "1",
            "3",
            "3 zero_optimization.reduce=last",
            "3 zero_optimization.resident_units=all",
            MIXED,
        ] {
            for schedule in ["gpipe", "1f1b", "interleaved parallel.virtual_stages=2", "zb-h1", "zb-v"] {
                if pipeline == 1 && schedule != "gpipe" {
                    continue;
                }
                let changes = format!(
                    "parallel.pipeline={pipeline} parallel.data={data} parallel.schedule={schedule} \
                     zero_optimization.stage={zero}"
                );
                for (used, allocated) in peaks(&changes) {
                    for category in MemoryCategory::ALL {
                        let (used, allocated) = (used[category], planned(&allocated, category));
                        assert!(used <= allocated, "{changes}: {category:?} {used} > {allocated}");
                    }
                    num_ranks += 1;
                }
            }
        }
    }
    assert_eq!(num_ranks, 6 * (1 + 5 * 2 + 5 * 4));
}

/// In 1F1B every slot and, with a gather ahead, every gather buffer is in use at once; reduced once, so is every gradient.
#[test]
fn what_one_f_one_b_allocates_it_uses() {
    for (used, allocated) in peaks("zero_optimization.reduce=last") {
        for category in [
            MemoryCategory::Parameters,
            MemoryCategory::Optimizer,
            MemoryCategory::Gradients,
            MemoryCategory::Gathered,
            MemoryCategory::Activations,
        ] {
            assert_eq!(used[category], planned(&allocated, category), "{category:?}");
        }
    }
}
