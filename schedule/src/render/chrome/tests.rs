//! Traces, parsed back and held to their timelines and to what viewers ask of slices and arrows.

use std::collections::BTreeMap;
use std::string::{String, ToString};
use std::vec::Vec;

use expect_test::expect;
use serde_json::Value;

use super::{Track, chrome};
use crate::check::CheckedProgram;
use crate::generate::one_f_one_b;
use crate::options::LowerOptions;
use crate::simulate::{Costs, MessageCost, Timeline, UnitCosts, simulate};
use crate::testing::{checked, generated_programs, resident, uneven_costs};

fn predicted<'a>(program: &'a CheckedProgram, timeline: &'a Timeline) -> Track<'a> {
    Track { name: "predicted", data_rank: None, program, timeline }
}

fn events(trace: &str) -> Vec<Value> {
    let trace: Value = serde_json::from_str(trace).unwrap_or_else(|error| panic!("{error}\n{trace}"));
    trace["traceEvents"].as_array().unwrap().clone()
}

fn of_phase<'a>(events: &'a [Value], phase: &'a str) -> impl Iterator<Item = &'a Value> {
    events.iter().filter(move |event| event["ph"] == phase)
}

/// A field of microseconds as nanoseconds.
fn nanoseconds(event: &Value, field: &str) -> u64 {
    (event[field].as_f64().unwrap() * 1000.0).round() as u64
}

type Thread = (u64, u64);

fn thread(event: &Value) -> Thread {
    (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap())
}

