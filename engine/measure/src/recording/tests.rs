//! Times that no rank can have: each rule, broken on purpose.

use pipezero_plan::Plan;
use pipezero_run::executor::{EventKind, RecordedEvent};
use pipezero_schedule::{Instruction, PipelineRank};
use serde_json::{Value, json};

use super::events::times_of_events;
use super::fault::Fault;
use super::place::Place;
use super::recorded::Recording;
use super::testing::{costs, planned, step};
use super::times::Shape;
use crate::trace::ParseError;

/// What is found wrong with a trace of which `break_it` changes the columns, given as JSON by world rank.
fn fault(plan: &Plan, break_it: impl FnOnce(&mut Value)) -> Fault {
    fault_of_step(plan, |ranks, _| break_it(ranks))
}

/// The same, of which it changes how long the step took too, at first what its longest rank took.
fn fault_of_step(plan: &Plan, break_it: impl FnOnce(&mut Value, &mut u64)) -> Fault {
    let step = step(plan, &costs(plan, 7, 2_000_000));
    let mut file: Value = serde_json::from_str(&step.to_json()).unwrap();
    let mut step_ns = step.step_ns();
    break_it(&mut file["ranks"], &mut step_ns);
    file["step_ns"] = json!(step_ns);
    match Recording::from_json(plan, &file.to_string()) {
        Err(ParseError::Fault(fault)) => fault,
        // Not `expect_err`, which prints the whole step.
        _ => panic!("nothing is found wrong with a step that was broken on purpose"),
    }
}

/// Changes every recorded time in the same way, which keeps their order.
fn change_all(ranks: &mut Value, change: impl Fn(u64) -> u64) {
    let columns =
        ranks.as_array_mut().unwrap().iter_mut().flat_map(|of| of.as_object_mut().unwrap().values_mut());
    for time in columns.flat_map(|column| column.as_array_mut().unwrap()).filter(|time| !time.is_null()) {
        *time = json!(change(time.as_u64().unwrap()));
    }
}

#[test]
fn times_that_no_step_has() {
    let plan = planned("");
    let found = fault(&plan, |ranks| change_all(ranks, |_| 0));
    assert_eq!(found, Fault::NoTime);
    for first_ns in [1, 1_000_000_000_000] {
        let found = fault(&plan, |ranks| change_all(ranks, |time| time + first_ns));
        assert_eq!(found, Fault::Origin { first_ns });
    }
    let mut makespan_ns = 0;
    let found = fault_of_step(&plan, |ranks, step_ns| {
        makespan_ns = *step_ns;
        change_all(ranks, |time| time * 1_000_000_000);
    });
    assert_eq!(found, Fault::Long { found_ns: makespan_ns * 1_000_000_000 });
    let found = fault_of_step(&plan, |_, step_ns| *step_ns = u64::MAX);
    assert_eq!(found, Fault::Long { found_ns: u64::MAX });
    for less in [1, makespan_ns] {
        let found = fault_of_step(&plan, |_, step_ns| *step_ns -= less);
        let Fault::Short { step_ns, rank_ns, .. } = found else { panic!("{found}") };
        assert_eq!((step_ns, rank_ns), (makespan_ns - less, makespan_ns));
    }
}

/// The first position of rank 0 at which such an instruction stands.
fn find(plan: &Plan, which: impl Fn(&Instruction) -> bool) -> usize {
    plan.training().row(PipelineRank(0)).iter().position(which).unwrap()
}

fn at(ranks: &Value, rank: usize, event: &str, index: usize) -> u64 {
    ranks[rank][event][index].as_u64().unwrap()
}

#[test]
fn missing_superfluous_and_uncounted_times() {
    let plan = planned("");
    let compute = find(&plan, |instruction| matches!(instruction, Instruction::Forward { .. }));
    let found = fault(&plan, |ranks| ranks[1]["ended"][compute] = Value::Null);
    assert!(
        matches!(found, Fault::Missing { place, event: "ended" } if (place.rank, place.index) == (1, compute))
    );
    let found = fault(&plan, |ranks| ranks[0]["issued"][compute] = json!(5));
    assert!(matches!(found, Fault::Unexpected { event: "issued", .. }));
    let found = fault(&plan, |ranks| drop(ranks[3]["arrived"].as_array_mut().unwrap().pop()));
    assert!(matches!(found, Fault::NumInstructions { rank: 3, event: "arrived", .. }));
    let found = fault(&plan, |ranks| drop(ranks.as_array_mut().unwrap().pop()));
    assert_eq!(found, Fault::NumRanks { found: 3, expected: 4 });
}

#[test]
fn times_out_of_order() {
    let plan = planned("");
    let compute = find(&plan, |instruction| matches!(instruction, Instruction::Forward { .. }));
    let found = fault(&plan, |ranks| {
        ranks[0]["started"][compute] = json!(at(ranks, 0, "ended", compute) + 1);
    });
    assert!(matches!(found, Fault::Backwards { events: ["started", "ended"], .. }));
    // The instruction behind begins before this one ends.
    let found = fault(&plan, |ranks| {
        ranks[0]["ended"][compute] = json!(at(ranks, 0, "started", compute + 1) + 1);
    });
    assert!(
        matches!(found, Fault::Overlap { earlier, later, .. } if (earlier.index, later.index) == (compute, compute + 1))
    );
    // A message is completed while the rank computes.
    let gather = find(&plan, |instruction| matches!(instruction, Instruction::Unshard { .. }));
    let found = fault(&plan, |ranks| {
        ranks[0]["ended"][gather] = json!(at(ranks, 0, "started", compute) + 1);
    });
    assert!(matches!(found, Fault::Overlap { .. }));
}

#[test]
fn what_is_not_waited_for() {
    let plan = planned("");
    let row = plan.training().row(PipelineRank(0));
    let is_gather = |instruction: &Instruction| matches!(instruction, Instruction::Unshard { .. });
    let gathers: Vec<usize> = (0..row.len()).filter(|&index| is_gather(&row[index])).collect();
    // All that is awaited of the first gather happens at the end of the step, after its reader and the later gathers.
    let late = |gather: usize| {
        fault(&plan, |ranks| {
            for event in ["awaited", "arrived", "ended"] {
                ranks[0][event][gather] = json!(1_u64 << 60);
            }
        })
    };
    let found = late(gathers[0]);
    assert!(
        matches!(found, Fault::LaneOrder { earlier, later } if (earlier.index, later.index) == (gathers[0], gathers[1]))
    );
    let last = gathers[gathers.len() - 1];
    let found = late(last);
    assert!(matches!(found, Fault::Dependency { waits_for, .. } if waits_for.index == last), "{found}");
}

/// The last stage has done its part of the norm long before the first one has reached it.
#[test]
fn a_norm_that_is_done_before_another_rank_joined() {
    let plan = planned("");
    let norm =
        plan.training().row(PipelineRank(1)).iter().position(|&of| of == Instruction::GradientNorm).unwrap();
    let found = fault(&plan, |ranks| ranks[3]["ended"][norm] = json!(at(ranks, 3, "awaited", norm)));
    assert!(
        matches!(found, Fault::Early { place, member, .. } if (place.rank, place.index, member.rank) == (3, norm, 0))
    );
}

#[test]
fn an_event_twice() {
    let place = Place { rank: 0, index: 3, instruction: Instruction::GradientNorm };
    let event = RecordedEvent { index: 3, kind: EventKind::Started, at_ns: 5 };
    let found = times_of_events(&[event, event], 0, 4, |_| (place, Shape::Joint)).unwrap_err();
    assert_eq!(found, Fault::Twice { place, event: "started" });
}
