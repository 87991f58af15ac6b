//! `"activation_checkpointing": "auto"`: the first of all that it may become that fits, each planned as a run of its own; and what a run
//! that needs it trains to.

use std::collections::BTreeSet;

use pipezero_config::{
    Checkpointing, HeadLogits, NoticeKind, PartitionConfig, ResidencyConfig, Run, UnitLayers,
    VocabularyConfig, ZeroConfig, ZeroLevel,
};
use pipezero_plan::{Bytes, Plan, PlanError};
use tests::{
    Case, Mask, Schedule, assert_as_planned, assert_bit_identical, small_run, train, train_plan, zero,
};

/// Of nine layers, in units of all sizes, on grids that hold one micro-batch or several in flight.
fn runs() -> Vec<(String, Run)> {
    let blocks = |layers| UnitLayers::of_blocks(layers).expect("units have layers");
    let (level, auto) = (ResidencyConfig::Level, ResidencyConfig::Auto);
    let mut runs = Vec::new();
    for (unit_layers, level_of_zero, resident_units) in [
        (UnitLayers::Half, ZeroLevel::Zero3, ResidencyConfig::Units(2)),
        (UnitLayers::ONE, ZeroLevel::Zero1, ResidencyConfig::Units(2)),
        (UnitLayers::ONE, ZeroLevel::Zero3, level),
        (blocks(2), ZeroLevel::Zero3, auto),
        (blocks(3), ZeroLevel::Zero0, ResidencyConfig::Units(2)),
        (UnitLayers::Stage, ZeroLevel::Zero1, ResidencyConfig::Units(2)),
    ] {
        for (pipeline, schedule, num_micro_batches) in
            [(1, Schedule::OneFOneB, 2), (2, Schedule::GPipe, 64), (3, Schedule::OneFOneB, 4)]
        {
            let zero = ZeroConfig { unit_layers, ..zero(level_of_zero, resident_units.clone(), 1) };
            let grid = Case { pipeline, data: 2, num_micro_batches, schedule, ..Case::ONE_RANK };
            let case = Case { zero, num_layers: 9, ..grid };
            let mut run = small_run(case.clone());
            run.parallel.partition = PartitionConfig::Uniform;
            runs.push((format!("{case:?}"), run.clone()));
            run.vocabulary.head_logits = None;
            runs.push((format!("{case:?}, logits left open"), run));
        }
    }
    runs
}

/// What the run may become, in the order in which it is tried: of blocks, and of logits.
fn choices(run: &Run) -> Vec<(Checkpointing, HeadLogits)> {
    use Checkpointing::{Layers, Off, Unit};
    let of_unit = match run.zero.unit_layers {
        UnitLayers::Half | UnitLayers::ONE => 1,
        UnitLayers::Blocks(layers) => layers.get(),
        UnitLayers::Stage => 9_usize.div_ceil(run.parallel.pipeline),
    };
    let smaller = [1, 2, 4, 8].into_iter().filter(|&layers| layers < of_unit).map(Layers);
    let blocks = [Off].into_iter().chain(smaller).chain([Unit]);
    let logits = match run.vocabulary.head_logits {
        Some(head_logits) => vec![head_logits],
        None => vec![HeadLogits::Keep, HeadLogits::Recompute],
    };
    blocks.flat_map(|blocks| logits.iter().map(move |&logits| (blocks, logits))).collect()
}

/// The run with this written, and with the fewest resident units.
fn written(run: &Run, (checkpointing, head_logits): (Checkpointing, HeadLogits)) -> Run {
    let zero = ZeroConfig { resident_units: ResidencyConfig::Units(2), ..run.zero.clone() };
    Run { checkpointing, vocabulary: VocabularyConfig::new(1, head_logits), zero, ..run.clone() }
}

fn left_open(run: &Run, memory_bytes: u64) -> Run {
    Run { checkpointing: Checkpointing::Auto, memory_bytes: Some(memory_bytes), ..run.clone() }
}

