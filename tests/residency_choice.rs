//! The trade between gathers and memory: what the plan says of every residency, what `auto` chooses, and what would make a
//! run fit.

use std::collections::BTreeSet;

use pipezero_config::{
    PartitionConfig, ReductionPolicy, ResidencyConfig, Resources, Run, RunFile, UnitLayers, ZeroConfig,
    ZeroLevel,
};
use pipezero_plan::{Change, FromFileError, Plan, PlanError};
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
    Run { zero: ZeroConfig { resident_units, ..run.zero.clone() }, ..run.clone() }
}

fn planned(run: &Run, resident_units: ResidencyConfig) -> Plan {
    Plan::even_if_refused(with_residency(run, resident_units)).expect("a valid run")
}

/// Peak memory of each pipeline rank.
fn peaks_of(plan: &Plan) -> Vec<u64> {
    plan.forecast().iter().step_by(plan.grid().data_degree).map(|rank| rank.memory.peak).collect()
}

/// What every number of resident units would need on every rank: each number planned for all ranks.
struct Numbers {
    least: usize,
    /// `[rank]`: units that it gathers.
    gathered: Vec<usize>,
    /// `[number - least][rank]`, up to the most units of a rank.
    peaks: Vec<Vec<u64>>,
}

impl Numbers {
    fn of(run: &Run) -> Self {
        let least = 1 + run.zero.prefetch_units;
        let plan = planned(run, ResidencyConfig::Units(least));
        let gathered = |rank| plan.units_of(rank).filter(|(_, unit)| unit.is_sharded()).count();
        let gathered: Vec<usize> = plan.training().ranks().map(gathered).collect();
        let most = gathered.iter().copied().max().expect("some rank").max(least);
        let peaks = (least..=most).map(|number| peaks_of(&planned(run, ResidencyConfig::Units(number))));
        Self { least, peaks: peaks.collect(), gathered }
    }

    /// The largest number of each rank with a peak within its bound; `None` where some rank has none.
    fn largest_within(&self, bounds: &[u64]) -> Option<Vec<usize>> {
        let of_rank = |rank: usize| {
            let fits = |&number: &usize| self.peaks[number - self.least][rank] <= bounds[rank];
            (self.least..=self.gathered[rank].max(self.least)).rev().find(fits)
        };
        (0..bounds.len()).map(of_rank).collect()
    }

    /// The numbers as the run file would write them: shorter where that says the same.
    fn as_written(&self, numbers: &[usize]) -> ResidencyConfig {
        if numbers.iter().zip(&self.gathered).all(|(number, gathered)| number >= gathered) {
            ResidencyConfig::All
        } else if numbers.iter().all(|&number| number == numbers[0]) {
            ResidencyConfig::Units(numbers[0])
        } else {
            ResidencyConfig::PerRank(numbers.to_vec())
        }
    }
}

#[test]
fn auto_is_on_each_rank_the_largest_number_that_fits() {
    let (mut chosen, mut num_lists) = (BTreeSet::new(), 0);
    for (name, run) in runs() {
        let numbers = Numbers::of(&run);
        let limits = numbers.peaks.concat().into_iter().flat_map(|peak| [peak, peak + 1, peak - 1]);
        for limit_bytes in limits.collect::<BTreeSet<u64>>() {
            let largest = numbers.largest_within(&vec![limit_bytes; numbers.gathered.len()]);
            let auto = Run { memory_bytes: Some(limit_bytes), ..with_residency(&run, ResidencyConfig::Auto) };
            match (largest, Plan::even_if_refused(auto)) {
                (Some(largest), Ok(plan)) => {
                    let resolved = &plan.run().zero.resident_units;
                    assert_eq!(resolved, &numbers.as_written(&largest), "{limit_bytes} bytes in {name}");
                    assert_eq!(plan.asked_residency(), &ResidencyConfig::Auto);
                    chosen.insert(format!("{resolved:?}"));
                    num_lists += usize::from(matches!(resolved, ResidencyConfig::PerRank(_)));
                }
                (None, Err(PlanError::RankMemory { needs_bytes, limit_bytes: said, .. })) => {
                    let fullest = numbers.peaks[0].iter().max();
                    assert_eq!((Some(&needs_bytes), said), (fullest, limit_bytes), "{name}");
                }
                (largest, plan) => panic!("{largest:?}, {plan:?}: {limit_bytes} bytes in {name}"),
            }
        }
    }
    assert!(chosen.len() > 20 && num_lists > 100, "{num_lists} lists, {chosen:?}");
}

