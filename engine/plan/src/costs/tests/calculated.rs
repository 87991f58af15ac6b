//! Analytic costs beside closed forms.

use std::num::NonZeroU32;

use pipezero_models::ElementType;
use pipezero_schedule::simulate::Links;

use crate::costs::{
    CorePasses, CoreTimes, DeviceSpec, LayerKey, Network, NetworkLink, Predicted, Source, Step, for_plan,
};
use crate::testing::{GPT2, TIMED, plan};

const MLP: &str = "model.family=mlp model.num_attention_heads=null";

/// A device whose memory and links cost nothing.
fn device(flops_per_s: f64, link_bytes_per_s: f64) -> DeviceSpec {
    let link = NetworkLink { bytes_per_s: link_bytes_per_s, base_ns: 0.0, step_ns: 0.0 };
    DeviceSpec {
        name: "a device".to_owned(),
        half_flops_per_s: flops_per_s,
        tf32_flops_per_s: flops_per_s,
        f32_flops_per_s: flops_per_s,
        compute_share: 1.0,
        memory_bytes_per_s: f64::INFINITY,
        memory_bytes: None,
        cores: None,
        measured: None,
        network: Network { ranks_per_node: 8, near: link, far: link, shared: true },
    }
}

/// `(m + p - 1) (T_F + T_B)` with two layers of 1 + 1.5 + 0.5 ms on each rank, whatever the device computes.
#[test]
fn timed_layers_take_the_run_files_times() {
    let plan = plan(TIMED, "");
    let predicted = for_plan(&plan, Source::Analytic(&device(1.0, f64::INFINITY))).unwrap();
    let step = Step::new(&plan, &predicted).unwrap();
    assert_eq!(step.makespan_ns, (8 + 4 - 1) * 6_000_000);
    assert_eq!(step.longest_rank_span_ns, step.makespan_ns);
    assert_eq!(step.step_s(), 0.066);
    assert!((step.tokens_per_s() - 64.0 / 0.066).abs() < 1e-6);
    assert!((step.bubble_rate() - 3.0 / 11.0).abs() < 1e-12);
    assert!((step.bubble_rate_longest_rank() - 3.0 / 11.0).abs() < 1e-12);
    for rank in &step.ranks {
        assert_eq!((rank.busy_ns, rank.computed_ns), (48_000_000, 48_000_000));
        assert_eq!(rank.busy_ns + rank.bubble.total(), step.makespan_ns);
        assert_eq!(rank.exposed_comm_ns(), 0);
    }
}

#[test]
fn ranks_of_a_node_are_as_the_run_says_or_else_as_the_device_does() {
    let mut device = device(1e12, 1e9);
    device.network.far.bytes_per_s = 1e8;
    let predicted = |arguments: &str| {
        let grid = "parallel.pipeline=1 parallel.data=4 zero_optimization.stage=3";
        for_plan(&plan(GPT2, &format!("{grid} {arguments}")), Source::Analytic(&device)).unwrap()
    };
    let [of_device, of_run] = ["", "comm.ranks_per_node=2"].map(predicted);
    for (predicted, expected) in [(&of_device, 8), (&of_run, 2)] {
        assert_eq!(predicted.ranks_per_node.map(NonZeroU32::get), Some(expected));
        assert!(
            predicted.description.ends_with(&format!(", nodes of {expected} ranks")),
            "{}",
            predicted.description
        );
    }
    // Four data ranks on two nodes.
    let gather = |predicted: &Predicted| predicted.costs.units[0].gather.occupied;
    assert!(gather(&of_run) > 2 * gather(&of_device), "{} and {}", gather(&of_run), gather(&of_device));
}

/// The zero-bubble schedule runs the halves of a backward: `m T + (p - 1)(T_F + T_I - T_W)`, with 2, 3 and 1 ms.
#[test]
fn split_backwards_take_both_halves() {
    let plan = plan(TIMED, "parallel.schedule=zb-h1");
    let predicted = for_plan(&plan, Source::Analytic(&device(1.0, f64::INFINITY))).unwrap();
    assert_eq!(Step::new(&plan, &predicted).unwrap().makespan_ns, (8 * 6 + 3 * (2 + 3 - 1)) * 1_000_000);
}

