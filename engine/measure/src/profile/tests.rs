//! Costs out of a recording, against the costs that it was made with: what the simulator plays is what a machine without noise
//! would record, and profiling that is to give back what was played, to the nanosecond.

use std::collections::BTreeMap;

use pipezero_plan::Plan;
use pipezero_plan::costs::{
    CostsFile, Host, MessageKind, PerElement, RankSlowness, SizedTimes, Source, UnitTimes, Workload,
    counted_elements, for_plan, owned_elements,
};
use pipezero_plan::testing::{by_kind, plan, sized};
use pipezero_schedule::simulate::{Costs, Timeline, simulate};

use super::facts::{Facts, MessageKey};
use super::into_file::costs_file;
use crate::recording::testing::{times, unchecked};
use crate::recording::{Recording, Times};

pub(super) fn planned(model: &str, rest: &str) -> Plan {
    let text = format!(
        r#"{{"model": {{{model}}}, {rest}, "optimizer": {{"type": "AdamW", "params": {{"lr": 0.01}}}}, "steps": 1}}"#
    );
    plan(&text, "")
}

const TIMED: &str = r#""family": "timed", "num_layers": 8, "seq_length": 4, "parameters_per_layer": 4000,
    "activation_elements": 3000, "forward_ms": 1"#;

const GPT2: &str = r#""family": "gpt2", "num_layers": 8, "hidden_size": 16, "num_attention_heads": 2, "seq_length": 16,
    "tie_embeddings": true"#;

const LINKS: &str = r#""comm": {"links": {"ranks_per_node": 4, "near": {"latency_us": 30, "gb_per_s": 0.02},
    "far": {"latency_us": 700, "gb_per_s": 0.01}}}"#;

const SHARED: &str = r#""comm": {"links": {"near": {"latency_us": 30, "gb_per_s": 0.02}, "shared": true}}"#;

