//! The example that pipezero was made for: 48 layers on 2 x 4 ranks, 3 units of 4 layers on each, 8 micro-batches. How
//! often weights are gathered and gradients reduced, and how much is gathered at once, counted while it runs.
//!
//! A stage of 12 layers gathered whole would be 3 times what one unit of 4 layers is; gathering a unit for every use
//! costs `2 * 8 * 3 = 48` all-gathers. With one unit that may stay, two uses in a row share a gather:
//! `docs/zero.md` derives 39, 37, 35 and 33.

use pipezero_comm::memory::Category;
use pipezero_config::{GptConfig, ModelConfig, ResidencyConfig, Run, UnitLayers, ZeroConfig, ZeroLevel};
use pipezero_plan::Plan;
use pipezero_plan::costs::{DeviceSpec, Source};
use pipezero_plan::what_if::Simulation;
use pipezero_run::engine::{Engine, StepReport};
use pipezero_schedule::{Instruction, MicroBatch, PipelineRank};
use tests::{Case, Mask, WeightOrder, small_gpt, small_run, started, zero};

const NUM_MICRO_BATCHES: u32 = 8;
const NUM_UNITS: usize = 3;

/// The example at a width that runs in a moment. Embedding and head are untied: they join the first and the last unit.
fn example(resident_units: ResidencyConfig, prefetch_units: usize) -> Run {
    let zero = ZeroConfig {
        unit_layers: UnitLayers::of_blocks(4).expect("4 is not 0"),
        ..zero(ZeroLevel::Zero3, resident_units, prefetch_units)
    };
    let num_micro_batches = NUM_MICRO_BATCHES as usize;
    let case = Case { pipeline: 4, data: 2, num_micro_batches, zero, ..Case::ONE_RANK };
    let model = ModelConfig::Gpt2(GptConfig {
        num_layers: 48,
        hidden_size: 8,
        num_attention_heads: 2,
        seq_length: 4,
        vocab_size: 11,
        ..small_gpt(false)
    });
    Run { model, ..small_run(case) }
}

fn run_one_step(run: Run) -> (Engine, StepReport) {
    let mut engine = started(Engine::recording, run, Mask::None);
    let report = engine.train_batch().expect("a step");
    (engine, report)
}

/// Padded bytes of the rank's largest unit: the size of one gathered copy.
fn largest_unit_bytes(engine: &Engine, rank: PipelineRank) -> u64 {
    let lens = engine.plan().units_of(rank).map(|(_, unit)| 4 * unit.gradient_len() as u64);
    lens.max().expect("a rank has units")
}

/// Bytes that one of two data ranks sends in an all-gather of every recorded copy: its shard of each.
fn gathered_bytes(engine: &Engine, order: &WeightOrder) -> u64 {
    let shard_bytes = |unit| 4 * engine.plan().unit(unit).trained_shard_len() as u64;
    order.copies.iter().map(|copy| shard_bytes(copy.unit)).sum()
}

/// Recorded reduce-scatters of one micro-batch.
fn num_reduced_for(engine: &Engine, report: &StepReport, rank: usize, wanted: MicroBatch) -> usize {
    let pipeline_rank = PipelineRank(engine.plan().grid().pipeline_rank(rank) as u32);
    let events = report.events(rank);
    let row = engine.plan().training().row(pipeline_rank);
    let is_of = |event: &&pipezero_run::executor::RecordedEvent| {
        event.kind == pipezero_run::executor::EventKind::Ended
            && matches!(row[event.index], Instruction::Reduce { micro_batch, .. } if micro_batch == wanted)
    };
    events.iter().filter(is_of).count()
}