/// Up to the fullest rank with the fewest resident units, and to 95% of what the rank would need under ZeRO-1.
#[test]
fn level_is_on_each_rank_the_largest_number_below_both_bounds() {
    let (mut num_lists, mut num_below_zero_1, mut num_least) = (0, 0, 0);
    for (name, run) in runs().into_iter().chain(runs().into_iter().map(on_8_data_ranks)) {
        let numbers = Numbers::of(&run);
        let mut zero_1 = run.clone();
        zero_1.zero.level = ZeroLevel::Zero1;
        zero_1.zero.reduce = ReductionPolicy::Last;
        let zero_1 = peaks_of(&Plan::even_if_refused(zero_1).expect("a valid run"));
        let fullest = *numbers.peaks[0].iter().max().expect("some rank");
        let bounds: Vec<u64> = zero_1.iter().map(|peak| (peak * 95 / 100).min(fullest)).collect();
        let largest = |rank: usize| {
            let bound: Vec<u64> =
                (0..bounds.len()).map(|of| if of == rank { bounds[of] } else { u64::MAX }).collect();
            numbers.largest_within(&bound).map_or(numbers.least, |largest| largest[rank])
        };
        let expected: Vec<usize> = (0..bounds.len()).map(largest).collect();
        let plan = planned(&run, ResidencyConfig::Level);
        assert_eq!(plan.run().zero.resident_units, numbers.as_written(&expected), "{name}");
        assert_eq!(plan.needs().rank_bytes, fullest, "{name}: no rank is fuller than the fullest");
        num_lists += usize::from(matches!(plan.run().zero.resident_units, ResidencyConfig::PerRank(_)));
        num_below_zero_1 += usize::from(bounds.iter().any(|&bound| bound < fullest));
        num_least += usize::from(expected.iter().all(|&number| number == numbers.least));
    }
    assert!(
        num_lists > 20 && num_below_zero_1 > 20 && num_least > 5,
        "{num_lists}, {num_below_zero_1}, {num_least}"
    );
}

/// More data ranks, with which ZeRO-3 saves more.
fn on_8_data_ranks((name, mut run): (String, Run)) -> (String, Run) {
    run.parallel.data = 8;
    run.batch.train_batch_size *= 4;
    (format!("{name} on 8 data ranks"), run)
}

/// `level` fills three quarters of a host at most, but never less than the fewest resident units need.
#[test]
fn level_stays_within_three_quarters_of_the_host() {
    let (mut num_lowered, mut num_between) = (0, 0);
    for (name, run) in runs().into_iter().map(on_8_data_ranks) {
        let level = |host_bytes| {
            let run = Run { host_memory_bytes: host_bytes, ..with_residency(&run, ResidencyConfig::Level) };
            Plan::even_if_refused(run).expect("a valid run")
        };
        let free = level(None);
        let least = planned(&run, ResidencyConfig::Units(1 + run.zero.prefetch_units));
        let (least_bytes, free_bytes) = (least.needs().world_bytes, free.needs().world_bytes);
        let resident = |plan: &Plan| plan.run().zero.resident_units.clone();
        assert_eq!(resident(&level(Some(free_bytes.div_ceil(3) * 4))), resident(&free), "{name}");
        // A host that cannot hold even the fewest is another one.
        assert_eq!(resident(&level(Some(least_bytes - 1))), resident(&free), "{name}");
        for quarter in 0..4 {
            let bound_bytes = least_bytes + (free_bytes - least_bytes) * quarter / 4;
            let host_bytes = bound_bytes.div_ceil(3) * 4;
            let plan = level(Some(host_bytes));
            let bytes = plan.needs().world_bytes;
            assert!(bytes <= host_bytes / 4 * 3, "{bytes} of {host_bytes} in {name}");
            let hints =
                plan.diagnostics().into_iter().filter(|found| found.text.contains("three quarters")).count();
            assert_eq!(hints, usize::from(resident(&plan) != resident(&free)), "{name}");
            num_lowered += usize::from(bytes < free_bytes);
            num_between += usize::from(least_bytes < bytes && bytes < free_bytes);
        }
    }
    assert!(num_lowered > 40 && num_between > 5, "{num_lowered}, {num_between}");
}

