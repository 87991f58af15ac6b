//! `overlap_comm`: ranks with one gradient buffer, where it is asked for and where `memory` needs it.

use std::collections::BTreeSet;

use pipezero_config::{
    Checkpointing, NoticeKind, OverlapComm, ResidencyConfig, Run, UnitLayers, ZeroConfig, ZeroLevel,
};
use pipezero_plan::Plan;
use pipezero_schedule::UnreducedGradients;
use tests::{
    Case, Mask, Schedule, assert_as_planned, assert_bit_identical, small_run, train, train_plan, zero,
};

fn overlapping(run: &Run, overlap_comm: OverlapComm) -> Run {
    Run { zero: ZeroConfig { overlap_comm, ..run.zero.clone() }, ..run.clone() }
}

/// Whole and split backwards, tied and untied, one unit and several on a rank.
fn runs() -> Vec<Run> {
    let blocks = |layers| UnitLayers::of_blocks(layers).expect("units have layers");
    let mut runs = Vec::new();
    for (unit_layers, resident_units) in [
        (UnitLayers::ONE, ResidencyConfig::Units(1)),
        (blocks(2), ResidencyConfig::Level),
        (UnitLayers::Half, ResidencyConfig::Strict),
    ] {
        for (pipeline, schedule, tied) in [
            (1, Schedule::OneFOneB, true),
            (2, Schedule::OneFOneB, true),
            (2, Schedule::ZbH1, false),
            (3, Schedule::GPipe, false),
        ] {
            let zero = ZeroConfig { unit_layers, ..zero(ZeroLevel::Zero3, resident_units.clone(), 0) };
            let grid = Case { pipeline, data: 2, num_micro_batches: 4, schedule, tied, ..Case::ONE_RANK };
            runs.push(small_run(Case { zero, num_layers: 6, ..grid }));
        }
    }
    runs
}

/// With the fewest resident units.
fn peak_bytes(run: &Run, overlap_comm: OverlapComm) -> u64 {
    let mut run = overlapping(run, overlap_comm);
    run.zero.resident_units = ResidencyConfig::Units(1);
    Plan::even_if_refused(run).expect("a valid run").needs().rank_bytes
}

#[test]
fn auto_takes_one_buffer_where_two_do_not_fit_and_one_does() {
    let mut chosen = BTreeSet::new();
    for run in runs() {
        let [two, one] = [OverlapComm::True, OverlapComm::False].map(|of| peak_bytes(&run, of));
        assert!(one < two, "{one} and {two} bytes");
        for limit in [one - 1, one, one + 1, two - 1, two, two + 1] {
            let mut left_open = overlapping(&run, OverlapComm::Auto);
            left_open.memory_bytes = Some(limit);
            match Plan::even_if_refused(left_open) {
                Err(error) => assert!(limit < one, "{limit} of {one} bytes: {error}"),
                Ok(plan) => {
                    let wanted = if limit < two { OverlapComm::False } else { OverlapComm::True };
                    assert_eq!(plan.run().zero.overlap_comm, wanted, "{limit} of {one} and {two} bytes");
                    assert!(one <= limit && plan.needs().rank_bytes <= limit);
                    let unreduced = plan.training().options().unreduced;
                    assert_eq!(unreduced == UnreducedGradients::One, wanted == OverlapComm::False);
                    assert_eq!(
                        said(&plan).contains("with one the fullest needs"),
                        wanted == OverlapComm::False
                    );
                    chosen.insert(format!("{wanted:?}"));
                }
            }
        }
        let unbound = Plan::even_if_refused(overlapping(&run, OverlapComm::Auto)).expect("a valid run");
        assert_eq!(unbound.run().zero.overlap_comm, OverlapComm::True);
        assert!(said(&unbound).contains("`memory`, which is not given"));
    }
    assert_eq!(chosen.len(), 2);
}

/// What is said of `"auto"`.
fn said(plan: &Plan) -> String {
    let of_overlap = |of: &pipezero_plan::Diagnostic| of.keys == ["zero_optimization.overlap_comm"];
    let diagnostic = plan.diagnostics().into_iter().find(of_overlap).expect("a line for \"auto\"");
    assert_eq!(diagnostic.kind, NoticeKind::Auto);
    diagnostic.text
}

/// One buffer is taken before anything is recomputed, and both where neither is enough alone.
#[test]
fn one_buffer_comes_before_recomputation() {
    let case = Case {
        pipeline: 2,
        data: 2,
        num_micro_batches: 4,
        num_layers: 6,
        zero: zero(ZeroLevel::Zero3, ResidencyConfig::Units(1), 0),
        ..Case::ONE_RANK
    };
    let run = overlapping(&small_run(case), OverlapComm::Auto);
    let needs = |overlap, checkpointing| {
        let run = Run { checkpointing, ..overlapping(&run, overlap) };
        Plan::even_if_refused(run).expect("a valid run").needs().rank_bytes
    };
    let one = needs(OverlapComm::False, Checkpointing::Off);
    let both = needs(OverlapComm::False, Checkpointing::Unit);
    assert!(both < one && one < needs(OverlapComm::True, Checkpointing::Off));
    for (limit, checkpointing) in [(one, Checkpointing::Off), (both, Checkpointing::Unit)] {
        let run = Run { checkpointing: Checkpointing::Auto, memory_bytes: Some(limit), ..run.clone() };
        let plan = Plan::even_if_refused(run).expect("it fits");
        assert_eq!(plan.run().zero.overlap_comm, OverlapComm::False, "{limit} bytes");
        assert_eq!(plan.run().checkpointing, checkpointing, "{limit} bytes");
    }
}

#[test]
fn what_auto_took_trains_to_the_same_bits_in_what_was_planned() {
    for run in runs() {
        let two = train(overlapping(&run, OverlapComm::True), Mask::Uneven);
        let mut left_open = overlapping(&run, OverlapComm::Auto);
        left_open.memory_bytes = Some(peak_bytes(&run, OverlapComm::False));
        let plan = Plan::even_if_refused(left_open).expect("one fits");
        assert_eq!(plan.run().zero.overlap_comm, OverlapComm::False);
        let one = train_plan(plan.clone(), Mask::Uneven);
        assert_bit_identical(&one, &two, "one gradient buffer");
        assert_as_planned(&one.last.measured(), &plan.forecast(), "one gradient buffer");
    }
}