/// Runs of every kind of instruction.
fn plans() -> Vec<Plan> {
    let text = r#""data": {"text": "text.txt"}"#;
    let mut plans = Vec::new();
    for links in [LINKS, SHARED, text] {
        for (parallel, zero) in [
            (r#""pipeline": 1, "data": 1"#, r#""stage": 0"#),
            (r#""pipeline": 1, "data": 2"#, r#""stage": 3, "resident_units": "strict", "prefetch_units": 0"#),
            (r#""pipeline": 4, "data": 1"#, r#""stage": 0"#),
            (r#""pipeline": 2, "data": 2, "schedule": "gpipe""#, r#""stage": 0"#),
            (r#""pipeline": 4, "data": 2"#, r#""stage": 1"#),
            (r#""pipeline": 1, "data": 4"#, r#""stage": 2"#),
            (r#""pipeline": 4, "data": 2"#, r#""stage": 3, "resident_units": "strict", "prefetch_units": 1"#),
            (r#""pipeline": 2, "data": 2, "schedule": "zb-h1""#, r#""stage": 3, "reduce": "last""#),
            (r#""pipeline": 2, "data": 2, "schedule": "zb-v""#, r#""stage": 1"#),
            (r#""pipeline": 2, "data": 2, "schedule": "interleaved", "virtual_stages": 2"#, r#""stage": 3"#),
            (
                r#""pipeline": 2, "data": 2"#,
                r#""stage": 3, "unit_layers": 2, "parameters": ["whole:h[.][0246]"]"#,
            ),
        ] {
            for checkpointing in [false, true] {
                if checkpointing && parallel.contains("zb") {
                    continue;
                }
                let rest = format!(
                    r#"{links}, "parallel": {{{parallel}, "partition": "uniform"}}, "zero_optimization": {{{zero}}},
                    "activation_checkpointing": {{"enabled": {checkpointing}}}, "train_micro_batch_size_per_gpu": 1,
                    "gradient_accumulation_steps": 4"#
                );
                plans.push(planned(if links == text { GPT2 } else { TIMED }, &rest));
            }
        }
    }
    plans
}

/// Times that differ from one another, from a linear congruence (Knuth's MMIX), in a range.
struct Random(u64);

impl Random {
    fn next(&mut self, least: u64, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        least + (self.0 >> 33) % (most - least)
    }
}

/// A costs file of everything that a plan does, with times of our own.
fn file_for(facts: &Facts<'_>) -> CostsFile {
    let mut random = Random(7);
    let units = (0..facts.keys.len()).map(|key| {
        let unit = facts.first_of(key);
        let (counted, owned) = (counted_elements(facts.plan, unit), owned_elements(facts.plan, unit));
        let (number, key) = (key as u64, &facts.keys[key]);
        let mut compute = || Some(random.next(200_000, 900_000));
        let mut of_backward = || compute().filter(|_| key.has_backward);
        let backward = [(); 3].map(|()| of_backward());
        UnitTimes {
            frozen: key.is_frozen,
            frozen_parameters: key.frozen_parameters(),
            layers: key.layers(),
            parameters: key.parameters(),
            forward_ns: compute().unwrap(),
            backward_ns: backward[0],
            backward_input_ns: backward[1],
            backward_weight_ns: backward[2],
            recompute_ns: compute(),
            // One rate, since a norm is not recorded unit by unit.
            gradient_norm: PerElement { elements: counted, ns: 3 * counted },
            // What is frozen has none.
            optimizer_step: PerElement {
                elements: owned,
                ns: if owned == 0 { 0 } else { 5 * owned + number },
            },
        }
    });
    let units = units.collect();
    let mut messages: BTreeMap<MessageKey, SizedTimes> = BTreeMap::new();
    for instruction in facts.program().program().rows.iter().flatten().copied() {
        let Some(kind) = MessageKind::of(instruction) else { continue };
        let (key, joins) = (facts.key(instruction), kind.is_joint());
        let alone = key.ranks == 1;
        messages.entry(key).or_insert_with(|| {
            let issue = if joins && !alone { 0 } else { random.next(1_000, 40_000) };
            let latency = if alone { 0 } else { random.next(20_000, 90_000) };
            sized(key.bytes, [issue, 0, latency, if joins { 0 } else { random.next(1_000, 30_000) }])
        });
    }
    CostsFile {
        version: pipezero_plan::costs::COSTS_VERSION,
        host: Host {
            name: "none".into(),
            cores: 2,
            ranks: facts.plan.grid().world_size() as u64,
            gpus: None,
        },
        workload: Workload::of(facts.plan.run()),
        step_overhead_ns: 123_456,
        rank_slowness_ppm: RankSlowness::default(),
        units,
        messages: by_kind(messages.into_iter().map(|(key, times)| (key.kind, key.ranks, times))),
    }
}

fn played<'a>(plan: &'a Plan, costs: &Costs, timeline: &Timeline, step_overhead_ns: u64) -> Recording<'a> {
    unchecked(plan, timeline.makespan() + step_overhead_ns, times(plan, costs, timeline))
}

#[test]
fn what_was_played_is_profiled() {
    let (mut num_messages, mut num_without_delay) = (0, 0);
    let mut num_exact = 0;
    for plan in plans() {
        let case = format!("{:?}, {:?}, {:?}", plan.run().parallel, plan.run().zero, plan.run().comm.links);
        let num_without_delay_before = num_without_delay;
        let facts = Facts::new(&plan);
        let given = file_for(&facts);
        let predicted = for_plan(&plan, Source::Measured(&given)).unwrap();
        let timeline = simulate(plan.training(), &predicted.costs).unwrap();
        let step = played(&plan, &predicted.costs, &timeline, predicted.step_overhead_ns);
        let found = costs_file(&facts, &[step.clone(), step]);
        assert_eq!(found.step_overhead_ns, given.step_overhead_ns, "{case}");
        let world_size = plan.grid().world_size();
        let no_rank_is_off = RankSlowness::new([vec![[1, 1]; world_size], vec![[1, 1]; world_size]]);
        assert_eq!(found.rank_slowness_ppm, no_rank_is_off, "{case}");
        for (found, given) in found.units.iter().zip(&given.units) {
            assert_unit(found, given, &case);
        }
        for (found, given) in found.messages.iter().zip(&given.messages) {
            assert_eq!((found.kind, found.ranks), (given.kind, given.ranks), "{case}");
            for (found, given) in found.sizes.iter().zip(&given.sizes) {
                num_messages += 1;
                num_without_delay += usize::from(found.latency_ns != given.latency_ns);
                // Where no rank waited from before its arrival, a message's delay is not known.
                let delay = if found.latency_ns == 0 { 0 } else { given.latency_ns };
                assert_eq!(*found, SizedTimes { latency_ns: delay, ..*given }, "{case}");
            }
        }
        assert_eq!(found.messages.len(), given.messages.len(), "{case}");
        let again = for_plan(&plan, Source::Measured(&found)).unwrap();
        let again = simulate(plan.training(), &again.costs).unwrap();
        let (again, given) = (again.makespan(), timeline.makespan());
        if num_without_delay == num_without_delay_before {
            assert_eq!(again, given, "{case}");
            num_exact += 1;
        }
        // A delay that no rank waited for from its start is not known, but its end may still be waited for: a step is
        // predicted shorter by a few of them.
        assert!(again <= given && given - again <= given / 100, "{again} for {given}: {case}");
    }
    assert!(num_exact > 20, "only {num_exact} plans have no message without a delay");
    // Most have one that was waited for: what is compared above is not nothing.
    assert!(
        num_messages > 150 && 2 * num_without_delay < num_messages,
        "{num_without_delay} of {num_messages}"
    );
}

/// Units of the same layers, in front of all that is trained and behind, wholly and partly frozen in several ways, each have one entry.
#[test]
fn what_is_profiled_of_frozen_units_is_read_again() {
    for train_only in
        [r#""h[.]2[.]""#, r#""h[.]4[.]", "bias""#, r#""h[.]1[.].*ln_1", "h[.]2[.].*ln_2", "h[.]5[.]""#]
    {
        let rest = format!(
            r#""data": {{"text": "text.txt"}}, "parallel": {{"pipeline": 2, "data": 2}}, "zero_optimization": {{"stage": 3}},
            "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 4, "train_only": [{train_only}]"#
        );
        let plan = planned(GPT2, &rest);
        let facts = Facts::new(&plan);
        let given = file_for(&facts);
        let predicted = for_plan(&plan, Source::Measured(&given)).unwrap();
        let timeline = simulate(plan.training(), &predicted.costs).unwrap();
        let step = played(&plan, &predicted.costs, &timeline, predicted.step_overhead_ns);
        let found = costs_file(&facts, &[step.clone(), step]);
        let read = CostsFile::parse("costs.json", &found.to_json()).unwrap();
        for (found, given) in read.units.iter().zip(&given.units) {
            assert_unit(found, given, train_only);
        }
        let again = for_plan(&plan, Source::Measured(&read)).unwrap();
        let backwards =
            |of: &Costs| of.units.iter().map(|unit| (unit.forward, unit.backward)).collect::<Vec<_>>();
        assert_eq!(backwards(&again.costs), backwards(&predicted.costs), "{train_only}");
    }
}

/// What did not occur was not measured; all else is what was given.
fn assert_unit(found: &UnitTimes, given: &UnitTimes, case: &str) {
    let known = |found: Option<u64>, given: Option<u64>| found.and(given);
    let expected = UnitTimes {
        backward_ns: known(found.backward_ns, given.backward_ns),
        backward_input_ns: known(found.backward_input_ns, given.backward_input_ns),
        backward_weight_ns: known(found.backward_weight_ns, given.backward_weight_ns),
        recompute_ns: known(found.recompute_ns, given.recompute_ns),
        // Both uses of a tied weight on one rank have one step.
        optimizer_step: match found.optimizer_step {
            PerElement { elements: 0, .. } if given.layers == ["lm_head"] => PerElement::default(),
            _ => given.optimizer_step,
        },
        ..given.clone()
    };
    assert_eq!(*found, expected, "{case}");
    assert_eq!(found.has_backward(), given.has_backward(), "{case}");
}

/// Changes all times of an instruction.
fn change(of: &mut Times, by: impl Fn(u64) -> u64) {
    *of = [of.started_ns, of.issued_ns, of.awaited_ns, of.arrived_ns, of.ended_ns].map(by).into();
}

/// Of three ranks one is twice as fast in a second step, and one half as slow again.
#[test]
fn how_far_ranks_are_off_their_means_is_profiled() {
    let plan = planned(
        TIMED,
        r#""parallel": {"pipeline": 1, "data": 3}, "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 4"#,
    );
    let facts = Facts::new(&plan);
    let predicted = for_plan(&plan, Source::Measured(&file_for(&facts))).unwrap();
    let timeline = simulate(plan.training(), &predicted.costs).unwrap();
    let first = times(&plan, &predicted.costs, &timeline);
    let mut steps = [first.clone(), first];
    let scale = |row: &mut Vec<Times>, by: u64| row.iter_mut().for_each(|of| change(of, |at_ns| at_ns * by));
    steps[0].iter_mut().for_each(|row| scale(row, 2));
    steps[1].iter_mut().zip([1, 2, 3]).for_each(|(row, by)| scale(row, by));
    // So a compute takes twice its time in the mean.
    let found = costs_file(&facts, &steps.map(|times| unchecked(&plan, 0, times))).rank_slowness_ppm;
    assert_eq!(found, RankSlowness::new([vec![[2, 2]; 3], vec![[1, 2], [2, 2], [3, 2]]]));
}
