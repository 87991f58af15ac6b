//! `"sharding": "auto"` against every list there is: each planned as a run of its own, as a user would write it.

use std::collections::HashMap;

use pipezero_config::{
    HeadLogits, Precision, ReductionPolicy, ResidencyConfig, Run, ShardingConfig, ShardingRule, UnitLayers,
    UnitSharding, VocabularyConfig, ZeroConfig, ZeroLevel,
};
use pipezero_plan::{Plan, PlanError};
use tests::{Case, Mask, Sample, Schedule, assert_bit_identical, in_full, small_run, train, zero};

/// What a rank needs and sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cost {
    peak_bytes: u64,
    sent_bytes: u64,
}

/// A weight: a unit, or both uses of a tied one.
type Weight = Vec<usize>;

/// Runs with up to 8 units on a rank: of half blocks, with tables in slices, tied or not.
fn runs() -> Vec<Run> {
    let mut runs = Vec::new();
    for (pipeline, schedule, num_layers, unit_layers) in [
        (1, Schedule::OneFOneB, 3, UnitLayers::ONE),
        (2, Schedule::OneFOneB, 4, UnitLayers::ONE),
        (2, Schedule::GPipe, 3, UnitLayers::Half),
        (2, Schedule::Interleaved { virtual_stages: 2 }, 4, UnitLayers::ONE),
        (3, Schedule::Eager, 15, UnitLayers::ONE),
        (2, Schedule::ZbH1, 9, UnitLayers::ONE),
        (1, Schedule::GPipe, 6, UnitLayers::ONE),
        (2, Schedule::OneFOneB, 12, UnitLayers::ONE),
        // The head's rank is above ZeRO-1 with every list with which that of the token table is much below it.
        (2, Schedule::OneFOneB, 3, UnitLayers::ONE),
    ] {
        for (tied, num_slices) in [(false, 1), (true, 1), (true, 2)] {
            for (data, prefetch, precision) in [(2, 1, Precision::F32), (8, 0, Precision::Bf16)] {
                let reduce = if runs.len() % 7 == 3 { ReductionPolicy::Last } else { ReductionPolicy::Every };
                let zero = ZeroConfig {
                    unit_layers,
                    reduce,
                    ..zero(ZeroLevel::Zero3, ResidencyConfig::Units(1 + prefetch), prefetch)
                };
                let case =
                    Case { pipeline, schedule, num_layers, tied, data, precision, zero, ..Case::ONE_RANK };
                let num_micro_batches = [4, 1, 2][runs.len() % 3] * pipeline;
                let vocabulary = VocabularyConfig::new(num_slices, HeadLogits::Keep);
                let vocab_size = if num_slices == 1 { 17 } else { 1500 };
                runs.push(small_run(Case { num_micro_batches, vocabulary, vocab_size, ..case }));
            }
        }
    }
    runs
}

/// What each rank of a plan needs and sends.
fn costs(plan: &Plan) -> Vec<Cost> {
    let ranks = plan.forecast().into_iter().step_by(plan.grid().data_degree);
    let cost = |rank: pipezero_plan::RankForecast| Cost {
        peak_bytes: rank.memory.peak,
        sent_bytes: rank.traffic.total_bytes(),
    };
    ranks.map(cost).collect()
}

/// Every choice for every rank.
struct Lists {
    /// The ranks that are chosen for together.
    groups: Vec<Vec<usize>>,
    /// `[rank]`: its weights that no other rank uses.
    own: Vec<Vec<Weight>>,
    /// Weights that two ranks use.
    tied: Vec<Weight>,
    /// `[rank]`: by what is chosen for tied weights and for its own, each as a number of base 3.
    costs: Vec<HashMap<(usize, usize), Cost>>,
    /// `[unit]`
    num_elements: Vec<usize>,
}

fn kind(number: usize, digit: usize) -> UnitSharding {
    UnitSharding::ALL[number / 3usize.pow(digit as u32) % 3]
}