/// Of 8 timed layers 2 are trained, each with 0.5 ms of weight gradient, in whole backwards and in halves. In front of them 2 have no backward, of
/// 1.5 ms.
#[test]
fn frozen_layers_have_no_weight_gradient() {
    for (schedule, pipeline) in [("1f1b", 1), ("zb-h1", 2)] {
        let changes =
            format!(r#"parallel.pipeline={pipeline} parallel.schedule={schedule} train_only=["h[.][26]$"]"#);
        let plan = plan(TIMED, &changes);
        let predicted = for_plan(&plan, Source::Analytic(&device(1.0, f64::INFINITY))).unwrap();
        let step = Step::new(&plan, &predicted).unwrap();
        let computed: u64 = step.ranks.iter().map(|rank| rank.computed_ns).sum();
        assert_eq!(computed, 8 * (8 * 2_500_000 + 2 * 500_000 - 2 * 1_500_000), "{schedule}");
    }
}

/// Of a unit of two timed layers the last is recomputed without its output, the first with it; where each layer is a
/// segment, one is recomputed by `R` and one within `B`.
#[test]
fn recomputation_is_one_more_forward_of_each_segment() {
    let common = "zero_optimization.unit_layers=2 zero_optimization.stage=3 parallel.pipeline=2 parallel.data=2 \
                  model.recompute_ms=0.25";
    let times = |segments: &str| {
        let plan = plan(TIMED, &format!("{common} {segments}"));
        let units = for_plan(&plan, Source::Analytic(&device(1.0, 1.0))).unwrap().costs.units;
        (units[0].recompute, units[0].backward)
    };
    assert_eq!(times(""), (0, 4_000_000));
    let unit = "activation_checkpointing.enabled=true";
    assert_eq!(times(unit), (1_250_000, 4_000_000));
    assert_eq!(times(&format!("{unit} activation_checkpointing.every_layers=1")), (250_000, 4_250_000));
}

/// Operations over the rate, to the nearest nanosecond: 2 N C^2 for a layer of the MLP family.
#[test]
fn computes_take_their_operations_over_the_rate() {
    for (half, element) in [(true, ElementType::Bf16), (false, ElementType::F32)] {
        let plan = plan(GPT2, &format!("{MLP} model.hidden_size=128 bf16.enabled={half}"));
        assert_eq!(plan.element_type(), element);
        let unit = for_plan(&plan, Source::Analytic(&device(1e9, 1.0))).unwrap().costs.units[1];
        let forward = 2 * (2 * 16) * 128 * 128;
        assert_eq!((unit.forward, unit.backward_input, unit.backward_weight), (forward, forward, forward));
        assert_eq!((unit.backward, unit.recompute, unit.optimizer_step), (2 * forward, 0, 0));
    }
}

/// TF32 is for products with weights. Where these cost nothing, what is left of a block is its attention, `4 N T C` operations on two
/// sequences of 16.
#[test]
fn tf32_leaves_attention_in_f32() {
    let device = DeviceSpec { tf32_flops_per_s: f64::INFINITY, ..device(1e9, 1.0) };
    let forward = |tf32: bool| {
        let plan = plan(GPT2, &format!("device=cuda tf32={tf32} model.hidden_size=128"));
        for_plan(&plan, Source::Analytic(&device)).unwrap().costs.units[1].forward
    };
    let (tokens, attention) = (2 * 16, 4 * (2 * 16) * 16 * 128);
    assert_eq!(forward(true), attention);
    assert_eq!(forward(false), attention + 2 * tokens * 12 * 128 * 128);
}

/// A gather hides behind a forward from `(d - 1)/d FLOPS / BW` tokens of a micro-batch on, in bf16, whatever the unit's size;
/// behind a backward, with a reduction in f32 on the same link, from 1.5 times as many.
#[test]
fn gathers_hide_from_the_tokens_that_theory_says() {
    let (flops_per_s, bytes_per_s) = (4e12, 1e10);
    for data in [2, 4, 8] {
        let threshold = f64::from(data - 1) / f64::from(data) * flops_per_s / bytes_per_s;
        for unit_layers in [1, 2, 4] {
            // A bias of C beside C^2 weights, and padding: 1 part in 500.
            for (share, hides) in
                [(0.99, [false, false]), (1.01, [true, false]), (1.49, [true, false]), (1.51, [true, true])]
            {
                let tokens = (share * threshold).round() as u64;
                let changes = format!(
                    "{MLP} model.hidden_size=512 model.num_layers=12 model.seq_length=1 parallel.pipeline=1 bf16.enabled=true \
                     parallel.data={data} train_micro_batch_size_per_gpu={tokens} zero_optimization.unit_layers={unit_layers}"
                );
                let plan = plan(GPT2, &changes);
                let costs =
                    for_plan(&plan, Source::Analytic(&device(flops_per_s, bytes_per_s))).unwrap().costs;
                assert_eq!(costs.links, Links::SharedByCollectives);
                let unit = costs.units[1];
                let found = [
                    unit.gather.occupied <= unit.forward,
                    unit.gather.occupied + unit.reduce.occupied <= unit.backward,
                ];
                assert_eq!(
                    found, hides,
                    "{data} data ranks, units of {unit_layers}, {share} of the threshold"
                );
            }
        }
    }
}

#[test]
fn memory_bounds_what_computes_little() {
    let slow = DeviceSpec { memory_bytes_per_s: 1e9, ..device(f64::INFINITY, 1.0) };
    let plan = plan(GPT2, "");
    let costs = for_plan(&plan, Source::Analytic(&slow)).unwrap().costs;
    let owned = plan.units()[1].trained_shard_len() as u64;
    // AdamW in f32, a byte a nanosecond: gradient, weight and two moments read, weight and moments written; the norm reads
    // the gradient.
    assert_eq!(costs.units[1].optimizer_step, owned * 4 * (1 + 1 + 2 + 1 + 2));
    assert_eq!(costs.units[1].gradient_norm, owned * 4);
    // Of two shards one is copied in; one is added.
    assert_eq!(costs.units[1].gather.issue, 2 * owned * 4);
    assert_eq!(costs.units[1].reduce.landing, 3 * owned * 4);
}

#[test]
fn links_of_the_run_file_come_before_those_of_the_device() {
    let plan = plan(GPT2, "comm.links.near.gb_per_s=1 comm.links.near.latency_us=3");
    let predicted = for_plan(&plan, Source::Analytic(&device(1.0, 1.0))).unwrap();
    let shard_bytes = 4 * plan.units()[1].trained_shard_len() as u64;
    let gather = predicted.costs.units[1].gather;
    assert_eq!((gather.occupied, gather.latency), (shard_bytes, 3000));
    assert_eq!(predicted.costs.links, Links::Own);
    assert!(
        predicted.description.ends_with("the run's links, nodes of 4 ranks"),
        "{}",
        predicted.description
    );
}

/// NCCL's latencies: a base, and a step for each rank that a ring passes, twice for an all-reduce.
#[test]
fn latency_grows_with_the_steps_of_a_collective() {
    let link = NetworkLink { bytes_per_s: f64::INFINITY, base_ns: 100.0, step_ns: 10.0 };
    let base = device(1.0, 1.0);
    let device = DeviceSpec { network: Network { near: link, far: link, ..base.network }, ..base };
    let latency = |changes: &str| {
        let plan = plan(GPT2, &format!("parallel.data=4 {changes}"));
        let costs = for_plan(&plan, Source::Analytic(&device)).unwrap().costs;
        let reductions = [costs.units[1].reduce, costs.units[1].reduce_last].map(|cost| cost.latency);
        (reductions, costs.edges[0].latency, costs.gradient_norm)
    };
    // The words of eight ranks go three steps up a tree and three down.
    assert_eq!(latency(""), ([130, 0], 110, 160));
    assert_eq!(latency("zero_optimization.stage=0"), ([0, 160], 110, 160));
}

/// Those that were not take their operations at the measured rate.
#[test]
fn layers_that_were_measured_take_what_they_took() {
    let plan = plan(GPT2, "");
    let layers = plan.units()[1].unit.layers();
    let passes = CorePasses { forward_ns: 1_000.0, backward_input_ns: 700.0, backward_weight_ns: 400.0 };
    let of = |layers: &[std::sync::Arc<dyn pipezero_models::Layer>]| {
        let layers = layers.iter().map(|layer| (LayerKey::of(&**layer), passes)).collect();
        let core = CoreTimes { layers, flops_per_s: 2e9, num_at_work: 1, copied_bytes_per_s: f64::INFINITY };
        let device = DeviceSpec { cores: Some(4), ..DeviceSpec::this_cpu() }.with_measured(core);
        for_plan(&plan, Source::Analytic(&device)).unwrap().costs.units
    };
    let num_layers = layers.len() as u64;
    let measured = of(layers);
    // Every block is of the same two kinds.
    for unit in &measured[1..3] {
        assert_eq!((unit.forward, unit.backward), (1_000 * num_layers, 1_100 * num_layers));
        assert_eq!((unit.backward_input, unit.backward_weight), (700 * num_layers, 400 * num_layers));
    }
    let flops: u64 = layers.iter().map(|layer| layer.forward_flops(plan.micro_batch_shape())).sum();
    assert!(of(&[])[1].forward.abs_diff(flops / 2) <= 1);
}
