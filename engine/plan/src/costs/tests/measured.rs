//! Costs files, applied to the plan that they were made of and to others.

use expect_test::expect;
use pipezero_schedule::simulate::{Costs, Links, MessageCost, UnitCosts};
use pipezero_schedule::{Instruction, Unit};

use crate::Plan;
use crate::costs::messages::{Message, Messages, counted_elements, owned_elements};
use crate::costs::whole::TIME_NS_MAX;
use crate::costs::*;
use crate::testing::{GPT2, MIXED, TIMED, by_kind, plan, sized};

/// The costs file of a plan in which everything costs what its size says, so that each figure can be recognised.
pub(super) fn file_of(plan: &Plan) -> CostsFile {
    let mut units: Vec<UnitTimes> = Vec::new();
    for (index, unit) in plan.units().iter().enumerate() {
        let (key, id) = (UnitKey::of(unit), Unit(index as u32));
        let is_same = |of: &UnitTimes| {
            (&of.layers, of.parameters, of.frozen, of.frozen_parameters)
                == (&key.layers(), key.parameters(), key.is_frozen, key.frozen_parameters())
        };
        if units.iter().any(is_same) {
            continue;
        }
        units.push(UnitTimes {
            frozen: key.is_frozen,
            frozen_parameters: key.frozen_parameters(),
            forward_ns: 1000 + key.parameters(),
            backward_ns: key.has_backward.then_some(7 * key.parameters()),
            backward_input_ns: key.has_backward.then_some(4 * key.parameters()),
            backward_weight_ns: key.has_backward.then_some(2 * key.parameters() + 1),
            recompute_ns: None,
            gradient_norm: per_element(counted_elements(plan, id), 3),
            optimizer_step: per_element(owned_elements(plan, id), 5),
            layers: key.layers(),
            parameters: key.parameters(),
        });
    }
    let world_size = plan.grid().world_size() as u64;
    CostsFile {
        version: COSTS_VERSION,
        host: Host { name: "a machine".to_owned(), cores: 2, ranks: world_size, gpus: None },
        workload: Workload::of(plan.run()),
        step_overhead_ns: 777,
        rank_slowness_ppm: RankSlowness::default(),
        units,
        messages: messages_of(plan),
    }
}

fn per_element(elements: u64, ns: u64) -> PerElement {
    PerElement { elements, ns: elements * ns }
}

fn times_of(message: &Message) -> SizedTimes {
    let bytes = message.bytes;
    sized(bytes, [10 + bytes, 2 * bytes, 50, 3 * bytes])
}

/// All sizes of every message that the program sends.
fn messages_of(plan: &Plan) -> Vec<MessageTimes> {
    let all = Messages::of(plan);
    let sent = plan.training().program().rows.iter().flatten().filter_map(|&of| all.get(of));
    by_kind(sent.map(|message| (message.kind, message.num_ranks() as u64, times_of(message))))
}

/// What the plan's program is expected to cost by [`file_of`], read off the plan and not off the file.
fn expected(plan: &Plan) -> Costs {
    let all = Messages::of(plan);
    let rows = &plan.training().program().rows;
    let message_cost = |wanted: &dyn Fn(Instruction) -> bool| {
        let instruction = rows.iter().flatten().copied().find(|&instruction| wanted(instruction));
        let Some(message) = instruction.and_then(|instruction| all.get(instruction)) else {
            return MessageCost::default();
        };
        let SizedTimes { issue_ns: issue, occupied_ns, latency_ns, landing_ns: landing, .. } =
            times_of(message);
        let [occupied, latency] = if message.num_ranks() > 1 { [occupied_ns, latency_ns] } else { [0, 0] };
        MessageCost { issue, occupied, latency, landing }
    };
    let joint = |of: MessageCost| of.issue + of.occupied + of.latency + of.landing;
    let units = (0..plan.units().len() as u32).map(Unit).map(|id| {
        let parameters = UnitKey::of(plan.unit(id)).parameters();
        UnitCosts {
            forward: 1000 + parameters,
            backward: 7 * parameters,
            backward_input: 4 * parameters,
            backward_weight: 2 * parameters + 1,
            recompute: 0,
            gradient_norm: 3 * counted_elements(plan, id),
            optimizer_step: 5 * owned_elements(plan, id),
            gather: message_cost(&|of| of == Instruction::Unshard { unit: id }),
            reduce: message_cost(&|of| matches!(of, Instruction::Reduce { unit, .. } if unit == id)),
            reduce_last: message_cost(&|of| match of {
                Instruction::ReduceLast { unit } | Instruction::AllReduce { unit } => unit == id,
                _ => false,
            }),
            gather_after_step: message_cost(&|of| of == Instruction::GatherAfterStep { unit: id }),
        }
    });
    let num_edges = plan.training().chain().num_edges();
    let edge = |index| {
        message_cost(&move |of| matches!(of, Instruction::Send { edge, .. } if edge.index() == index))
    };
    Costs {
        units: units.collect(),
        edges: (0..num_edges).map(edge).collect(),
        add_tied: joint(message_cost(&|of| matches!(of, Instruction::AddTied { .. }))),
        gradient_norm: joint(message_cost(&|of| of == Instruction::GradientNorm)),
        links: Links::Own,
    }
}

