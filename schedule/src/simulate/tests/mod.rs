//! The simulator against closed forms, and its parts against each other.

mod closed_forms;
mod overlap;
mod papers;

use std::format;
use std::string::ToString;
use std::vec::Vec;

use super::*;
use crate::closed_form::StageTimes;
use crate::generate::one_f_one_b;
use crate::id::PipelineRank;
use crate::instruction::Lane;
use crate::options::{LowerOptions, Residency};
use crate::order::ComputeOrder;
use crate::testing::{assert_makespans_are_closed_forms, checked};

/// A stage is one unit that takes these times, and a message a hop.
fn makespan(order: &ComputeOrder, times: StageTimes) -> u64 {
    closed_forms::played(order, [times.forward, times.backward, 0, times.hop]).0
}

#[test]
fn closed_forms_hold_exactly() {
    assert_makespans_are_closed_forms(makespan);
}

/// One rank, two units, one micro-batch: everything by hand.
#[test]
fn a_rank_spends_time_of_its_own_on_its_messages() {
    let program = checked(&one_f_one_b(1, 1).unwrap(), 2, &LowerOptions::zero_3(Residency::Strict, 0));
    let message = MessageCost { issue: 2, occupied: 10, latency: 5, landing: 3 };
    let unit = UnitCosts {
        gather: message,
        reduce: message,
        reduce_last: message,
        ..UnitCosts::of_compute(100, 100, 100)
    };
    let costs = Costs::uniform(&program, UnitCosts { gradient_norm: 7, optimizer_step: 1, ..unit }, message);
    let costs = Costs { gradient_norm: 50, ..costs };
    let timeline = simulate(&program, &costs).unwrap();
    // Each of the first three computes waits for its gather: 2 + 10 + 5 + 3. The first reduction is issued behind the
    // fourth gather, at 462, and completed at the norm, before the second one: 682 + 10 + 5 + 3 = 700.
    let computes = [(20, 120), (140, 240), (260, 460), (480, 680), (700, 764), (764, 765), (765, 766)];
    let rank = PipelineRank(0);
    let spans = program.row(rank).iter().zip(timeline.row(rank));
    let timed = spans.filter(|(of, span)| of.lane() == Lane::Compute && span.end > span.start);
    assert!(timed.map(|(_, span)| (span.start, span.end)).eq(computes));
    assert_eq!(timeline.makespan(), 766);
    assert_eq!(timeline.busy(&program, rank), 600 + 2);
    let expected = Bubble { gather: 3 * 15 + 13, handling: 4 * (2 + 3) + 2, tail: 84, ..Bubble::default() };
    assert_eq!(timeline.bubble(&program, rank), expected);
}

/// A lane is in order: whatever waits for its second message completes the first as well.
#[test]
fn messages_that_nothing_waited_for_are_completed_at_the_end() {
    let program = checked(&one_f_one_b(2, 1).unwrap(), 1, &LowerOptions::ZERO_1);
    let unit = UnitCosts::of_compute(10, 5, 5);
    let message = MessageCost { issue: 1, occupied: 4, latency: 2, landing: 3 };
    let costs = Costs::uniform(&program, unit, message);
    let timeline = simulate(&program, &costs).unwrap();
    // Each rank issues its receive first. F from 1 to 11, sent at 12, there at 18, completed by 21, F and B until 41, sent at 42,
    // there at 48, completed by 51, B until 61. Then both complete what they have sent.
    let ends = [0, 1].map(|rank| timeline.end(PipelineRank(rank)));
    assert_eq!(ends, [61 + 3, 61 + 3]);
}

#[test]
fn costs_of_another_program_are_errors() {
    let program = checked(&one_f_one_b(2, 2).unwrap(), 2, &LowerOptions::ZERO_1);
    let of = |costs: Costs| simulate(&program, &costs).unwrap_err();
    let text = |costs: Costs| of(costs).to_string();
    let fit = Costs::uniform(&program, UnitCosts::default(), MessageCost::default());
    let few_units = Costs { units: Vec::new(), ..fit.clone() };
    assert_eq!(
        text(few_units),
        "costs of 0 units for a program of 4: give one for each unit, in chain order"
    );
    let few_edges = Costs { edges: Vec::new(), ..fit.clone() };
    let up_and_down = "give two for each pair of neighbouring stages, up and down";
    assert_eq!(text(few_edges), format!("costs of 0 edges for a program of 2: {up_and_down}"));
    let unit = UnitCosts::of_compute(u64::MAX / 16, 0, 0);
    let long = Costs::uniform(&program, unit, MessageCost::default());
    assert!(simulate(&program, &long).is_ok(), "8 forwards fit");
    let long = Costs { gradient_norm: u64::MAX / 2, add_tied: 0, ..long };
    assert!(matches!(of(long), CostsError::TooLong { .. }));
}
