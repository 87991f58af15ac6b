//! Results shared between ranges, and lower bounds, against every range computed separately.

use std::collections::BTreeSet;

use pipezero_config::{Resources, RunFile, ZeroLevel};
use pipezero_partition::LayerGraph;

use super::*;
use crate::cut;

const RUN_FILE: &str = r#"{
  "model": {
    "family": "gpt2", "num_layers": 9, "hidden_size": 16, "num_attention_heads": 2, "seq_length": 8, "vocab_size": 256
  },
  "data": { "text": "text" },
  "parallel": { "pipeline": 3, "data": 2, "partition": "balanced" },
  "train_micro_batch_size_per_gpu": 2,
  "gradient_accumulation_steps": 4,
  "steps": 1
}"#;

/// Sizes of units, levels, recomputation, precision and tying, every value with several of the others.
const CHANGES: [&str; 14] = [
    "model.tie_embeddings=false",
    "zero_optimization.stage=1 bf16.enabled=true",
    "zero_optimization.stage=1 activation_checkpointing.enabled=true model.tie_embeddings=false",
    "zero_optimization.stage=3 zero_optimization.resident_units=[4,2,3]",
    "zero_optimization.stage=3 zero_optimization.resident_units=2 zero_optimization.unit_layers=0.5 model.tie_embeddings=false",
    "zero_optimization.stage=3 zero_optimization.resident_units=2 zero_optimization.unit_layers=2 zero_optimization.reduce=last",
    "zero_optimization.stage=3 zero_optimization.resident_units=all model.tie_embeddings=false activation_checkpointing.enabled=true",
    "zero_optimization.stage=3 zero_optimization.resident_units=strict bf16.enabled=true model={\"family\":\"mlp\",\"num_layers\":9,\"hidden_size\":16,\"seq_length\":8}",
    "train_only=[\"h[.][0-3][.]\"] zero_optimization.stage=1",
    "train_only=[\"h[.][46][.]\",\"lm_head\"] zero_optimization.stage=3 zero_optimization.resident_units=2 bf16.enabled=true",
    "train_only=[\"bias\",\"ln_\"] zero_optimization.stage=1",
    "train_only=[\"h[.][5-8][.]\"] zero_optimization.stage=1",
    "train_only=[\"h[.]4[.]mlp\",\"h[.]6[.]\"] zero_optimization.stage=3 zero_optimization.resident_units=2 activation_checkpointing.enabled=true",
    "train_only=[\"h[.]4[.]\",\"qkv\",\"lm_head\"] zero_optimization.stage=3 zero_optimization.resident_units=2 bf16.enabled=true",
];

/// Calls `judge` with the stages of every run.
fn for_every_run(judge: impl Fn(&StageBytes<'_>)) {
    for changes in CHANGES {
        let changes: Vec<String> = changes.split_whitespace().map(str::to_owned).collect();
        let file = RunFile::parse("run.json", RUN_FILE).and_then(|file| file.set(&changes));
        let (run, _) = file.and_then(|file| file.resolve(Resources::this_host())).expect("a valid run file");
        let model = run.model.build().expect("a valid model");
        let shape = MicroBatchShape { num_sequences: 2, seq_length: 8 };
        let graph = cut::graph(&run, &model, shape).expect("a chain");
        let order = programs::order(&run).expect("a valid schedule");
        let of = RunModel { run: &run, model: &model, graph: &graph, shape };
        judge(&StageBytes::new(of, &order).expect("a valid run"));
    }
}

/// The layers of every stage that may be.
fn ranges(graph: &LayerGraph) -> Vec<Range<usize>> {
    let num_blocks = graph.num_blocks();
    let start = |block: usize| if block == 0 { 0 } else { graph.block_layers(block).start };
    let end = |block: usize| {
        if block == num_blocks { graph.num_layers() } else { graph.block_layers(block).start }
    };
    let ends = |first| (first + 1..=num_blocks).map(move |last| start(first)..end(last));
    (0..num_blocks).flat_map(ends).collect()
}

#[test]
fn ranges_that_share_an_answer_need_the_same() {
    for_every_run(|bytes| {
        for layers in ranges(bytes.of.graph) {
            for stage in 0..3 {
                let own = bytes.needs(bytes.resident_units[stage], layers.clone());
                let wanted = own.fixed_bytes + own.slot_bytes * bytes.in_flight(stage, &layers);
                assert_eq!(bytes.peak(stage, layers.clone()), wanted, "stage {stage} with {layers:?}");
            }
        }
        // With the first block, with the last, with both, and by length alone.
        let num_blocks = bytes.of.graph.num_blocks();
        let budgets: BTreeSet<usize> = bytes.resident_units.iter().copied().collect();
        let num_answers = bytes.known.borrow().len();
        // Frozen blocks are not like trained ones, wherever they lie.
        assert!(
            bytes.of.run.train_only.is_some() || num_answers < 3 * num_blocks * budgets.len(),
            "{num_answers} answers"
        );
    });
}

#[test]
fn the_least_is_never_more_than_the_peak_and_grows_with_layers() {
    for_every_run(|bytes| {
        for layers in ranges(bytes.of.graph) {
            for stage in 0..3 {
                let (least, peak) = (bytes.least(stage, layers.clone()), bytes.peak(stage, layers.clone()));
                assert!(0 < least && least <= peak, "{least} of {peak}: stage {stage} with {layers:?}");
                let around = ranges(bytes.of.graph);
                for around in around.into_iter().filter(|o| o.start <= layers.start && layers.end <= o.end) {
                    assert!(least <= bytes.least(stage, around.clone()), "{layers:?} in {around:?}");
                }
            }
        }
    });
}

/// The bound is worth having: without recomputation, most of what a stage needs grows with its layers.
#[test]
fn the_least_is_near_the_peak_of_long_stages() {
    for_every_run(|bytes| {
        if bytes.of.run.checkpointing != Checkpointing::Off || bytes.of.run.zero.level == ZeroLevel::Zero3 {
            return;
        }
        let layers = 0..bytes.of.graph.num_layers();
        let (least, peak) = (bytes.least(0, layers.clone()), bytes.peak(0, layers));
        assert!(2 * least > peak, "{least} of {peak}");
    });
}
