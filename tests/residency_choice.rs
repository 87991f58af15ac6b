//! The trade between gathers and memory: what the plan says of every residency, what `auto` chooses, and what would make a
//! run fit.

use std::collections::BTreeSet;

use pipezero::config::{
    Launch, PartitionConfig, ResidencyConfig, Run, RunFile, UnitLayers, ZeroConfig, ZeroLevel,
};
use pipezero::plan::{Change, FromFileError, Plan, PlanError};
use tests::{Case, Schedule, example, small_run, zero};

/// ZeRO-3 on grids with units of unequal sizes, halves among them; the runs have strict residency.
fn runs() -> Vec<(String, Run)> {
    let mut runs = Vec::new();
    for (pipeline, schedule) in [
        (1, Schedule::OneFOneB),
        (2, Schedule::OneFOneB),
        (2, Schedule::Interleaved { virtual_stages: 2 }),
        (3, Schedule::GPipe),
        (4, Schedule::Eager),
    ] {
        for (unit_layers, prefetch) in
            [(UnitLayers::ONE, 0), (UnitLayers::ONE, 1), (UnitLayers::Half, 0), (UnitLayers::Half, 2)]
        {
            for (tied, threshold) in [(false, 0), (true, 0), (true, 500), (false, 500)] {
                let zero = ZeroConfig {
                    unit_layers,
                    param_persistence_threshold: threshold,
                    ..zero(ZeroLevel::Zero3, ResidencyConfig::Strict, prefetch)
                };
                let num_micro_batches = [4, 1, 2][runs.len() % 3];
                let grid = Case { pipeline, data: 2, num_micro_batches, schedule, ..Case::ONE_RANK };
                let case = Case { zero, tied, num_layers: 9, ..grid };
                runs.push((format!("{case:?}"), small_run(case)));
            }
        }
    }
    runs
}

fn with_residency(run: &Run, resident_units: ResidencyConfig) -> Run {
    Run { zero: ZeroConfig { resident_units, ..run.zero }, ..run.clone() }
}

/// Every number from the least to all units of a rank, with the peak of the fullest rank.
fn numbers(run: &Run) -> Vec<(ResidencyConfig, u64)> {
    let plan = Plan::even_if_refused(run.clone()).expect("a valid run");
    let ranks = plan.training().ranks();
    let gathered = |rank| plan.units_of(rank).filter(|(_, unit)| !unit.is_persistent).count();
    let most = ranks.map(gathered).max().expect("some rank");
    let numbers = (1 + run.zero.prefetch_units..most).map(ResidencyConfig::Units);
    let peak = |residency| {
        Plan::even_if_refused(with_residency(run, residency)).expect("a valid run").needs().rank_bytes
    };
    numbers.chain([ResidencyConfig::All]).map(|residency| (residency, peak(residency))).collect()
}

fn resolved(run: &Run, limit_bytes: u64) -> Result<ResidencyConfig, PlanError> {
    let run = Run { memory_bytes: Some(limit_bytes), ..with_residency(run, ResidencyConfig::Auto) };
    Plan::even_if_refused(run).map(|plan| plan.run().zero.resident_units)
}

#[test]
fn auto_is_the_largest_number_that_fits_every_rank() {
    let mut chosen = BTreeSet::new();
    for (name, run) in runs() {
        let numbers = numbers(&run);
        let limits = numbers.iter().flat_map(|&(_, peak)| [peak, peak + 1, peak - 1]);
        for limit_bytes in limits.collect::<BTreeSet<u64>>() {
            let largest = numbers.iter().rev().find(|&&(_, peak)| peak <= limit_bytes);
            let resolved = resolved(&run, limit_bytes);
            match (largest, resolved) {
                (Some(&(wanted, _)), Ok(resolved)) => {
                    assert_eq!(resolved, wanted, "{limit_bytes} bytes in {name}: {numbers:?}");
                    chosen.insert(format!("{resolved:?}"));
                }
                (None, Err(PlanError::RankMemory { needs_bytes, limit_bytes: said, .. })) => {
                    assert_eq!((needs_bytes, said), (numbers[0].1, limit_bytes), "{name}");
                }
                (wanted, resolved) => panic!("{wanted:?}, {resolved:?}: {limit_bytes} bytes in {name}"),
            }
        }
    }
    assert!(chosen.len() > 6, "only {chosen:?} were chosen");
}

/// Transformer blocks of each stage.
fn blocks_per_stage(plan: &Plan) -> Vec<usize> {
    let mut blocks = vec![0; plan.order().placement.num_stages()];
    for block in 0..plan.graph().num_blocks() {
        let first = plan.graph().block_layers(block).start;
        let unit =
            plan.units().iter().find(|unit| unit.layers.contains(&first)).expect("a unit has the layer");
        blocks[unit.stage.index()] += 1;
    }
    blocks
}