/// Every rank: gathers by the backend's counter and by recorded order, reductions, and the most that is gathered at
/// once, by recorded order and in the ledger.
fn assert_counts((engine, report): (Engine, StepReport), num_gathers: [u64; 4], num_gathered_at_once: usize) {
    for (rank, traffic) in report.traffic().into_iter().enumerate() {
        let pipeline_rank = PipelineRank(engine.plan().grid().pipeline_rank(rank) as u32);
        assert_eq!(engine.plan().units_of(pipeline_rank).count(), NUM_UNITS);
        let order = WeightOrder::of(&engine, &report, rank);
        assert_eq!(traffic.all_gather.count, num_gathers[pipeline_rank.index()], "rank {rank}: all-gathers");
        assert_eq!(traffic.all_gather.count, order.copies.len() as u64, "rank {rank}: recorded all-gathers");
        assert_eq!(traffic.all_gather.bytes, gathered_bytes(&engine, &order), "rank {rank}");
        assert_eq!(traffic.reduce_scatter.count, 24, "rank {rank}: reduce-scatters");
        for micro_batch in (0..NUM_MICRO_BATCHES).map(MicroBatch) {
            assert_eq!(num_reduced_for(&engine, &report, rank, micro_batch), 3, "rank {rank}, {micro_batch}");
        }
        assert_eq!(order.num_held_max(), num_gathered_at_once, "rank {rank}: gathered at once");
        let gathered_bytes = num_gathered_at_once as u64 * largest_unit_bytes(&engine, pipeline_rank);
        assert_eq!(engine.ledger(rank).peak_bytes(Category::Gathered), gathered_bytes, "rank {rank}");
    }
}

/// The strict gathers of a micro-batch: every unit once forward, once backward.
fn assert_six_gathers_of_each_micro_batch((engine, report): &(Engine, StepReport)) {
    for (rank, order) in WeightOrder::of_ranks(engine, report).into_iter().enumerate() {
        for micro_batch in (0..NUM_MICRO_BATCHES).map(MicroBatch) {
            assert_eq!(order.num_gathered_for(micro_batch), 6, "rank {rank}, {micro_batch}");
        }
        assert!(order.copies.iter().all(|copy| copy.uses.len() == 1), "rank {rank}: a copy for each use");
    }
}

#[test]
fn strict_residency_gathers_48_times_and_holds_one_unit_and_those_prefetched() {
    for prefetch_units in [0, 1] {
        let step = run_one_step(example(ResidencyConfig::Strict, prefetch_units));
        assert_six_gathers_of_each_micro_batch(&step);
        assert_counts(step, [48; 4], 1 + prefetch_units);
    }
}

#[test]
fn one_resident_unit_saves_up_to_15_gathers_at_the_same_peak() {
    let step = run_one_step(example(ResidencyConfig::Units(1), 0));
    assert_counts(step, [39, 37, 35, 33], 1);
}

/// The example with such keys, in bf16 on H100s: what the fullest rank needs in GiB, and a simulated step in ms.
fn on_gpus(keys: &[&str]) -> String {
    let keys = [&["model.seq_length=1024", "bf16.enabled=true"], keys].concat();
    let plan = Plan::new(tests::example("seed-48-layers.json", &keys)).expect("a valid run");
    let device = DeviceSpec::by_name("h100").expect("a device");
    let simulation = Simulation::new(&plan, Source::Analytic(&device), None).expect("a prediction");
    let gib = plan.needs().rank_bytes as f64 / (1u64 << 30) as f64;
    format!("{gib:.2} | {:.1}", 1e3 * simulation.step().step_s())
}

/// The table of `docs/zero.md`: units of four layers beside ZeRO-1, with two gradient buffers and with one, all kept and blocks recomputed.
#[test]
fn one_gradient_buffer_saves_most_of_what_large_units_save_beside_zero_1() {
    let page = include_str!("../docs/zero.md");
    let mut missing = String::new();
    for (width, num_heads) in [(1024, 16), (4096, 32)] {
        for (recomputed, enabled) in [("nothing", false), ("blocks", true)] {
            let sizes = [
                format!("model.hidden_size={width}"),
                format!("model.num_attention_heads={num_heads}"),
                format!("activation_checkpointing.enabled={enabled}"),
            ];
            let with = |own: &str| {
                let keys: Vec<&str> = sizes.iter().map(String::as_str).chain([own]).collect();
                on_gpus(&keys)
            };
            let zero_1 = with("zero_optimization.stage=1");
            let [two, one] = [true, false].map(|of| with(&format!("zero_optimization.overlap_comm={of}")));
            let row = format!("| {width} | {recomputed} | {zero_1} | {two} | {one} |\n");
            if !page.contains(&row) {
                missing += &row;
            }
        }
    }
    assert_eq!(missing, "", "docs/zero.md does not say these rows");
}