/// Of two ranks, the second.
#[test]
fn a_small_trace_in_full() {
    let program = checked(&one_f_one_b(2, 1).unwrap(), 1, &LowerOptions::ZERO_0);
    let costs = Costs::uniform(&program, UnitCosts::of_compute(1_000, 700, 301), MessageCost::of_link(20, 3));
    let timeline = simulate(&program, &costs).unwrap();
    let trace = chrome(&[predicted(&program, &timeline)], "test");
    let lines = trace.split_inclusive('\n').filter(|line| !line.contains(r#""pid":1"#));
    expect![[r#"
        {"displayTimeUnit":"ns","otherData":{"writer":"test"},"traceEvents":[
        {"ph":"M","pid":2,"tid":7,"name":"process_name","args":{"name":"predicted rank 1"}},
        {"ph":"M","pid":2,"tid":7,"name":"process_sort_index","args":{"sort_index":1}},
        {"ph":"M","pid":2,"tid":7,"name":"thread_name","args":{"name":"compute"}},
        {"ph":"M","pid":2,"tid":7,"name":"thread_sort_index","args":{"sort_index":7}},
        {"ph":"M","pid":2,"tid":8,"name":"thread_name","args":{"name":"reduce"}},
        {"ph":"M","pid":2,"tid":8,"name":"thread_sort_index","args":{"sort_index":8}},
        {"ph":"M","pid":2,"tid":9,"name":"thread_name","args":{"name":"s0>s1"}},
        {"ph":"M","pid":2,"tid":9,"name":"thread_sort_index","args":{"sort_index":9}},
        {"ph":"M","pid":2,"tid":10,"name":"thread_name","args":{"name":"s1>s0"}},
        {"ph":"M","pid":2,"tid":10,"name":"thread_sort_index","args":{"sort_index":10}},
        {"ph":"X","pid":2,"tid":7,"ts":1.023,"dur":1.000,"name":"F u1 m0","cat":"forward","cname":"thread_state_runnable","args":{"instruction":"F u1 m0","index":1,"unit":1,"micro_batch":0}},
        {"ph":"X","pid":2,"tid":7,"ts":2.023,"dur":1.001,"name":"B u1 m0","cat":"backward","cname":"thread_state_running","args":{"instruction":"B u1 m0","index":2,"unit":1,"micro_batch":0}},
        {"ph":"X","pid":2,"tid":7,"ts":3.024,"dur":1.024,"name":"GRAD_NORM","cat":"norm and tied weights","cname":"grey","args":{"instruction":"GRAD_NORM","index":5}},
        {"ph":"X","pid":2,"tid":7,"ts":4.048,"dur":0.000,"name":"STEP u1","cat":"optimizer","cname":"black","args":{"instruction":"STEP u1","index":6,"unit":1}},
        {"ph":"X","pid":2,"tid":8,"ts":3.024,"dur":0.000,"name":"ALL_REDUCE u1","cat":"reduce","cname":"bad","args":{"instruction":"ALL_REDUCE u1","index":4,"unit":1}},
        {"ph":"X","pid":2,"tid":9,"ts":1.000,"dur":0.023,"name":"RECV s0>s1 m0","cat":"transfer","cname":"thread_state_iowait","args":{"instruction":"RECV s0>s1 m0","index":0,"micro_batch":0}},
        {"ph":"f","pid":2,"tid":9,"ts":1.022,"id":2,"name":"data","cat":"data","bp":"e"},
        {"ph":"X","pid":2,"tid":10,"ts":3.024,"dur":0.020,"name":"SEND s1>s0 m0","cat":"transfer","cname":"thread_state_iowait","args":{"instruction":"SEND s1>s0 m0","index":3,"micro_batch":0}},
        {"ph":"s","pid":2,"tid":10,"ts":3.024,"id":10,"name":"data","cat":"data"}
        ]}
    "#]]
    .assert_eq(&lines.collect::<String>());
}

#[test]
fn every_instruction_is_a_slice_and_slices_of_a_thread_never_overlap() {
    let mut num_slices = 0;
    for (seed, program) in generated_programs().into_iter().enumerate() {
        let timeline = simulate(&program, &uneven_costs(&program, seed as u64)).unwrap();
        let events = events(&chrome(&[predicted(&program, &timeline)], "test"));
        let mut expected = Vec::new();
        for rank in program.ranks() {
            for (index, span) in timeline.row(rank).iter().enumerate() {
                let text = program.row(rank)[index].to_string();
                expected.push((u64::from(rank.0) + 1, index as u64, text, span.start, span.end));
            }
        }
        let (mut found, mut free) = (Vec::new(), BTreeMap::new());
        for event in of_phase(&events, "X") {
            let (pid, index) = (thread(event).0, event["args"]["index"].as_u64().unwrap());
            let text = event["args"]["instruction"].as_str().unwrap().to_string();
            let (start, length) = (nanoseconds(event, "ts"), nanoseconds(event, "dur"));
            let before = free.insert(thread(event), start + length).unwrap_or(0);
            assert!(before <= start, "{text} starts before {before}");
            found.push((pid, index, text, start, start + length));
        }
        found.sort();
        assert_eq!(found, expected);
        num_slices += found.len();
    }
    assert!(num_slices > 10_000, "{num_slices}");
}

/// A viewer ties an arrow's end to the slice of its thread that is under way at its time; if several begin then, to the
/// last before it in the file.
#[test]
fn arrows_go_from_sends_to_receives_and_from_gathers_to_their_first_reader() {
    let mut num_arrows = BTreeMap::new();
    for (seed, program) in generated_programs().into_iter().enumerate() {
        let timeline = simulate(&program, &uneven_costs(&program, seed as u64)).unwrap();
        let events = events(&chrome(&[predicted(&program, &timeline)], "test"));
        let mut latest = BTreeMap::new();
        let mut arrows: BTreeMap<u64, [Option<(u64, &str)>; 2]> = BTreeMap::new();
        for event in &events {
            let end = match event["ph"].as_str().unwrap() {
                "X" => {
                    latest.insert(thread(event), event);
                    continue;
                }
                "s" => 0,
                "f" => 1,
                _ => continue,
            };
            let (slice, at) = (latest[&thread(event)], nanoseconds(event, "ts"));
            let start = nanoseconds(slice, "ts");
            assert!(
                start <= at && at < start + nanoseconds(slice, "dur").max(1),
                "{event} is not in {slice}"
            );
            let ends = arrows.entry(event["id"].as_u64().unwrap()).or_default();
            assert!(ends[end].replace((at, slice["name"].as_str().unwrap())).is_none(), "{event}");
        }
        let is_training = program.purpose() == crate::Purpose::Training;
        for ends in arrows.into_values() {
            let [Some((from, start)), Some((to, end))] = ends else { panic!("half an arrow: {ends:?}") };
            assert!(from <= to, "{start} -> {end} goes back in time");
            let (kind, operands) = start.split_once(' ').unwrap();
            match kind {
                "SEND" => assert_eq!(end, std::format!("RECV {operands}")),
                "UNSHARD" => {
                    let reader: Vec<&str> = end.split(' ').collect();
                    assert_eq!(reader[1], operands);
                    assert!(["F", "B", "I", "R"].contains(&reader[0]), "{start} -> {end}");
                }
                _ => panic!("{start} -> {end}"),
            }
            *num_arrows.entry((kind.to_string(), is_training)).or_insert(0) += 1;
        }
        let rows = program.program().rows.iter().flatten();
        let num_starts = rows
            .filter(|of| matches!(of, crate::Instruction::Send { .. } | crate::Instruction::Unshard { .. }));
        assert_eq!(of_phase(&events, "s").count(), num_starts.count());
    }
    assert!(num_arrows.values().all(|&num| num > 100) && num_arrows.len() == 4, "{num_arrows:?}");
}

#[test]
fn tracks_stand_rank_by_rank_in_one_trace() {
    let options = LowerOptions::zero_3(resident(2), 1);
    let program = checked(&one_f_one_b(2, 3).unwrap(), 2, &options);
    let timeline = simulate(&program, &uneven_costs(&program, 1)).unwrap();
    let predicted = predicted(&program, &timeline);
    let measured = |data_rank| Track { name: "measured", data_rank: Some(data_rank), ..predicted };
    let events = events(&chrome(&[predicted, measured(0), measured(1)], "test"));
    let metadata = |name: &str| -> BTreeMap<u64, Value> {
        let named = of_phase(&events, "M").filter(|event| event["name"] == name);
        named.map(|event| (thread(event).0, event["args"].clone())).collect()
    };
    let (names, places) = (metadata("process_name"), metadata("process_sort_index"));
    let place = |pid: &u64| places[pid]["sort_index"].as_u64().unwrap();
    let sorted: BTreeMap<u64, &str> =
        names.iter().map(|(pid, name)| (place(pid), name["name"].as_str().unwrap())).collect();
    let expected = [0, 1]
        .map(|rank| std::format!("predicted rank {rank}, measured rank {rank}.0, measured rank {rank}.1"));
    assert_eq!(sorted.into_values().collect::<Vec<_>>().join(", "), expected.join(", "));
    let mut ids: Vec<_> = of_phase(&events, "s").map(|event| event["id"].as_u64().unwrap()).collect();
    let num_arrows = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), num_arrows, "arrows of different tracks have different numbers");
}

#[test]
fn any_name_of_a_track_comes_back() {
    let program = checked(&one_f_one_b(1, 1).unwrap(), 1, &LowerOptions::ZERO_0);
    let timeline = simulate(&program, &uneven_costs(&program, 1)).unwrap();
    let name = "\"C:\\runs\\new\"\n\t\u{1}\u{7f} für 模型 \u{2028}";
    let track = Track { name, ..predicted(&program, &timeline) };
    let events = events(&chrome(&[track], "test"));
    assert_eq!(events[0]["args"]["name"].as_str().unwrap(), std::format!("{name} rank 0"));
}

#[test]
fn the_longest_times_are_exact() {
    assert_eq!(super::microseconds(u64::MAX), "18446744073709551.615");
    assert_eq!(super::microseconds(1_000_007), "1000.007");
}
