//! Probes of small grids with ranks as in a run, and of made-up times.

use std::sync::Arc;
use std::time::Duration;

use pipezero_plan::Plan;
use pipezero_plan::costs::{CostsFile, MessageKind, MessageTimes, SizedTimes, Source, for_plan};
use pipezero_plan::testing::sized;
use pipezero_run::data::Zeros;
use pipezero_run::engine::Engine;
use pipezero_run::executor::Probe;
use pipezero_schedule::Instruction;

use super::budget::Size;
use super::rounds::{self, Round};
use super::routes::Routes;
use crate::profile::facts::{Facts, MessageKey};
use crate::profile::into_file::message_times;
use crate::profile::sums::MessageTotals;
use crate::profile::{ProfileOptions, Profiler, steps, tests};
use crate::recording::Times;

/// `rest` ends with a comma, or is empty.
fn planned(model: &str, parallel: &str, zero: &str, rest: &str) -> Plan {
    let rest = format!(
        r#""parallel": {{{parallel}}}, "zero_optimization": {{{zero}}}, {rest}
        "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 4, "threads": 1"#
    );
    tests::planned(model, &rest)
}

const TIMED: &str = r#""family": "timed", "num_layers": 8, "seq_length": 4, "parameters_per_layer": 4000,
    "activation_elements": 3000, "forward_ms": 0.01"#;

const GPT2: &str = r#""family": "gpt2", "num_layers": 4, "hidden_size": 16, "num_attention_heads": 2, "seq_length": 16,
    "tie_embeddings": true"#;

const LINKS: &str = r#""comm": {"links": {"ranks_per_node": 2, "near": {"latency_us": 30, "gb_per_s": 2},
    "far": {"latency_us": 70, "gb_per_s": 1}}},"#;

const TEXT: &str = r#""data": {"text": "text.txt"},"#;