/// A balanced split bends to the memory. `auto` takes the one that it has with the fewest units resident, the fastest that
/// fits, and then the largest number that fits on those very stages.
#[test]
fn auto_never_gives_up_a_faster_split_to_keep_more_units() {
    let (mut num_chosen, mut num_unequal) = (0, 0);
    for (name, mut run) in runs().into_iter().step_by(5) {
        let least = with_residency(&run, ResidencyConfig::Units(1 + run.zero.prefetch_units));
        let limits = numbers(&run).into_iter().map(|(_, peak)| peak);
        run.parallel.partition = PartitionConfig::Balanced;
        for limit_bytes in limits {
            let bound = |run: &Run| Run { memory_bytes: Some(limit_bytes), ..run.clone() };
            let fastest =
                Plan::even_if_refused(bound(&Run { parallel: run.parallel.clone(), ..least.clone() }));
            let auto = Plan::even_if_refused(bound(&with_residency(&run, ResidencyConfig::Auto)));
            let (Ok(fastest), Ok(auto)) = (&fastest, &auto) else {
                assert_eq!(fastest.is_ok(), auto.is_ok(), "{limit_bytes} bytes in {name}");
                continue;
            };
            let blocks = blocks_per_stage(fastest);
            assert_eq!(blocks_per_stage(auto), blocks, "{limit_bytes} bytes in {name}");
            let mut fixed = run.clone();
            fixed.parallel.partition = PartitionConfig::Manual(blocks.clone());
            let numbers = numbers(&fixed);
            let largest = numbers.iter().rev().find(|&&(_, peak)| peak <= limit_bytes);
            let &(wanted, peak) = largest.expect("the least number fits");
            assert_eq!(auto.run().zero.resident_units, wanted, "{limit_bytes} bytes in {name}");
            assert_eq!(auto.needs().rank_bytes, peak, "{limit_bytes} bytes in {name}");
            num_chosen += 1;
            num_unequal += usize::from(blocks.iter().any(|&own| own != blocks[0]));
        }
    }
    assert!(num_chosen > 30 && num_unequal > 10, "{num_chosen} were chosen, {num_unequal} on unequal stages");
}

/// 5 and 7 layers would hold three units in these bytes, at the price of a slowest stage of 7.
#[test]
fn the_quickstart_keeps_its_even_split_under_auto() {
    let auto = ["memory=12.35MiB", "zero_optimization.resident_units=auto"];
    let plan = Plan::even_if_refused(example("quickstart.json", &auto)).expect("it fits");
    assert_eq!(blocks_per_stage(&plan), [6, 6]);
    let mut more = plan.run().clone();
    let ResidencyConfig::Units(number) = more.zero.resident_units else { panic!("all units do not fit") };
    more.zero.resident_units = ResidencyConfig::Units(number + 1);
    let more = Plan::even_if_refused(more).expect("another split holds one more");
    assert_eq!(blocks_per_stage(&more), [5, 7]);
}

#[test]
fn auto_without_memory_is_an_error() {
    let (_, run) = runs().remove(0);
    let error = Plan::even_if_refused(with_residency(&run, ResidencyConfig::Auto))
        .expect_err("nothing to resolve it by");
    assert!(matches!(error, PlanError::NoMemoryGiven), "{error}");
}

#[test]
fn more_resident_units_never_gather_more_and_never_need_less() {
    let mut num_falls = 0;
    for (name, run) in runs() {
        let plan = Plan::even_if_refused(run).expect("a valid run");
        let costs = plan.residencies().expect("a valid run");
        assert_eq!(costs[0].resident_units, ResidencyConfig::Strict);
        assert_eq!(costs.last().expect("some").resident_units, ResidencyConfig::All);
        assert_eq!(costs.iter().filter(|cost| cost.is_chosen).count(), 1, "{name}");
        for pair in costs.windows(2) {
            assert!(pair[1].gathered_bytes <= pair[0].gathered_bytes, "{pair:#?} in {name}");
            // Strict residency is not a number of units: it has the buffers of the least and may fill them with other units.
            let needs_less = pair[1].peak_bytes < pair[0].peak_bytes;
            assert!(!needs_less || pair[0].resident_units == ResidencyConfig::Strict, "{pair:#?} in {name}");
            num_falls += usize::from(pair[1].num_gathers < pair[0].num_gathers);
        }
    }
    assert!(num_falls > 200, "only {num_falls} rows gather less than the one before");
}

/// A run of which something can be made smaller in every way that is offered.
const RUN_FILE: &str = r#"{
  "model": {
    "family": "gpt2", "num_layers": 8, "hidden_size": 32, "num_attention_heads": 2, "seq_length": 16,
    "vocab_size": 256, "tie_embeddings": false
  },
  "data": { "text": "text" },
  "parallel": { "pipeline": 2, "data": 2, "partition": "uniform" },
  "zero_optimization": { "stage": 3, "resident_units": 3, "prefetch_units": 1 },
  "train_micro_batch_size_per_gpu": 4,
  "gradient_accumulation_steps": 4,
  "steps": 1
}"#;

fn file_with(arguments: &[String]) -> RunFile {
    RunFile::parse("run.json", RUN_FILE).and_then(|file| file.set(arguments)).expect("a run file")
}

fn run_with(arguments: &[String]) -> Run {
    let (run, _) = file_with(arguments).resolve(Launch::this_host()).expect("a valid run file");
    run
}