fn number_of(weights: &[Weight]) -> usize {
    3usize.pow(weights.len() as u32)
}

impl Lists {
    fn of(run: &Run) -> Self {
        let plan = Plan::even_if_refused(run.clone()).expect("a valid run");
        let rank_of = |unit: usize| plan.pipeline_rank_of(plan.units()[unit].stage).index();
        let pairs: Vec<Weight> = plan
            .training()
            .chain()
            .tied_pairs()
            .iter()
            .map(|(embedding, head)| vec![embedding.index(), head.index()])
            .collect();
        let crosses = |pair: &Weight| rank_of(pair[0]) != rank_of(pair[1]);
        let (tied, local): (Vec<_>, Vec<_>) = pairs.iter().cloned().partition(crosses);
        let single =
            (0..plan.units().len()).filter(|unit| !pairs.concat().contains(unit)).map(|unit| vec![unit]);
        let all: Vec<Weight> = local.into_iter().chain(single).collect();
        let num_ranks = plan.grid().pipeline_degree;
        let own: Vec<Vec<Weight>> = (0..num_ranks)
            .map(|rank| all.iter().filter(|weight| rank_of(weight[0]) == rank).cloned().collect())
            .collect();
        let sharing: Vec<usize> = tied.first().into_iter().flatten().map(|&unit| rank_of(unit)).collect();
        let alone = (0..num_ranks).filter(|rank| !sharing.contains(rank)).map(|rank| vec![rank]);
        let groups = [sharing.clone()].into_iter().filter(|group| !group.is_empty()).chain(alone).collect();
        let num_elements = plan.units().iter().map(|unit| unit.unit.num_elements()).collect();
        let mut lists = Self { groups, own, tied, costs: vec![HashMap::new(); num_ranks], num_elements };
        let most = lists.own.iter().map(|own| number_of(own)).max().expect("a rank");
        for of_tied in 0..number_of(&lists.tied) {
            for of_own in 0..most {
                let numbers: Vec<usize> = lists.own.iter().map(|own| of_own % number_of(own)).collect();
                let found = costs(&lists.planned(run, &plan, of_tied, &numbers));
                for (rank, cost) in found.into_iter().enumerate() {
                    lists.costs[rank].insert((of_tied, numbers[rank]), cost);
                }
            }
        }
        lists
    }

    /// The run with a list of every unit by the names of its layers.
    fn planned(&self, run: &Run, plan: &Plan, of_tied: usize, numbers: &[usize]) -> Plan {
        let mut rules = Vec::new();
        let mut add = |weight: &Weight, sharding: UnitSharding| {
            let layers = weight.iter().flat_map(|&unit| plan.units()[unit].layers.clone());
            let names: Vec<String> =
                layers.map(|layer| plan.graph().layer(layer).name.replace('.', r"\.")).collect();
            rules.push(ShardingRule { sharding, pattern: format!("^({})$", names.join("|")) });
        };
        for (digit, weight) in self.tied.iter().enumerate() {
            add(weight, kind(of_tied, digit));
        }
        for (own, &number) in self.own.iter().zip(numbers) {
            own.iter().enumerate().for_each(|(digit, weight)| add(weight, kind(number, digit)));
        }
        let mut run = run.clone();
        run.zero.sharding = ShardingConfig::Listed(rules);
        Plan::even_if_refused(run).expect("a valid list")
    }

    /// Whether a rank does what ZeRO-2 does: less than 5% of its elements are sharded, and more than half are reduced after every micro-batch.
    fn is_zero_2(&self, rank: usize, (of_tied, of_own): (usize, usize)) -> bool {
        let shares_tied = self.groups[0].contains(&rank);
        let tied = self.tied.iter().enumerate().filter(|_| shares_tied);
        let tied = tied.map(|(digit, weight)| (weight, kind(of_tied, digit)));
        let own = self.own[rank].iter().enumerate().map(|(digit, weight)| (weight, kind(of_own, digit)));
        let weights: Vec<(f64, UnitSharding)> =
            tied.chain(own).map(|(weight, kind)| (self.num_elements[weight[0]] as f64, kind)).collect();
        let share = |of: fn(UnitSharding) -> bool| {
            let sum = weights.iter().filter(|(_, kind)| of(*kind)).map(|(elements, _)| elements).sum::<f64>();
            sum / weights.iter().map(|(elements, _)| elements).sum::<f64>()
        };
        share(|kind| kind == UnitSharding::Sharded) < 0.05 && share(|kind| kind != UnitSharding::Whole) > 0.5
    }