#[test]
fn auto_is_the_first_that_fits_with_the_fewest_resident_units() {
    let mut chosen = BTreeSet::new();
    let (mut num_refused, mut num_but_logits) = (0, 0);
    for (name, run) in runs() {
        let choices = choices(&run);
        let peak = |&choice: &_| {
            Plan::even_if_refused(written(&run, choice)).expect("a valid run").needs().rank_bytes
        };
        let peaks: Vec<u64> = choices.iter().map(peak).collect();
        for limit in peaks.iter().flat_map(|peak| [peak - 1, *peak, peak + 1]).collect::<BTreeSet<u64>>() {
            let wanted = peaks.iter().position(|&peak| peak <= limit);
            match (wanted, Plan::even_if_refused(left_open(&run, limit))) {
                (Some(wanted), Ok(plan)) => {
                    let (checkpointing, head_logits) = choices[wanted];
                    assert_eq!(plan.run().checkpointing, checkpointing, "{limit} bytes in {name}");
                    let is_kept = plan.head_logits_cost().expect("it has a head").is_kept;
                    assert_eq!(is_kept, head_logits == HeadLogits::Keep, "{limit} bytes in {name}");
                    assert!(plan.needs().rank_bytes <= limit, "{name}");
                    assert!(plan.is_recomputation_auto());
                    num_but_logits += usize::from(says_what_is_kept(&plan, &choices, &peaks));
                    chosen.insert(format!("{checkpointing:?}"));
                }
                (None, Err(PlanError::EvenRecomputed { error, recomputed, kept })) => {
                    let PlanError::RankMemory { needs_bytes, limit_bytes, .. } = *error else {
                        panic!("{error}")
                    };
                    let least = *peaks.iter().min().expect("some choice");
                    assert_eq!((needs_bytes, limit_bytes), (least, limit), "{name}");
                    let nearest = choices[peaks.iter().position(|&peak| peak == least).expect("the least")].0;
                    assert_eq!(recomputed, nearest, "{limit} bytes in {name}");
                    // Without recomputation of blocks, and with the logits as it is said.
                    let of_kept =
                        choices.iter().position(|&choice| choice == (Checkpointing::Off, kept.logits));
                    assert_eq!(kept.rank_bytes, peaks[of_kept.expect("a choice")], "{limit} bytes in {name}");
                    let said = PlanError::EvenRecomputed { error, recomputed, kept }.to_string();
                    let is_but_logits =
                        recomputed != Checkpointing::Off && kept.logits == HeadLogits::Recompute;
                    assert_eq!(
                        said.contains("with the logits recomputed and all other activations kept"),
                        is_but_logits,
                        "{said}"
                    );
                    num_refused += 1;
                }
                (wanted, plan) => panic!("{wanted:?}, {plan:?}: {limit} bytes in {name}"),
            }
        }
    }
    assert_eq!(Vec::from_iter(chosen), ["Layers(1)", "Layers(2)", "Layers(4)", "Off", "Unit"]);
    assert!(num_refused > 0 && num_but_logits > 0);
}

/// Whether what is said of a plan is of activations without logits, which must be the figure of a run that recomputes these and no block,
/// or else of one that recomputes nothing.
fn says_what_is_kept(plan: &Plan, choices: &[(Checkpointing, HeadLogits)], peaks: &[u64]) -> bool {
    let diagnostics = plan.diagnostics();
    let said =
        diagnostics.iter().map(|diagnostic| &diagnostic.text).find(|text| text.contains("activations kept"));
    let said = said.expect("it is said what auto became");
    let is_but_logits = said.contains("with the logits recomputed and all other activations kept");
    let logits = if is_but_logits { HeadLogits::Recompute } else { HeadLogits::Keep };
    let of_kept = choices.iter().position(|&choice| choice == (Checkpointing::Off, logits));
    let is_kept = plan.head_logits_cost().expect("it has a head").is_kept;
    if plan.run().checkpointing == Checkpointing::Off {
        assert_eq!(is_kept, !is_but_logits, "{said}");
    } else {
        let figure = Bytes(peaks[of_kept.expect("a choice")]);
        let is_figure =
            [figure.to_string(), format!("{} bytes", figure.0)].iter().any(|of| said.contains(of));
        assert!(is_figure, "{figure} in: {said}");
    }
    is_but_logits
}