/// A change as arguments of `--set`.
fn arguments(change: &Change) -> Vec<String> {
    let object = format!("{{{}}}", change.description);
    let keys: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(&object).expect("a change is written as keys and values");
    let of_zero = "stage reduce resident_units prefetch_units unit_layers stage3_param_persistence_threshold";
    let of_parallel = ["schedule", "virtual_stages"];
    let argument = |(key, value): (&String, &serde_json::Value)| match key.as_str() {
        key if of_parallel.contains(&key) => format!("parallel.{key}={value}"),
        key if of_zero.split(' ').any(|of_zero| of_zero == key) => format!("zero_optimization.{key}={value}"),
        key => format!("{key}={value}"),
    };
    keys.iter().map(argument).collect()
}

#[test]
fn every_change_that_an_error_offers_does_fit_when_it_is_written() {
    let mut offered = BTreeSet::new();
    for own in [
        // Below ZeRO-3 the file's own `resident_units` is passed over, and counts as soon as the level is 3.
        &["zero_optimization.stage=1"][..],
        &[],
        // Four data ranks and small units, so that a shard and what is gathered are less than the whole.
        &["zero_optimization.reduce=last", "zero_optimization.unit_layers=0.5", "parallel.data=4"],
        &[
            "zero_optimization.stage3_param_persistence_threshold=100000",
            "zero_optimization.unit_layers=0.5",
            "parallel.data=4",
        ],
        &["parallel.schedule=gpipe", "train_micro_batch_size_per_gpu=1"],
        &["parallel.schedule=bfs", "parallel.virtual_stages=2"],
    ] {
        let own: Vec<String> = own.iter().map(|&change| change.to_owned()).collect();
        let needs = Plan::even_if_refused(run_with(&own)).expect("it fits a host").needs();
        for percent in [99, 95, 80, 60] {
            let limit = needs.rank_bytes * percent / 100;
            let memory = format!("memory={limit}");
            let limited = [&own[..], std::slice::from_ref(&memory)].concat();
            let Err(FromFileError::Memory { error, changes }) =
                Plan::from_file(&file_with(&limited), Launch::this_host())
            else {
                panic!("{needs:?} do not fit {limit} bytes")
            };
            let PlanError::RankMemory { needs_bytes, .. } = *error else { panic!("{error}") };
            assert_eq!(needs_bytes, needs.rank_bytes);
            for change in changes {
                let changed =
                    Plan::even_if_refused(run_with(&[limited.clone(), arguments(&change)].concat()));
                let plan = changed.unwrap_or_else(|error| panic!("{change:?} in {limit} bytes: {error}"));
                assert_eq!(plan.needs(), change.needs, "{change:?}");
                offered.insert(change.description);
            }
        }
    }
    for alone in [
        "\"reduce\": \"every\"",
        "\"stage3_param_persistence_threshold\": 0",
        "\"schedule\": \"1f1b\"",
        "\"schedule\": \"1f1b\", \"virtual_stages\": 1",
    ] {
        assert!(offered.contains(alone), "{alone} is not among {offered:?}");
    }
    assert!(offered.len() >= 10, "only {offered:?} were offered");
}

/// All ways to give every stage some of the blocks.
fn splits(num_blocks: usize, num_stages: usize) -> Vec<Vec<usize>> {
    if num_stages == 1 {
        return vec![vec![num_blocks]];
    }
    let first = 1..=num_blocks + 1 - num_stages;
    let rest = |first| {
        splits(num_blocks - first, num_stages - 1).into_iter().map(move |rest| [vec![first], rest].concat())
    };
    first.flat_map(rest).collect()
}

/// What a stage needs is estimated while a split is sought. Where `memory` is just what some split needs, that split or
/// another one that fits is found all the same, and nothing beyond `memory` is ever planned.
#[test]
fn a_balanced_split_is_found_where_one_fits() {
    let (mut num_found, mut num_asked) = (0, 0);
    for (name, run) in runs().into_iter().filter(|(_, run)| run.parallel.pipeline > 1).step_by(3) {
        for resident_units in [run.zero.resident_units, ResidencyConfig::All] {
            let run = with_residency(&run, resident_units);
            let with = |partition, memory_bytes| {
                let mut run = run.clone();
                (run.parallel.partition, run.memory_bytes) = (partition, memory_bytes);
                Plan::even_if_refused(run)
            };
            let num_blocks = run.model.num_layers();
            let splits = splits(num_blocks, run.parallel.num_stages()).into_iter();
            let plans = splits.filter_map(|blocks| with(PartitionConfig::Manual(blocks), None).ok());
            let peaks: BTreeSet<u64> = plans.map(|plan| plan.needs().rank_bytes).collect();
            for &peak in peaks.iter().take(3) {
                num_asked += 1;
                if let Ok(plan) = with(PartitionConfig::Balanced, Some(peak)) {
                    assert!(plan.needs().rank_bytes <= peak, "{name}");
                    num_found += 1;
                }
            }
        }
    }
    assert!(num_asked > 100, "{num_asked}");
    assert_eq!(num_found, num_asked);
}