    /// The choices for ranks that are chosen for together, none of which does what ZeRO-2 does where it `must_not`: the cost of each rank.
    fn choices(&self, group: &[usize], must_not: bool) -> Vec<Vec<Cost>> {
        let mut choices = Vec::new();
        for of_tied in 0..number_of(&self.tied) {
            let mut of_ranks: Vec<Vec<Cost>> = vec![Vec::new()];
            for &rank in group {
                let allowed = (0..number_of(&self.own[rank]))
                    .filter(|&of_own| !must_not || !self.is_zero_2(rank, (of_tied, of_own)));
                let own: Vec<Cost> = allowed.map(|of_own| self.costs[rank][&(of_tied, of_own)]).collect();
                of_ranks = of_ranks
                    .iter()
                    .flat_map(|before| own.iter().map(|cost| [&before[..], &[*cost]].concat()))
                    .collect();
            }
            choices.extend(of_ranks);
        }
        choices
    }
}

fn sent(costs: &[Cost]) -> u64 {
    costs.iter().map(|cost| cost.sent_bytes).sum()
}

fn fullest(costs: &[Cost]) -> u64 {
    costs.iter().map(|cost| cost.peak_bytes).max().expect("a rank")
}

fn peaks(costs: &[Cost]) -> Vec<u64> {
    costs.iter().map(|cost| cost.peak_bytes).collect()
}

/// The peak of each rank of the same run under ZeRO-1.
fn zero_1_peaks(run: &Run) -> Vec<u64> {
    let mut run = run.clone();
    (run.zero.level, run.zero.reduce) = (ZeroLevel::Zero1, ReductionPolicy::Last);
    peaks(&costs(&Plan::even_if_refused(run).expect("a valid run")))
}

/// Bytes sent and peaks.
type Best = (u64, Vec<u64>);

/// What the page on ZeRO promises of the choice for a group.
fn best(choices: &[Vec<Cost>], zero_1: &[u64], memory_bytes: Option<u64>) -> Best {
    let of_zero_1 = best_within(choices, zero_1, memory_bytes);
    match memory_bytes {
        Some(limit) if of_zero_1.1.iter().any(|&peak| peak > limit) => {
            best_within(choices, &vec![u64::MAX; zero_1.len()], memory_bytes)
        }
        _ => of_zero_1,
    }
}

/// The same with no rank above a bound.
fn best_within(choices: &[Vec<Cost>], most_bytes: &[u64], memory_bytes: Option<u64>) -> Best {
    let within = |costs: &[Cost], bound: &dyn Fn(usize) -> u64| {
        costs.iter().enumerate().all(|(rank, cost)| cost.peak_bytes <= bound(rank))
    };
    let mut choices = choices.to_vec();
    choices.retain(|costs| within(costs, &|rank| most_bytes[rank]));
    let by_peak = |costs: &&Vec<Cost>| (fullest(costs), peaks(costs).iter().sum::<u64>(), sent(costs));
    let by_sent = |costs: &&Vec<Cost>| (sent(costs), fullest(costs), peaks(costs).iter().sum::<u64>());
    let lowest = choices.iter().min_by_key(by_peak).expect("everything whole is allowed");
    let chosen = match memory_bytes {
        Some(limit) => choices.iter().filter(|costs| fullest(costs) <= limit).min_by_key(by_sent),
        None => choices
            .iter()
            .filter(|costs| within(costs, &|rank| lowest[rank].peak_bytes * 101 / 100))
            .min_by_key(by_sent)
            .filter(|costs| sent(costs) * 10 <= sent(lowest) * 9),
    };
    let chosen = chosen.unwrap_or(lowest);
    (sent(chosen), peaks(chosen))
}