#[test]
fn a_file_of_a_plan_gives_back_what_was_measured() {
    let mut num_plans = 0;
    for tied in [false, true] {
        for (pipeline, data) in [(1, 1), (2, 2), (4, 1)] {
            for zero in ["0", "1", "3", "3 zero_optimization.reduce=last", MIXED] {
                for schedule in ["1f1b", "zb-h1", "interleaved parallel.virtual_stages=2", "zb-v"] {
                    if pipeline == 1 && schedule != "1f1b" {
                        continue;
                    }
                    // Twice as many layers, so that every rank has several units.
                    let changes = format!(
                        "model.tie_embeddings={tied} parallel.pipeline={pipeline} parallel.data={data} \
                         parallel.schedule={schedule} model.num_layers=16 zero_optimization.stage={zero}"
                    );
                    let plan = plan(GPT2, &changes);
                    let file = CostsFile::parse("costs.json", &file_of(&plan).to_json()).unwrap();
                    let predicted = for_plan(&plan, Source::Measured(&file)).unwrap();
                    assert_eq!(predicted.costs, expected(&plan), "{changes}");
                    assert_eq!((predicted.step_overhead_ns, predicted.assumptions), (777, Vec::new()));
                    num_plans += 1;
                }
            }
        }
    }
    assert_eq!(num_plans, 2 * 5 * (1 + 4 + 4));
}

