//! Lists of what is sharded, persistent and whole: each parameter's reduction policy decides its bits, and nothing else.

use std::collections::HashMap;

use pipezero_config::{
    HeadLogits, Precision, ReductionPolicy, ResidencyConfig, ShardingConfig, ShardingRule, UnitLayers,
    UnitSharding, VocabularyConfig, ZeroConfig, ZeroLevel,
};
use pipezero_plan::{Plan, PlanError, UnmatchedNames};
use tests::features::GRIDS;
use tests::{Case, Mask, Sample, Trained, assert_bit_identical, pairwise, small_run, train, zero};

fn rules(list: &[&str]) -> ShardingConfig {
    let rule = |text: &&str| {
        let (kind, pattern) = text.split_once(':').expect("a kind and a pattern");
        let sharding = match kind {
            "whole" => UnitSharding::Whole,
            "persistent" => UnitSharding::Persistent,
            _ => UnitSharding::Sharded,
        };
        ShardingRule { sharding, pattern: pattern.to_owned() }
    };
    ShardingConfig::Listed(list.iter().map(rule).collect())
}

/// Of units of half a block and tables in two slices.
const LISTS: [&[&str]; 11] = [
    &["whole:."],
    &["whole:wte|lm_head"],
    &["persistent:wte|lm_head", r"whole:attn|wpe"],
    &["whole:.", r"sharded:h\.[24]\.", r"persistent:h\.1\."],
    &[r"whole:mlp|ln_f"],
    &[r"persistent:."],
    // Units of two kinds, and of three.
    &["persistent:bias|ln_"],
    &["whole:bias|ln_"],
    &[r"whole:mlp\..*weight|proj", "persistent:bias"],
    &["persistent:.", r"whole:bias|wte|h\.2\."],
    &[r"whole:wte|lm_head|attn|wpe", r"persistent:h\.\d+\.mlp\..*weight", r"sharded:h\.3\."],
];

/// A value of each list: grid, list, residency, precision, whether the head is tied, data degree.
const SIZES: [usize; 6] = [GRIDS.len(), LISTS.len(), 3, 2, 2, 3];

fn case_of([grid, list, residency, precision, tied, data]: [usize; 6]) -> Case {
    let (pipeline, schedule) = GRIDS[grid];
    let (residency, prefetch) =
        [(ResidencyConfig::Strict, 1), (ResidencyConfig::Units(2), 0), (ResidencyConfig::Level, 1)]
            [residency]
            .clone();
    let sharding = rules(LISTS[list]);
    let zero =
        ZeroConfig { sharding, unit_layers: UnitLayers::Half, ..zero(ZeroLevel::Zero3, residency, prefetch) };
    Case {
        pipeline,
        schedule,
        data: data + 1,
        num_micro_batches: 5,
        num_layers: 12,
        tied: tied == 1,
        precision: [Precision::F32, Precision::Bf16][precision],
        vocab_size: 2100,
        vocabulary: VocabularyConfig::new(2, HeadLogits::Keep),
        zero,
        ..Case::ONE_RANK
    }
}

fn run(case: Case) -> Trained {
    let mut run = small_run(case);
    run.steps = 3;
    train(run, Mask::Uneven)
}

#[test]
fn a_list_gives_the_same_bits_on_every_grid() {
    let mut references: HashMap<String, Trained> = HashMap::new();
    let mut sample =
        Sample::one_in(4, "grid x list x residency, to the bits of one pipeline rank with that list");
    for choice in pairwise(SIZES).into_iter().filter(|_| sample.takes_next()) {
        let case = case_of(choice);
        let strict = zero(ZeroLevel::Zero3, ResidencyConfig::Strict, 0);
        let reference = Case {
            zero: ZeroConfig {
                sharding: case.zero.sharding.clone(),
                unit_layers: UnitLayers::Half,
                ..strict
            },
            ..case.clone().reference()
        };
        let reference = Case { vocabulary: case.vocabulary, ..reference };
        let wanted = references.entry(format!("{reference:?}")).or_insert_with(|| run(reference.clone()));
        assert_bit_identical(&run(case.clone()), wanted, &format!("{case:?}"));
    }
}