/// Nothing that the run has could be too small, or nothing may be recomputed: off, and said.
#[test]
fn auto_without_memory_or_with_split_backwards_is_off_and_says_so() {
    let case = Case { pipeline: 2, ..Case::ONE_RANK };
    let said = |run: Run| {
        let plan = Plan::even_if_refused(run).expect("a valid run");
        assert_eq!(plan.run().checkpointing, Checkpointing::Off);
        let diagnostics =
            plan.diagnostics().into_iter().filter(|diagnostic| diagnostic.kind == NoticeKind::Auto);
        diagnostics.map(|diagnostic| diagnostic.text).collect::<Vec<_>>().concat()
    };
    let auto = small_run(Case { checkpointing: Checkpointing::Auto, ..case.clone() });
    assert!(said(auto).starts_with("false: it recomputes what does not fit `memory`"));
    let split = small_run(Case { schedule: Schedule::ZbH1, ..case.clone() });
    assert!(
        said(left_open(&split, 1 << 30))
            .starts_with("false: `parallel.schedule` runs weight gradients apart")
    );
    assert_eq!(said(small_run(case)), "");
    // What does not fit is refused with the schedule's own need.
    let needs = Plan::even_if_refused(split.clone()).expect("a valid run").needs().rank_bytes;
    let error = Plan::even_if_refused(left_open(&split, needs - 1)).expect_err("it does not fit");
    assert!(matches!(error, PlanError::RankMemory { needs_bytes, .. } if needs_bytes == needs), "{error}");
}

/// Several blocks in a unit, so that what is recomputed together differs; and the balanced split, which answers to memory too.
#[test]
fn a_run_that_needs_it_trains_within_memory_to_the_bits_of_the_run_that_says_it() {
    let two = UnitLayers::of_blocks(2).expect("units have layers");
    let zero_3 = ZeroConfig { unit_layers: two, ..zero(ZeroLevel::Zero3, ResidencyConfig::Auto, 1) };
    for (case, partition, wanted) in [
        (Case { pipeline: 1, data: 2, ..Case::ONE_RANK }, PartitionConfig::Uniform, Checkpointing::Unit),
        (
            Case {
                pipeline: 2,
                data: 2,
                num_layers: 9,
                zero: zero_3,
                schedule: Schedule::GPipe,
                ..Case::ONE_RANK
            },
            PartitionConfig::Balanced,
            Checkpointing::Layers(1),
        ),
    ] {
        let case = Case { num_micro_batches: 4, dropout: 0.1, ..case };
        let mut run = small_run(case.clone());
        (run.steps, run.parallel.partition) = (2, partition);
        let said = Run { checkpointing: wanted, ..run.clone() };
        let of = written(&run, (wanted, HeadLogits::Keep));
        let limit = Plan::even_if_refused(of).expect("a valid run").needs().rank_bytes;
        let plan = Plan::even_if_refused(left_open(&run, limit)).expect("it fits, recomputed");
        assert_eq!(plan.run().checkpointing, wanted, "{case:?}");
        assert!(plan.needs().rank_bytes <= limit, "{case:?}");
        let planned = plan.forecast();
        let trained = train_plan(plan, Mask::Uneven);
        assert_as_planned(&trained.last.measured(), &planned, &format!("{case:?}"));
        let explicit = Run { memory_bytes: Some(limit), ..said };
        assert_bit_identical(&trained, &train(explicit, Mask::Uneven), &format!("{case:?}"));
        let kept = Case {
            zero: ZeroConfig { resident_units: ResidencyConfig::Units(2), ..case.zero.clone() },
            ..case
        };
        assert_bit_identical(
            &trained,
            &train(Run { steps: 2, ..small_run(kept) }, Mask::Uneven),
            "nothing recomputed",
        );
    }
}