#[test]
fn a_list_has_a_number_for_each_pipeline_rank() {
    let run = small_run(Case {
        pipeline: 2,
        data: 2,
        zero: zero(ZeroLevel::Zero3, ResidencyConfig::PerRank(vec![2]), 1),
        ..Case::ONE_RANK
    });
    for partition in [PartitionConfig::Uniform, PartitionConfig::Balanced] {
        let mut run = Run { memory_bytes: Some(1 << 30), ..run.clone() };
        run.parallel.partition = partition;
        let error = Plan::new(run).expect_err("a list of one for two ranks").to_string();
        assert!(error.contains("a list of 1 for 2 pipeline ranks"), "{error}");
    }
    let plan = planned(&run, ResidencyConfig::PerRank(vec![2, 9]));
    let diagnostics =
        plan.diagnostics().into_iter().filter(|found| found.text.contains("9 units for pipeline rank 1"));
    assert_eq!(diagnostics.count(), 1);
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
        let limits: BTreeSet<u64> = Numbers::of(&run).peaks.concat().into_iter().collect();
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
            let numbers = Numbers::of(&fixed);
            let largest = numbers.largest_within(&vec![limit_bytes; numbers.gathered.len()]);
            let wanted = numbers.as_written(&largest.expect("the least number fits"));
            assert_eq!(auto.run().zero.resident_units, wanted, "{limit_bytes} bytes in {name}");
            num_chosen += 1;
            num_unequal += usize::from(blocks.iter().any(|&own| own != blocks[0]));
        }
    }
    assert!(num_chosen > 30 && num_unequal > 10, "{num_chosen} were chosen, {num_unequal} on unequal stages");
}

/// 5 and 7 layers would hold one unit more in these bytes, at the price of a slowest stage of 7.
#[test]
fn the_quickstart_keeps_its_even_split_under_auto() {
    let auto = ["memory=12.35MiB", "zero_optimization.resident_units=auto"];
    let plan = Plan::even_if_refused(example("quickstart.json", &auto)).expect("it fits");
    assert_eq!(blocks_per_stage(&plan), [6, 6]);
    let mut more = plan.run().clone();
    assert_eq!(more.zero.resident_units, ResidencyConfig::PerRank(vec![6, 12]));
    more.zero.resident_units = ResidencyConfig::PerRank(vec![7, 12]);
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
        let mut costs = plan.residencies().expect("a valid run");
        assert_eq!(costs[0].resident_units, ResidencyConfig::Strict);
        let level = costs.pop().expect("the last row");
        assert_eq!(level.resident_units, ResidencyConfig::Level);
        let least = costs.iter().find(|cost| matches!(cost.resident_units, ResidencyConfig::Units(_)));
        let least = least.unwrap_or(&costs[costs.len() - 1]);
        assert!(level.num_gathers_of_all <= least.num_gathers_of_all && level.peak_bytes == least.peak_bytes);
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
    let (run, _) = file_with(arguments).resolve(Resources::this_host()).expect("a valid run file");
    run
}