/// A frozen unit takes what was measured of one, or else the input gradient of a trained one; in front of all that is trained it has no backward.
#[test]
fn frozen_units_take_input_gradients() {
    let logits = "activation_checkpointing.head_logits=keep";
    let of = |train_only: &str| plan(GPT2, &format!("{logits} {train_only}"));
    let (middle, front) = (
        of(r#"train_only=["^embedding","h[.]0","h[.]7","ln_f","lm_head"]"#),
        of(r#"train_only=["h[.]7","ln_f","lm_head"]"#),
    );
    for (file, backward) in [(file_of(&of("")), 4), (file_of(&middle), 7)] {
        let file = CostsFile::parse("costs.json", &file.to_json()).unwrap();
        for (frozen, num_trained) in [(&middle, 2), (&front, 1)] {
            let predicted = for_plan(frozen, Source::Measured(&file)).unwrap();
            assert_eq!(predicted.assumptions, Vec::new());
            for (unit, costs) in frozen.units().iter().zip(&predicted.costs.units) {
                let parameters = UnitKey::of(unit).parameters();
                let expected = match (unit.is_frozen, unit.has_backward) {
                    (_, false) => (0, 0, 0),
                    (true, true) => (backward * parameters, backward * parameters, 0),
                    (false, true) => (7 * parameters, 4 * parameters, 2 * parameters + 1),
                };
                assert_eq!((costs.backward, costs.backward_input, costs.backward_weight), expected);
                assert!(costs.forward > 0);
            }
            assert_eq!(frozen.units().iter().filter(|unit| !unit.is_frozen).count(), num_trained);
        }
    }
    // What was measured without a backward prices no other.
    let file = CostsFile::parse("costs.json", &file_of(&front).to_json()).unwrap();
    for_plan(&front, Source::Measured(&file)).unwrap();
    for_plan(&middle, Source::Measured(&file)).unwrap_err();
}

/// A unit of which a part is frozen takes what was measured of one, or else of a trained one's weight gradient the share that is trained.
#[test]
fn partly_frozen_units_take_their_share_of_a_weight_gradient() {
    let logits = "activation_checkpointing.head_logits=keep";
    let partly = plan(GPT2, &format!(r#"{logits} train_only=["bias","mlp","lm_head","wpe"]"#));
    for (file, is_own) in [(file_of(&plan(GPT2, logits)), false), (file_of(&partly), true)] {
        let file = CostsFile::parse("costs.json", &file.to_json()).unwrap();
        let predicted = for_plan(&partly, Source::Measured(&file)).unwrap();
        // What is reduced is smaller than what a trained run measured.
        assert_eq!(predicted.assumptions.is_empty(), is_own);
        for (unit, costs) in partly.units().iter().zip(&predicted.costs.units) {
            let key = UnitKey::of(unit);
            let (parameters, trained) = (key.parameters(), key.parameters() - key.frozen_parameters());
            let weight = 2 * parameters + 1;
            let own =
                if is_own { weight } else { (weight as u128 * trained as u128 / parameters as u128) as u64 };
            let expected = (7 * parameters - (weight - own), 4 * parameters, own);
            assert_eq!((costs.backward, costs.backward_input, costs.backward_weight), expected);
            assert!(0 < trained && trained < parameters);
        }
    }
}

/// Costs of halves of a layer, for plans with larger units, other grids and other levels.
#[test]
fn other_units_and_grids_are_composed_of_what_was_measured() {
    let measured = plan(GPT2, "zero_optimization.unit_layers=0.5");
    let file = file_of(&measured);
    for unit_layers in ["1", "2", "3"] {
        let plan = plan(GPT2, &format!("zero_optimization.unit_layers={unit_layers} parallel.data=4"));
        let predicted = for_plan(&plan, Source::Measured(&file)).unwrap();
        for (index, (unit, costs)) in plan.units().iter().zip(&predicted.costs.units).enumerate() {
            let key = UnitKey::of(unit);
            let (parameters, id) = (key.parameters(), Unit(index as u32));
            // Embedding and head belong to the first and last half.
            let num_halves = key.layers().iter().filter(|layer| layer.starts_with("h.")).count() as u64;
            assert_eq!(costs.forward, 1000 * num_halves + parameters);
            assert_eq!((costs.backward, costs.backward_input), (7 * parameters, 4 * parameters));
            assert_eq!(costs.backward_weight, 2 * parameters + num_halves);
            assert_eq!(costs.optimizer_step, 5 * owned_elements(&plan, id));
            assert_eq!(costs.gradient_norm, 3 * counted_elements(&plan, id));
        }
        if unit_layers == "1" {
            expect![[r#"
                measured with 4 ranks at work on 2 cores, and the run has 8: with more ranks than cores each has only a share of a core, so computes take longer or shorter than measured
                the unit of embedding, h.*.attn, h.*.mlp was not measured: it is the sum of 2 units
                `unshard` between 4 ranks was not measured: `unshard` between 2 ranks stands for it
                `unshard` between 2 ranks was measured with 17152 to 66688 bytes, and the run has 83968 to 85760: times are extrapolated linearly
                `reduce` between 4 ranks was not measured: `reduce` between 2 ranks stands for it
                `reduce` between 2 ranks was measured with 17152 to 66688 bytes, and the run has 83968 to 85760: times are extrapolated linearly
                the unit of h.*.attn, h.*.mlp was not measured: it is the sum of 2 units
                the unit of h.*.attn, h.*.mlp, ln_f, lm_head was not measured: it is the sum of 2 units
                `gradient_norm` between 8 ranks was not measured: `gradient_norm` between 4 ranks stands for it
            "#]]
            .assert_eq(&assumed(&plan, &file));
        }
    }
}

#[test]
fn without_measured_halves_each_is_half_of_a_backward() {
    let split = plan(GPT2, "parallel.schedule=zb-h1");
    let mut file = file_of(&split);
    for unit in &mut file.units {
        (unit.backward_ns, unit.backward_input_ns, unit.backward_weight_ns) = (Some(1001), None, None);
    }
    let predicted = for_plan(&split, Source::Measured(&file)).unwrap();
    assert_eq!(predicted.assumptions, [Assumption::Halves]);
    let unit = predicted.costs.units[1];
    assert_eq!((unit.backward_input, unit.backward_weight), (500, 501));
    // A whole backward is both halves, and that is nothing to be assumed.
    for unit in &mut file.units {
        (unit.backward_ns, unit.backward_input_ns, unit.backward_weight_ns) = (None, Some(600), Some(300));
    }
    let predicted = for_plan(&plan(GPT2, ""), Source::Measured(&file)).unwrap();
    assert_eq!((predicted.costs.units[1].backward, predicted.assumptions), (900, Vec::new()));
}

/// What the host makes a message cost comes beside the run's links, which need no measurement.
#[test]
fn emulated_links_are_added_to_what_was_measured() {
    let file = file_of(&plan(GPT2, ""));
    let far = "comm.links.near.gb_per_s=0.5 comm.links.near.latency_us=9 comm.links.shared=true";
    let plan = plan(GPT2, far);
    let predicted = for_plan(&plan, Source::Measured(&file)).unwrap();
    assert_eq!(predicted.costs.links, Links::SharedByCollectives);
    let bytes = 4 * plan.units()[1].gradient_len() as u64;
    let message_cost = MessageCost {
        issue: 10 + bytes,
        occupied: 2 * bytes + 2 * bytes / 2,
        latency: 9050,
        landing: 3 * bytes,
    };
    assert_eq!(predicted.costs.units[1].gather, message_cost);
    assert!(predicted.assumptions.is_empty());
}

/// What is assumed of a plan by a file, line by line.
fn assumed(plan: &Plan, file: &CostsFile) -> String {
    let predicted = for_plan(plan, Source::Measured(file)).unwrap();
    predicted.assumptions.iter().map(|assumption| format!("{assumption}\n")).collect()
}

#[test]
fn messages_that_are_like_others_take_their_costs_and_say_so() {
    let mut file = file_of(&plan(GPT2, "parallel.data=4"));
    let mut found = assumed(&plan(GPT2, ""), &file);
    file.host.ranks = 4;
    found += &assumed(&plan(GPT2, "zero_optimization.stage=1"), &file);
    file.messages.retain(|times| times.kind != MessageKind::Gradient);
    found += &assumed(&plan(GPT2, "zero_optimization.stage=0"), &file);
    expect![[r#"
        measured with 8 ranks at work on 2 cores, and the run has 4: with more ranks than cores each has only a share of a core, so computes take longer or shorter than measured
        `unshard` between 2 ranks was not measured: `unshard` between 4 ranks stands for it
        `reduce` between 2 ranks was not measured: `reduce` between 4 ranks stands for it
        `gradient_norm` between 4 ranks was not measured: `gradient_norm` between 8 ranks stands for it
        `reduce_last` between 2 ranks was not measured: `reduce` between 4 ranks stands for it
        `gather_after_step` between 2 ranks was not measured: `unshard` between 4 ranks stands for it
        `gradient_norm` between 4 ranks was not measured: `gradient_norm` between 8 ranks stands for it
        `all_reduce` between 2 ranks was not measured: `reduce` between 4 ranks stands for it
        `gradient` between 2 ranks was not measured: `activation` between 2 ranks stands for it
        `gradient_norm` between 4 ranks was not measured: `gradient_norm` between 8 ranks stands for it
    "#]]
    .assert_eq(&found);
}

/// Beyond the measured sizes times are extrapolated linearly, which is reported once for each message; between two sizes it is not.
#[test]
fn sizes_beyond_the_measured_ones_are_reported() {
    let plan = plan(GPT2, "");
    let complete = file_of(&plan);
    let with_sizes_of = |kept: &dyn Fn(usize, usize) -> bool| {
        let mut file = complete.clone();
        for times in file.messages.iter_mut().filter(|times| times.kind == MessageKind::Unshard) {
            let num_sizes = times.sizes.len();
            let mut index = 0..;
            times.sizes.retain(|_| kept(index.next().unwrap(), num_sizes));
        }
        assumed(&plan, &file)
    };
    assert_eq!(with_sizes_of(&|_, _| true), "");
    assert_eq!(with_sizes_of(&|index, num_sizes| index == 0 || index + 1 == num_sizes), "");
    expect![[r#"
        `unshard` between 2 ranks was measured with 50816 bytes, and the run has 83840 to 85632: times are extrapolated linearly
        `unshard` between 2 ranks was measured with 85632 bytes, and the run has 50816 to 83840: times are extrapolated linearly
        `unshard` between 2 ranks was measured with 83840 bytes, and the run has 50816 to 85632: times are extrapolated linearly
    "#]]
    .assert_eq(
        &[
            with_sizes_of(&|index, _| index == 0),
            with_sizes_of(&|index, num_sizes| index + 1 == num_sizes),
            with_sizes_of(&|index, _| index == 1),
        ]
        .concat(),
    );
}

#[test]
fn what_a_file_does_not_hold_is_an_error() {
    let [file, alone, timed] =
        [(GPT2, ""), (GPT2, "parallel.data=1"), (TIMED, "")].map(|(of, changes)| file_of(&plan(of, changes)));
    let recomputing = "activation_checkpointing.enabled=true";
    let without = file_of(&plan(GPT2, recomputing));
    let cases = [
        (&file, GPT2, "model.hidden_size=64 train_micro_batch_size_per_gpu=1"),
        (&file, GPT2, "bf16.enabled=true threads=2 optimizer.type=SGD optimizer.params.lr=1"),
        (&file, GPT2, recomputing),
        (&file, GPT2, "model.dropout=0.1"),
        (&file, GPT2, "data.document_attention=true"),
        (&file, GPT2, "device=cuda"),
        (&file, GPT2, "zero_optimization.unit_layers=0.5"),
        // What moved nothing stands for no message.
        (&alone, GPT2, ""),
        (&timed, GPT2, ""),
        (&timed, TIMED, "model.forward_ms=2"),
        (&without, GPT2, recomputing),
    ];
    let errors = cases.map(|(file, of, changes)| {
        format!("{}\n", for_plan(&plan(of, changes), Source::Measured(file)).unwrap_err())
    });
    expect![[r#"
        the costs are of another model: `model.gpt2.hidden_size` is 32 there and 64 in the run, `micro_batch_size` is 2 there and 1 in the run; measure this one with `pipezero profile`, or leave `--costs` out
        the costs are of another model: `precision` is "f32" there and "bf16" in the run, `optimizer` is "AdamW" there and "SGD" in the run, `threads` is 1 there and 2 in the run; measure this one with `pipezero profile`, or leave `--costs` out
        the costs are of another model: `activation_checkpointing` is "off" there and "unit, logits" in the run; measure this one with `pipezero profile`, or leave `--costs` out
        the costs are of another model: `model.gpt2.dropout` is false there and true in the run; measure this one with `pipezero profile`, or leave `--costs` out
        the costs are of another model: `document_attention` is false there and true in the run; measure this one with `pipezero profile`, or leave `--costs` out
        the costs are of another device: `device` is "cpu" there and "cuda" in the run; measure this one with `pipezero profile`, or leave `--costs` out
        the costs file has no unit of embedding, h.*.attn with 12992 parameters, nor units to compose it of (it has embedding, h.*.attn, h.*.mlp with 21408 parameters; h.*.attn, h.*.mlp with 12704 parameters; h.*.attn, h.*.mlp, ln_f, lm_head with 20960 parameters): measure a run whose units are as large or smaller (`zero_optimization.unit_layers`)
        the costs file has no message like `unshard` between 2 ranks: measure a run on a grid with such messages, with `pipezero profile`
        the costs are of another model: `model` is "timed" there and "gpt2" in the run, `seq_length` is 8 there and 16 in the run, `micro_batch_size` is 1 there and 2 in the run; measure this one with `pipezero profile`, or leave `--costs` out
        the costs are of another model: `model.timed.forward_ns` is 1000000 there and 2000000 in the run, `model.timed.recompute_ns` is 1000000 there and 2000000 in the run; measure this one with `pipezero profile`, or leave `--costs` out
        the costs file has no `recompute_ns` of the unit of embedding, h.*.attn, h.*.mlp: measure this run with `pipezero profile`
    "#]]
    .assert_eq(&errors.concat());
}

/// Times within a file's bounds may still add up to more than a step can take.
#[test]
fn costs_that_cannot_be_added_up_are_an_error() {
    let plan = plan(GPT2, "gradient_accumulation_steps=4000");
    let mut file = file_of(&plan);
    for unit in &mut file.units {
        unit.forward_ns = TIME_NS_MAX;
    }
    let predicted = for_plan(&plan, Source::Measured(&file)).unwrap();
    let error = Step::new(&plan, &predicted).unwrap_err();
    assert!(matches!(error, PredictError::Costs(_)), "{error}");
}