/// Whether ranks must not do what ZeRO-2 does.
fn must_not_be_zero_2(run: &Run) -> bool {
    run.parallel.pipeline > 1 && run.zero.reduce == ReductionPolicy::Every
}

/// The best for every group.
fn best_of_all(lists: &Lists, run: &Run, zero_1: &[u64], memory_bytes: Option<u64>) -> Vec<Best> {
    let of_group = |group: &Vec<usize>| {
        let of_zero_1: Vec<u64> = group.iter().map(|&rank| zero_1[rank]).collect();
        best(&lists.choices(group, must_not_be_zero_2(run)), &of_zero_1, memory_bytes)
    };
    lists.groups.iter().map(of_group).collect()
}

#[test]
fn auto_is_the_best_of_all_lists() {
    let (mut num_choices, mut num_runs, mut num_unfit, mut num_lists, mut num_above) = (0, 0, 0, 0, 0);
    let mut sample = Sample::one_in(12, "run x memory, under auto and under every list of what is sharded");
    for run in runs() {
        if !sample.takes_next() {
            continue;
        }
        let lists = Lists::of(&run);
        num_lists += lists.costs.iter().map(HashMap::len).sum::<usize>();
        let zero_1 = zero_1_peaks(&run);
        let most = *zero_1.iter().max().expect("a rank");
        let least =
            lists.costs.iter().filter_map(|costs| costs.values().map(|cost| cost.peak_bytes).min()).max();
        let least = least.expect("a rank");
        let limits = [-1, 0, 1, 2, 4, 6, 8, 9]
            .map(|eighths| Some(least.saturating_add_signed((most - least) as i64 * eighths / 8)));
        num_runs += 1;
        for memory_bytes in [None].into_iter().chain(limits) {
            let mut auto = Run { memory_bytes, ..run.clone() };
            auto.zero.sharding = ShardingConfig::Auto;
            let expected = best_of_all(&lists, &run, &zero_1, memory_bytes);
            let fits = |(_, peaks): &(u64, Vec<u64>)| {
                memory_bytes.is_none_or(|limit| peaks.iter().all(|&peak| peak <= limit))
            };
            let plan = match Plan::even_if_refused(auto) {
                Ok(plan) => plan,
                Err(PlanError::RankMemory { needs_bytes, .. }) => {
                    let most = expected.iter().flat_map(|(_, peaks)| peaks).max();
                    assert_eq!((expected.iter().all(fits), Some(&needs_bytes)), (false, most), "{run:?}");
                    num_unfit += 1;
                    continue;
                }
                Err(error) => panic!("{error}: {run:?}"),
            };
            let found = costs(&plan);
            let least: Vec<_> = plan.beside_zero_1().iter().map(|rank| rank.least_tried_peak_bytes).collect();
            for (group, expected) in lists.groups.iter().zip(&expected) {
                let own: Vec<Cost> = group.iter().map(|&rank| found[rank]).collect();
                let kinds: Vec<UnitSharding> =
                    plan.units().iter().map(|unit| unit.parts[0].sharding).collect();
                assert_eq!((sent(&own), peaks(&own)), *expected, "{memory_bytes:?} {kinds:?} {run:?}");
                let of_group: Vec<u64> = group.iter().map(|&rank| zero_1[rank]).collect();
                let is_above = peaks(&own).iter().zip(&of_group).any(|(own, of_zero_1)| own > of_zero_1);
                let bounds = if is_above { vec![u64::MAX; group.len()] } else { of_group };
                let (_, lowest) =
                    best_within(&lists.choices(group, must_not_be_zero_2(&run)), &bounds, Some(0));
                let own_least: Vec<u64> = group.iter().filter_map(|&rank| least[rank]).collect();
                assert_eq!(own_least, lowest, "the lowest peaks: {run:?}");
                num_above += usize::from(is_above);
                num_choices += 1;
            }
        }
    }
    println!(
        "{num_choices} choices of {num_runs} runs, {num_above} above ZeRO-1 to fit, {num_unfit} that fit nowhere; {num_lists} lists of single ranks"
    );
    assert!(num_choices > 20 && num_unfit > 0, "{num_choices} choices, {num_unfit} that fit nowhere");
    assert!(!in_full() || num_above > 0, "{num_above} choices with a rank above ZeRO-1");
}