/// A change as arguments of `--set`.
fn arguments(change: &Change) -> Vec<String> {
    let object = format!("{{{}}}", change.description);
    let keys: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(&object).expect("a change is written as keys and values");
    let of_zero = "stage reduce overlap_comm resident_units prefetch_units unit_layers vocabulary_slices sharding stage3_param_persistence_threshold";
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
            "zero_optimization.stage3_param_persistence_threshold=5000",
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
                Plan::from_file(&file_with(&limited), Resources::this_host())
            else {
                panic!("{needs:?} do not fit {limit} bytes")
            };
            let PlanError::RankMemory { needs_bytes, .. } = *error else { panic!("{error}") };
            // Where the head's rank does not fit, the plan has tried to recompute logits.
            let recomputed = "activation_checkpointing.head_logits=recompute".to_owned();
            let recomputed = Plan::even_if_refused(run_with(&[&own[..], &[recomputed]].concat()));
            let recomputed = recomputed.expect("it fits a host").needs();
            assert!([needs, recomputed].map(|needs| needs.rank_bytes).contains(&needs_bytes));
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

/// Logits that the file keeps are recomputed where that is enough, alone or with blocks.
#[test]
fn kept_logits_are_offered_to_be_recomputed() {
    let offered = |percent: u64, own: &[&str]| -> Vec<String> {
        let own: Vec<String> = own.iter().map(|&argument| argument.to_owned()).collect();
        let needs = Plan::even_if_refused(run_with(&own)).expect("it fits a host").needs();
        let limited = [&own[..], &[format!("memory={}", needs.rank_bytes * percent / 100)]].concat();
        let plan = Plan::from_file(&file_with(&limited), Resources::this_host());
        let Err(FromFileError::Memory { changes, .. }) = plan else { panic!("{percent}% is enough") };
        changes.into_iter().map(|change| change.description).collect()
    };
    // A vocabulary that makes the last rank the fullest.
    let keep = ["model.vocab_size=3000", "activation_checkpointing.head_logits=keep"];
    let alone = "\"activation_checkpointing\": {\"head_logits\": \"recompute\"}".to_owned();
    assert!(offered(90, &keep).contains(&alone));
    let together = offered(60, &keep).concat();
    assert!(together.contains("{\"enabled\": true, \"head_logits\": \"recompute\"}"), "{together}");
    // What is left open has been tried already.
    assert!(offered(60, &keep[..1]).iter().all(|change| !change.contains("head_logits")));
    // Tables that the file leaves whole are cut.
    let whole = ["model.vocab_size=9000", "zero_optimization.vocabulary_slices=1", "parallel.data=4"];
    let cut = "\"vocabulary_slices\": \"auto\"".to_owned();
    assert!(offered(80, &whole).contains(&cut), "{:?}", offered(80, &whole));
}

/// Without `memory` logits are kept unless the head's rank is the fullest of several; with it, unless it does not fit.
#[test]
fn logits_that_weigh_are_recomputed_on_every_grid() {
    let mut num_recomputed = 0;
    for (pipeline, data, vocab_size) in [1, 2, 4]
        .into_iter()
        .flat_map(|p| [1, 2, 3].map(|d| (p, d)))
        .flat_map(|(p, d)| [256, 3000].map(|v| (p, d, v)))
    {
        let own = [
            format!("parallel.pipeline={pipeline}"),
            format!("parallel.data={data}"),
            format!("model.vocab_size={vocab_size}"),
        ];
        let plan = |more: &[String]| {
            Plan::even_if_refused(run_with(&[&own[..], more].concat())).expect("it fits a host")
        };
        let kept = plan(&["activation_checkpointing.head_logits=keep".to_owned()]);
        let peaks: Vec<u64> = kept.forecast().iter().step_by(data).map(|rank| rank.memory.peak).collect();
        let (last, others) = peaks.split_last().expect("a rank");
        let is_fullest = others.iter().max().is_some_and(|other| last > other);
        let is_kept = |plan: &Plan| plan.head_logits_cost().expect("it has a head").is_kept;
        assert_eq!(is_kept(&plan(&[])), !is_fullest, "{own:?}: {peaks:?}");
        let cost = kept.head_logits_cost().expect("it has a head");
        let below = format!("memory={}", cost.kept_peak_bytes - 1);
        if others.iter().all(|&other| other < cost.kept_peak_bytes) {
            assert!(!is_kept(&plan(&[below])), "{own:?}: {peaks:?}");
            num_recomputed += 1;
        }
        let enough = format!("memory={}", peaks.iter().max().expect("a rank"));
        assert!(is_kept(&plan(&[enough])), "{own:?}: {peaks:?}");
    }
    assert!(num_recomputed >= 6, "only {num_recomputed} runs recompute");
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
        for resident_units in [run.zero.resident_units.clone(), ResidencyConfig::All] {
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