/// Everything whole is ZeRO-1, everything persistent is reduced as the policy says, and so are parameters that no entry names.
#[test]
fn a_parameter_is_reduced_as_its_entry_says() {
    for data in [1, 2, 3] {
        let case = |list: &[&str]| Case {
            zero: ZeroConfig { sharding: rules(list), ..case_of([2, 0, 0, 0, 0, 0]).zero },
            data,
            ..case_of([2, 0, 0, 0, 0, 0])
        };
        let of_policy = |reduce| {
            let zero = ZeroConfig { reduce, ..case(&[]).zero };
            run(Case { zero, ..case(&[]) }.reference())
        };
        let (last, every) = (of_policy(ReductionPolicy::Last), of_policy(ReductionPolicy::Every));
        assert_bit_identical(&run(case(&["whole:."])), &last, "everything whole");
        assert_bit_identical(&run(case(&["persistent:."])), &every, "everything persistent");
        assert_bit_identical(&run(case(&["whole:.", "sharded:."])), &every, "the last entry decides");
        assert_bit_identical(&run(case(&["persistent:bias|mlp"])), &every, "units in parts");
    }
}

/// After one step without clipping, in which parameters do not meet each other: those that an entry makes whole have the bits of one reduction a
/// step, and those beside them in the same units those of one for each micro-batch.
#[test]
fn a_unit_of_several_kinds_reduces_each_of_its_parameters_as_its_entry_says() {
    for data in [2, 3] {
        let stepped = |list: &[&str], reduce| {
            let case = case_of([2, 0, 0, 0, 0, 0]);
            let zero = ZeroConfig {
                sharding: rules(list),
                reduce,
                unit_layers: UnitLayers::ONE,
                ..case.zero.clone()
            };
            let mut run = small_run(Case { zero, data, ..case });
            (run.steps, run.gradient_clipping) = (1, 0.0);
            train(run, Mask::Uneven).weights
        };
        let [last, every] =
            [ReductionPolicy::Last, ReductionPolicy::Every].map(|reduce| stepped(&[], reduce));
        let mixed = stepped(&["whole:mlp", "persistent:bias", r"whole:h\.1\..*bias"], ReductionPolicy::Every);
        let is_whole = |name: &str| match name.contains("bias") {
            true => name.contains("h.1."),
            false => name.contains("mlp") || name.contains("ln_2"),
        };
        let (mut num_whole, mut num_unlike) = (0, 0);
        for (name, values) in &mixed {
            let wanted = if is_whole(name) { &last[name] } else { &every[name] };
            assert!(values == wanted, "{name} of {data} data ranks");
            num_whole += u32::from(is_whole(name));
            num_unlike += u32::from(last[name] != every[name]);
        }
        assert!(num_whole > 20 && num_unlike > 40, "{num_whole} are whole, and {num_unlike} depend on it");
    }
}

#[test]
fn the_name_of_a_table_means_all_its_slices() {
    let kinds = |list: &[&str]| -> Vec<Vec<UnitSharding>> {
        let case = case_of([2, 0, 0, 0, 0, 1]);
        let zero = ZeroConfig { sharding: rules(list), ..case.zero.clone() };
        let plan = Plan::new(small_run(Case { zero, ..case })).expect("a valid run");
        plan.units().iter().map(|unit| unit.parts.iter().map(|part| part.sharding).collect()).collect()
    };
    let by_table = kinds(&["whole:^lm_head$"]);
    assert_eq!(by_table, kinds(&["whole:^lm_head.[01]$"]));
    assert_eq!(by_table.concat().into_iter().filter(|&kind| kind == UnitSharding::Whole).count(), 2);
}

#[test]
fn entries_that_match_nothing_are_refused_together() {
    let case = case_of([2, 0, 0, 0, 0, 1]);
    let list = ["sharded:nothing", "whole:wte", "persistent:h.99."];
    let zero = ZeroConfig { sharding: rules(&list), ..case.zero.clone() };
    let error = Plan::even_if_refused(small_run(Case { zero, ..case })).expect_err("it is refused");
    let PlanError::ShardingRules(fault) = error else { panic!("{error}") };
    let names = ["wte.0", "wte.1", "lm_head.1"].map(str::to_owned);
    let entries = [0, 2].map(|index| (index, list[index].to_owned())).to_vec();
    assert_eq!(*fault, UnmatchedNames { entries, names });
}