/// The list that `auto` prints, written down, is the same run: plan, programs and bits.
#[test]
fn the_printed_list_is_the_same_run() {
    let (mut num_kinds, mut num_trained) = ([0; 3], 0);
    for mut run in runs().into_iter().step_by(4) {
        run.steps = 2;
        run.zero.sharding = ShardingConfig::Auto;
        // Bounds in which weights fit and their gradients do not.
        let free = Plan::even_if_refused(run.clone()).expect("a valid run");
        run.memory_bytes = Some(free.fullest_rank().1 * 102 / 100);
        let plan = Plan::even_if_refused(run.clone()).expect("a valid run");
        let printed = plan
            .diagnostics()
            .into_iter()
            .find(|diagnostic| diagnostic.keys == ["zero_optimization.sharding"]);
        let text = printed.expect("a hint").text;
        let list = text.split_once(": ").and_then(|(_, rest)| rest.split_once("]: ")).expect("a list").0;
        let list = format!("{list}]");
        let list: Vec<String> = serde_json::from_str(&list).expect("JSON");
        assert_eq!(
            list,
            plan.run().zero.sharding.rules().iter().map(ToString::to_string).collect::<Vec<_>>()
        );
        let mut pinned = run.clone();
        pinned.zero.sharding = plan.run().zero.sharding.clone();
        let of_list = Plan::even_if_refused(pinned.clone()).expect("a valid list");
        assert_eq!(of_list.training(), plan.training());
        assert_eq!(of_list.forecast(), plan.forecast());
        plan.units().iter().for_each(|unit| num_kinds[unit.parts[0].sharding as usize] += 1);
        if Plan::new(run.clone()).is_ok() {
            num_trained += 1;
            let name = format!("{:?}", plan.run().zero.sharding);
            assert_bit_identical(&train(run, Mask::None), &train(pinned, Mask::None), &name);
        }
    }
    assert!(
        num_kinds.iter().all(|&number| number > 0) && num_trained > 5,
        "{num_kinds:?}, {num_trained} trained"
    );
}

/// With a residency that the run fixes the choice reckons with that one, and `level` stays below ZeRO-1; one data rank shards nothing but
/// has buffers all the same.
#[test]
fn no_residency_needs_more_than_zero_1() {
    let mut num_ranks = 0;
    for mut run in runs().into_iter().step_by(3) {
        let [own, prefetch] = [run.parallel.data, run.zero.prefetch_units];
        for (data, resident_units) in [
            (own, ResidencyConfig::Strict),
            (own, ResidencyConfig::Units(2 + prefetch)),
            (own, ResidencyConfig::All),
            (own, ResidencyConfig::Level),
            (1, ResidencyConfig::Level),
        ] {
            run.parallel.data = data;
            let batch = &mut run.batch;
            batch.train_batch_size = batch.micro_batch_size * batch.num_micro_batches * data;
            let zero_1 = zero_1_peaks(&run);
            let mut auto = run.clone();
            (auto.zero.sharding, auto.zero.resident_units) = (ShardingConfig::Auto, resident_units.clone());
            let plan = Plan::new(auto).expect("no list that is chosen is refused");
            for (own, of_zero_1) in peaks(&costs(&plan)).into_iter().zip(zero_1) {
                assert!(own <= of_zero_1, "{own} of {of_zero_1} bytes, {resident_units}: {run:?}");
                num_ranks += 1;
            }
        }
    }
    assert!(num_ranks > 100, "{num_ranks} ranks");
}
