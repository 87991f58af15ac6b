//! What `"level"` saves: gathers, counted in steps that ran.

use pipezero_config::{Resources, RunFile};
use pipezero_plan::Plan;
use pipezero_run::Engine;
use pipezero_train::training_batches;

/// Data ranks: with 4, holding every unit needs less than 95% of ZeRO-1's memory.
const DATA: usize = 4;

/// Layers of a unit: so many that a stage's messages, one activation each, are small beside what its layers save.
const UNIT_LAYERS: usize = 16;

/// Elements of a gathered unit.
const UNIT_ELEMENTS: usize = 1 << 17;

/// 8 pipeline ranks of 8 equal units, where one micro-batch's activations on a rank are as large as `units` gathered units,
/// and 6% more, since each rank but the first has buffers for messages.
fn run_file(units: f64, resident_units: &str) -> RunFile {
    let activations = 1.06 * units * UNIT_ELEMENTS as f64;
    // A layer saves its input and as many elements again.
    let activation_elements = activations / (2 * 8 * UNIT_LAYERS) as f64;
    let text = format!(
        r#"{{
            "model": {{
                "family": "timed", "num_layers": {}, "seq_length": 4, "parameters_per_layer": {},
                "activation_elements": {}, "forward_ms": 0
            }},
            "parallel": {{"pipeline": 8, "data": {DATA}, "partition": "uniform"}},
            "zero_optimization": {{"stage": 3, "unit_layers": {UNIT_LAYERS}, "resident_units": {resident_units}}},
            "train_micro_batch_size_per_gpu": 1,
            "gradient_accumulation_steps": 32,
            "steps": 1
        }}"#,
        8 * 8 * UNIT_LAYERS,
        UNIT_ELEMENTS / UNIT_LAYERS,
        activation_elements as usize,
    );
    RunFile::parse("run.json", &text).expect("a run file")
}

/// All-gathers of a step on all pipeline ranks, as they were counted in one.
fn num_gathers(units: f64, resident_units: &str) -> u64 {
    let resources = Resources { memory_bytes: None, ..Resources::this_host() };
    let (plan, _) = Plan::from_file(&run_file(units, resident_units), resources).expect("a plan");
    let planned: Vec<u64> = plan.forecast().iter().map(|rank| rank.traffic.all_gather.count).collect();
    let batches = training_batches(&plan).expect("timed layers need no text");
    let mut engine = Engine::new(plan, batches).expect("it starts");
    let traffic = engine.train_batch().expect("a step").traffic();
    let counted: Vec<u64> = traffic.iter().map(|rank| rank.all_gather.count).collect();
    assert_eq!(counted, planned);
    counted.iter().step_by(DATA).sum()
}

/// Rank s has room for s micro-batches' activations more than the first, so for s * `units` more gathered units, up to all 8.
#[test]
fn the_more_activations_weigh_the_fewer_gathers_are_left() {
    let of_two = num_gathers(1.0, "2");
    assert_eq!(of_two, 3200);
    for (units, num_left, percent_fewer) in
        [(0.25, 2942, 8), (0.5, 2424, 24), (1.0, 1457, 54), (2.0, 868, 73)]
    {
        let left = num_gathers(units, "\"level\"");
        assert_eq!(
            (left, (100 * (of_two - left) + of_two / 2) / of_two),
            (num_left, percent_fewer),
            "{units}"
        );
    }
}