/// Grids of every sort, with all kinds of messages among them.
fn plans() -> Vec<(Plan, Vec<MessageKind>)> {
    use MessageKind::{
        Activation, AddTied, AllReduce, GatherAfterStep, Gradient, GradientNorm, Reduce, ReduceLast, Unshard,
    };
    let timed = |parallel, zero| planned(TIMED, parallel, zero, LINKS);
    let gpt2 = |parallel, zero| planned(GPT2, parallel, zero, TEXT);
    let (dp, pp, both) = (r#""data": 2"#, r#""pipeline": 4"#, r#""pipeline": 2, "data": 2"#);
    let looped = r#""pipeline": 2, "schedule": "interleaved", "virtual_stages": 2"#;
    let v_shaped = r#""pipeline": 2, "data": 2, "schedule": "zb-v""#;
    let fp16 = r#""fp16": {"enabled": true},"#;
    let of_zero_1 = [GatherAfterStep, ReduceLast, Activation, Gradient, GradientNorm];
    let of_zero_3 = [Unshard, Reduce, Activation, Gradient, AddTied, GradientNorm];
    vec![
        (timed("", r#""stage": 0"#), vec![GradientNorm]),
        (timed(dp, r#""stage": 0"#), vec![AllReduce, GradientNorm]),
        (timed(dp, r#""stage": 1"#), vec![GatherAfterStep, ReduceLast, GradientNorm]),
        (timed(dp, r#""stage": 2"#), vec![GatherAfterStep, Reduce, GradientNorm]),
        (timed(r#""data": 3"#, r#""stage": 3"#), vec![Unshard, Reduce, GradientNorm]),
        (timed(pp, r#""stage": 0"#), vec![Activation, Gradient, GradientNorm]),
        (timed(both, r#""stage": 1"#), of_zero_1.to_vec()),
        (timed(looped, r#""stage": 0"#), vec![Activation, Gradient, GradientNorm]),
        (gpt2("", r#""stage": 0"#), vec![AddTied, GradientNorm]),
        (gpt2(both, r#""stage": 3"#), of_zero_3.to_vec()),
        (gpt2(v_shaped, r#""stage": 1"#), [&of_zero_1[..], &[AddTied]].concat()),
        (planned(GPT2, both, r#""stage": 3"#, &format!("{TEXT} {fp16}")), of_zero_3.to_vec()),
    ]
}

#[test]
fn every_kind_is_probed_with_the_ranks_of_the_run() {
    let mut seen = Vec::new();
    for (plan, expected) in plans() {
        let case = format!("{:?}, {:?}", plan.run().parallel, plan.run().zero);
        let facts = Facts::new(&plan);
        let mut engine = Engine::recording(plan.clone(), Arc::new(Zeros)).unwrap();
        let mut profiler = Profiler::new(&plan);
        let options = ProfileOptions { num_warm_up_steps: 0, num_steps: 1, times_kernels: false };
        steps::record(Some(&mut profiler), &mut engine, options, &mut |_| {}).unwrap();
        let measured = profiler.finish().unwrap().costs;
        let mut costs = measured.clone();
        // So much that a busy machine leaves no size out.
        super::add_sizes(&mut engine, &facts, &mut costs, Duration::from_secs(3600)).unwrap();
        let kinds: Vec<MessageKind> = costs.messages.iter().map(|of| of.kind).collect();
        assert!(expected.iter().all(|kind| kinds.contains(kind)), "{case}: {kinds:?}");
        for (probed, measured) in costs.messages.iter().zip(&measured.messages) {
            assert_eq!((probed.kind, probed.ranks), (measured.kind, measured.ranks), "{case}");
            // The run's own figures are those of its steps.
            let own: Vec<SizedTimes> = probed.sizes.iter().filter(|size| !size.probed).copied().collect();
            assert_eq!(own, measured.sizes, "{case}");
            assert!(probed.sizes.is_sorted_by(|a, b| a.bytes < b.bytes), "{case}");
            let has_more = probed.sizes.len() > own.len();
            assert_eq!(has_more, probed.kind != MessageKind::GradientNorm, "{case}: {:?}", probed.kind);
            let [largest, largest_own] = [&probed.sizes, &own].map(|sizes| sizes.last().unwrap().bytes);
            assert!(!has_more || largest >= 4 * largest_own, "{case}: {:?}", probed.kind);
        }
        assert_eq!(CostsFile::parse("costs.json", &costs.to_json()).unwrap(), costs, "{case}");
        // A step of the run itself is predicted as it was.
        let predicted = [&measured, &costs].map(|file| for_plan(&plan, Source::Measured(file)).unwrap());
        assert_eq!(predicted[0], predicted[1], "{case}");
        // Probes leave the engine as it was.
        engine.train_batch().unwrap();
        seen.extend(kinds);
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 9, "{seen:?}");
}

/// All groups that have a message of a kind send at once, each over one of its edges.
#[test]
fn every_group_sends_once_a_round() {
    for (plan, _) in plans() {
        let facts = Facts::new(&plan);
        let pipeline_degree = plan.grid().pipeline_degree;
        let num_of = |kind| Routes::of(&facts, kind).map_or(0, |routes| routes.messages().count());
        assert_eq!(num_of(MessageKind::GradientNorm), 0);
        let num_transfers = num_of(MessageKind::Activation);
        assert_eq!(num_transfers, num_of(MessageKind::Gradient));
        // A line of ranks has an end; stages that loop or turn have none.
        let is_line = plan.training().chain().num_stages() == pipeline_degree;
        let num_pairs = if is_line { pipeline_degree - 1 } else { pipeline_degree };
        assert_eq!(num_transfers, if pipeline_degree == 1 { 0 } else { 2 * num_pairs });
        // Every send has its receive.
        for kind in [MessageKind::Activation, MessageKind::Gradient] {
            let Some(routes) = Routes::of(&facts, kind) else { continue };
            let (mut sent_to, mut received_at) = (Vec::new(), Vec::new());
            for (rank, index, message) in routes.messages() {
                match message.instruction() {
                    Instruction::Send { edge, .. } => sent_to.push(routes.receive_of(&facts, edge)),
                    Instruction::Receive { .. } => received_at.push((rank, index)),
                    instruction => panic!("{instruction}"),
                }
            }
            sent_to.sort_unstable();
            assert_eq!(sent_to, received_at);
        }
        if plan.run().zero.level == pipezero_config::ZeroLevel::Zero3 {
            assert_eq!([MessageKind::Unshard, MessageKind::Reduce].map(num_of), [pipeline_degree; 2]);
        }
    }
}

/// A rank that waits for what two data ranks reduce has it a while after its link could have brought it.
#[test]
fn collectives_are_measured_as_in_a_step() {
    let plan = planned(TIMED, r#""data": 2"#, r#""stage": 3"#, LINKS);
    let facts = Facts::new(&plan);
    let routes = Routes::of(&facts, MessageKind::Reduce).unwrap();
    // 8192 bytes, of which half is sent at 2 GB/s, take 2048 ns, and 30 us more: those that joined at 1300 arrive at 33348.
    let members = [[1000, 1100, 1110, 33_400, 33_450], [1010, 1300, 1310, 33_500, 33_520]]
        .map(|of| vec![Times::from(of)]);
    let round = Round { rows: members.to_vec() };
    let sizes = sizes_of(&facts, &routes, 8192, vec![round]);
    // The longest issue of both; latencies of 52 and 152; 50 and 20 for what arrived.
    assert_eq!(sizes, [sized(8192, [290, 0, 102, 35])]);
}

/// Only ranks that wait from before a message arrives show when it came, and of several rounds the middle half counts.
#[test]
fn transfers_are_measured_as_in_a_step() {
    let plan = planned(TIMED, r#""pipeline": 2"#, r#""stage": 0"#, LINKS);
    let facts = Facts::new(&plan);
    let routes = Routes::of(&facts, MessageKind::Activation).unwrap();
    assert!(
        matches!(routes.rows[0][..], [message] if matches!(message.instruction(), Instruction::Send { .. }))
    );
    // 4096 bytes at 2 GB/s are 2048 ns, and 30 us more.
    let sent = |later: u64| vec![Times::from([1000, 1050, 1060, 3200 + later, 3210 + later])];
    let received = |later: u64| vec![Times::from([1000, 1010, 1020, 33_148 + later, 33_178 + later])];
    let round = |later| Round { rows: vec![sent(later), received(later)] };
    let rounds = [9_000_000, 10, 30, 0].map(round);
    let sizes = sizes_of(&facts, &routes, 4096, rounds.to_vec());
    // They joined at 1050, so it could be there at 33,098; it was there 60 and 80 later in the two rounds that count.
    assert_eq!(sizes, [sized(4096, [30, 0, 70, 20])]);
}

fn sizes_of(facts: &Facts<'_>, routes: &Routes, bytes: u64, rounds: Vec<Round>) -> Vec<SizedTimes> {
    let mut totals = MessageTotals::default();
    rounds::add(facts, routes, bytes, rounds, &mut totals);
    message_times(&totals).pop().unwrap().sizes
}

/// The tied addition is measured from when the last use came to when the last went on, less what the link takes.
#[test]
fn tied_additions_are_measured_as_in_a_step() {
    let plan = planned(GPT2, r#""pipeline": 2, "data": 2"#, r#""stage": 1"#, TEXT);
    let facts = Facts::new(&plan);
    let routes = Routes::of(&facts, MessageKind::AddTied).unwrap();
    let row = |started, ended| vec![Times::from([started, started, started, ended, ended])];
    // Both ranks of data rank 0 are there from 30 to 100, those of data rank 1 from 50 to 140.
    let round = Round { rows: vec![row(10, 90), row(50, 140), row(30, 100), row(20, 130)] };
    let sizes = sizes_of(&facts, &routes, 4096, vec![round]);
    assert_eq!(sizes, [sized(4096, [0, 0, 80, 0])]);
}

#[test]
fn bytes_sent_are_in_proportion() {
    for (plan, _) in plans() {
        let facts = Facts::new(&plan);
        for &instruction in plan.training().program().rows.iter().flatten() {
            let Some(kind) = MessageKind::of(instruction) else { continue };
            let message = facts.message(instruction);
            assert_eq!(message.kind, kind);
            assert_eq!(message.with_bytes(message.bytes), *message);
            let fourfold = message.with_bytes(4 * message.bytes);
            assert_eq!((fourfold.bytes, fourfold.sent_bytes), (4 * message.bytes, 4 * message.sent_bytes));
            let key = facts.key(instruction);
            assert!(facts.num_messages(key) > 0);
            assert_eq!(facts.num_messages(MessageKey { bytes: 3, ..key }), 0);
        }
    }
}

/// Ranks that have no message of a kind begin every round with the others, and measure nothing.
#[test]
fn ranks_without_a_message_take_part() {
    let plan = planned(GPT2, r#""pipeline": 4, "data": 2"#, r#""stage": 1"#, TEXT);
    let facts = Facts::new(&plan);
    let mut engine = Engine::recording(plan.clone(), Arc::new(Zeros)).unwrap();
    let routes = Routes::of(&facts, MessageKind::AddTied).unwrap();
    let Routes { rows, element_type } = routes.clone();
    let probe = Probe { rows, element_type, num_elements: 64, num_rounds: 3 };
    let events = engine.probe(probe).unwrap();
    // Started, issued, awaited, arrived and ended on the first and the last stage.
    let num_events: Vec<usize> = events.iter().map(Vec::len).collect();
    assert_eq!(num_events, [15, 15, 0, 0, 0, 0, 15, 15]);
    let found = rounds::of_events(&facts, &routes, &events, 3);
    assert!(found.len() == 3 && found.iter().all(|round| round.took_ns() > 0));
    let numbered = found.iter().map(|round| round.rows[0][0].started_ns);
    assert!(numbered.is_sorted());
}

/// A probe never makes a run fail: a size that takes half of the longest wait over a slow link is not sent, and neither is
/// one that does not fit in memory.
#[test]
fn sizes_that_would_not_arrive_are_not_sent() {
    let slow = r#""comm": {"timeout_s": 1, "links": {"near": {"latency_us": 1000, "gb_per_s": 0.001}}},"#;
    let plan = planned(TIMED, r#""pipeline": 2"#, r#""stage": 0"#, slow);
    let facts = Facts::new(&plan);
    let routes = Routes::of(&facts, MessageKind::Gradient).unwrap();
    let fits = |facts: &Facts<'_>, bytes| {
        let on_its_link = routes.longest_on_its_link(facts, bytes);
        super::fits(facts, &routes, Size { bytes, on_its_link })
    };
    assert_eq!(routes.longest_on_its_link(&facts, 499_000), Duration::from_millis(500));
    assert!(fits(&facts, 499_000) && !fits(&facts, 499_001));
    let unhindered = planned(TIMED, r#""pipeline": 2"#, r#""stage": 0"#, "");
    let facts = Facts::new(&unhindered);
    // A send and a receive, each with what it could be copied from.
    assert_eq!(routes.num_buffers(&facts), 4);
    assert!(fits(&facts, 499_001) && !fits(&facts, 1 << 60));
}

/// The run's only size is too slow over this link to be sent twelve times, so it is not probed. Nor is a smaller one, which fits
/// but would have nothing to be compared with.
#[test]
fn a_kind_whose_own_size_takes_too_long_is_not_sent() {
    let slow = r#""comm": {"links": {"near": {"latency_us": 1, "gb_per_s": 0.00009}}},"#;
    let plan = planned(TIMED, r#""pipeline": 2"#, r#""stage": 0"#, slow);
    let facts = Facts::new(&plan);
    let routes = Routes::of(&facts, MessageKind::Activation).unwrap();
    let time = Duration::from_secs(6);
    assert!(12 * routes.longest_on_its_link(&facts, 90_000) > time);
    assert!(12 * routes.longest_on_its_link(&facts, 4096) < time);
    let sizes = vec![sized(90_000, [1, 0, 1, 1])];
    let measured = MessageTimes { kind: MessageKind::Activation, ranks: 2, sizes };
    let mut engine = Engine::recording(plan.clone(), Arc::new(Zeros)).unwrap();
    let probed = super::probe(&mut engine, &facts, &routes, &measured, time).unwrap();
    assert_eq!(probed.iter().count(), 0);
}
