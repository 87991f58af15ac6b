//! A step that is not finite names the nearest cause: a weight, a layer, the loss or a gradient, and the rank and unit that have it.
//!
//! The weights of these runs are finite when they are read, and so large that a layer that the test knows is the first to overflow.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use expect_test::expect;
use pipezero_config::{Checkpointing, Precision, ResidencyConfig, Run, ZeroLevel};
use pipezero_plan::Plan;
use pipezero_run::checkpoint::{CheckpointReader, Checkpoints};
use pipezero_run::data::BatchSource;
use pipezero_run::engine::{AboutRun, Engine, EngineError};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView, serialize_to_file};
use serde_json::{Map, Value};
use tests::{
    Case, FP16, Mask, RandomBatches, Schedule, assert_same_weights, at_rate, in_two_processes,
    plan_and_batches, small_run, started, weights_of, zero,
};
use xxhash_rust::xxh3::xxh3_64;

/// A parameter, and how its elements are changed.
type Change<'a> = (&'static str, &'a dyn Fn(&mut [f32]));

const HUGE: f32 = 3e38;

fn all_huge(values: &mut [f32]) {
    values.fill(HUGE);
}

fn all_ones(values: &mut [f32]) {
    values.fill(1.0);
}

/// Of token 5 alone.
fn row_5_huge(values: &mut [f32]) {
    let width = values.len() / 17;
    values[5 * width..6 * width].fill(HUGE);
}

/// Writes the weights that a run begins with, with these changes.
fn write_weights(run: &Run, changes: &[Change<'_>], path: &Path) {
    let mut engine = started(Engine::for_inference, run.clone(), Mask::None);
    engine.save(path).expect("weights are saved");
    let bytes = std::fs::read(path).expect("they are there");
    let file = SafeTensors::deserialize(&bytes).expect("a safetensors file");
    let mut tensors: BTreeMap<String, (Vec<usize>, Vec<f32>)> = BTreeMap::new();
    for (name, view) in file.tensors() {
        let floats = view.data().as_chunks::<4>().0.iter().map(|&bytes| f32::from_le_bytes(bytes));
        tensors.insert(name.clone(), (view.shape().to_vec(), floats.collect()));
    }
    for (name, change) in changes {
        change(&mut tensors.get_mut(*name).expect("the model has it").1);
    }
    let bytes = tensors.into_iter().map(|(name, (shape, values))| {
        (name, shape, values.into_iter().flat_map(f32::to_le_bytes).collect::<Vec<u8>>())
    });
    let bytes: Vec<_> = bytes.collect();
    let views = bytes.iter().map(|(name, shape, bytes)| {
        (name, TensorView::new(Dtype::F32, shape.clone(), bytes).expect("bytes for the whole shape"))
    });
    serialize_to_file(views, None, path).expect("it is written");
}

/// What the first step of a run with these changes says is not finite.
fn error_of(run: &Run, changes: &[Change<'_>], source: Option<Arc<dyn BatchSource>>) -> String {
    let home = tempfile::tempdir().expect("a temporary folder");
    let path = home.path().join("weights.safetensors");
    write_weights(run, changes, &path);
    let (plan, batches) = plan_and_batches(run.clone(), Mask::None);
    let mut engine = Engine::new(plan, source.unwrap_or(batches)).expect("ranks start");
    engine.load(&path).expect("the weights are finite");
    let before = weights_of(&mut engine);
    let error = engine.train_batch().expect_err("it is not finite");
    assert!(matches!(error, EngineError::NotFinite { step: 1, .. }), "{error}");
    assert_same_weights(&weights_of(&mut engine), &before, "the engine has the weights before the step");
    assert_eq!(engine.train_batch().expect_err("it is not finite").to_string(), error.to_string());
    error.to_string()
}

/// `layer NAME (unit u3, rank 2)`, of data rank 0.
fn named(plan: &Plan, layer: &str) -> String {
    let place = plan.graph().layers().position(|of| of.name == layer).expect("the model has it");
    let unit = plan.units().iter().position(|unit| unit.layers.contains(&place)).expect("a unit has it");
    let pipeline_rank = plan.pipeline_rank_of(plan.units()[unit].stage).index();
    format!("layer {layer} (unit u{unit}, rank {})", plan.grid().rank(pipeline_rank, 0))
}

/// Grids with everything that shapes where a layer's output lies: stages, sharded units, segments that are recomputed, 16 bits.
fn grids() -> Vec<Case> {
    let strict = zero(ZeroLevel::Zero3, ResidencyConfig::Strict, 1);
    let grid = Case { pipeline: 2, data: 2, zero: strict, ..Case::ONE_RANK };
    vec![
        Case::ONE_RANK,
        grid.clone(),
        Case { checkpointing: Checkpointing::Unit, dropout: 0.1, ..grid.clone() },
        Case { precision: Precision::Bf16, threads: 2, ..grid.clone() },
        Case {
            schedule: Schedule::Interleaved { virtual_stages: 2 },
            num_micro_batches: 4,
            zero: zero(ZeroLevel::Zero1, ResidencyConfig::Units(1), 0),
            ..grid.clone()
        },
        Case { schedule: Schedule::ZbV, ..grid.clone() },
        Case { pipeline: 4, data: 1, schedule: Schedule::Eager, num_micro_batches: 5, ..grid },
    ]
}

#[test]
fn the_first_layer_whose_output_is_not_finite_is_named_on_every_grid() {
    let layers: [(&str, &[Change<'_>]); 6] = [
        ("embedding", &[("wte.weight", &all_huge), ("wpe.weight", &all_huge)]),
        ("h.0.attn", &[("h.0.attn.qkv.bias", &all_huge)]),
        ("h.1.mlp", &[("h.1.mlp.up.bias", &all_huge), ("h.1.mlp.down.weight", &all_ones)]),
        // What comes after the first is not finite either, and is not named.
        ("h.3.attn", &[("h.3.attn.qkv.bias", &all_huge), ("h.4.attn.qkv.bias", &all_huge)]),
        ("h.4.mlp", &[("h.4.mlp.up.bias", &all_huge), ("h.4.mlp.down.weight", &all_ones)]),
        ("ln_f", &[("ln_f.weight", &all_huge), ("ln_f.bias", &all_huge)]),
    ];
    for case in grids() {
        let run = small_run(case.clone());
        let (plan, _) = plan_and_batches(run.clone(), Mask::None);
        for (layer, changes) in layers {
            let error = error_of(&run, changes, None);
            let expected =
                format!("the first output that is not finite is that of {}, ", named(&plan, layer));
            assert!(error.contains(&expected), "{layer} on {case:?}: {error}");
            assert!(error.starts_with("step 1: the loss of micro-batch 0 on rank "), "{error}");
            assert!(
                error.contains(" at token 0 of sequence 0; all weights are finite; no weight was changed"),
                "{error}"
            );
        }
    }
}

/// Its logits are not handed on: the loss is the first that is not finite.
#[test]
fn a_head_that_overflows_is_named_with_the_loss() {
    for case in grids() {
        let run = small_run(case.clone());
        let (plan, _) = plan_and_batches(run.clone(), Mask::None);
        let error = error_of(&run, &[("lm_head.weight", &all_huge)], None);
        let expected = format!(
            ": it is the first, in {}: all weights and the outputs of all layers before it are finite; ",
            named(&plan, "lm_head")
        );
        assert!(error.contains(&expected), "{case:?}: {error}");
    }
}

/// One token of the batch has an embedding that overflows where dropout doubles what it keeps: data rank, micro-batch, sequence and token are those
/// that have it, and the second forward drops what the first has dropped.
#[test]
fn the_data_that_is_the_cause_is_named() {
    let [data_rank, micro_batch, sequence, token] = [1, 2, 1, 4];
    for case in grids().into_iter().filter(|case| case.data > 1) {
        let run = small_run(Case { num_micro_batches: 4, dropout: 0.5, ..case.clone() });
        let (plan, _) = plan_and_batches(run.clone(), Mask::None);
        let place = (data_rank * 4 + micro_batch) * 2 + sequence;
        let batches = RandomBatches::for_plan(&plan, Mask::None);
        let source = move |step: u64, of: usize, number: usize, batch: &mut _| {
            batches.micro_batch(step, of, number, batch)?;
            let batch: &mut pipezero_run::data::TokenBatch = batch;
            batch.inputs.iter_mut().filter(|token| **token == 5).for_each(|token| *token = 6);
            if (of * 4 + number) * 2 + sequence == place {
                batch.inputs[sequence * 6 + token] = 5;
            }
            Ok(())
        };
        let changes: [Change<'_>; 1] = [("wte.weight", &row_5_huge)];
        let error = error_of(&run, &changes, Some(Arc::new(source)));
        let head = plan.pipeline_rank_of(plan.unit(plan.head()).stage).index();
        let of_loss = plan.grid().rank(head, data_rank);
        let expected =
            format!("step 1: the loss of micro-batch {micro_batch} on rank {of_loss} is not finite (");
        assert!(error.starts_with(&expected), "{case:?}: {error}");
        let first = plan.grid().rank(0, data_rank);
        let expected = format!(
            "that of layer embedding (unit u0, rank {first}), inf at token {token} of sequence {sequence}; "
        );
        assert!(error.contains(&expected), "{case:?}: {error}");
    }
}

/// A rate beyond f32 makes weights infinite in the first update; the second step says so, and not that its data is to blame.
#[test]
fn a_weight_that_an_update_has_made_infinite_is_named() {
    for case in grids() {
        let mut engine = started(Engine::new, at_rate(1e39, small_run(case.clone())), Mask::None);
        engine.train_batch().expect("the first step");
        let error = engine.train_batch().expect_err("weights are infinite").to_string();
        let expected = "step 2: the weight `wte.weight`[0, 0] on rank 0 is not finite (";
        assert!(error.starts_with(expected), "{case:?}: {error}");
        assert!(
            error.ends_with("), since an earlier update; no weight was changed; go back to an earlier checkpoint and lower the learning rate"),
            "{error}"
        );
    }
}

#[test]
fn a_rate_that_is_too_high_is_blamed_on_the_layer_that_overflows() {
    let mut engine = started(
        Engine::new,
        at_rate(1e30, small_run(Case { pipeline: 2, data: 2, ..Case::ONE_RANK })),
        Mask::None,
    );
    engine.train_batch().expect("the first step");
    let error = engine.train_batch().expect_err("products overflow").to_string();
    expect!["step 2: the loss of micro-batch 0 on rank 2 is not finite (NaN): the first output that is not finite is that of layer h.0.attn (unit u0, rank 0), NaN at token 0 of sequence 0; all weights are finite; no weight was changed; lower the learning rate or look at the data of this step"].assert_eq(&error);
}

/// Both processes say the same, wherever the layer and the loss are.
#[test]
fn two_processes_name_the_same_layer() {
    let run = small_run(grids().swap_remove(1));
    let home = tempfile::tempdir().expect("a temporary folder");
    let path = home.path().join("weights.safetensors");
    let changes: [Change<'_>; 1] = [("h.3.attn.qkv.bias", &all_huge)];
    write_weights(&run, &changes, &path);
    let (plan, source) = plan_and_batches(run.clone(), Mask::None);
    let expected = error_of(&run, &changes, None);
    for cut in 1..plan.grid().world_size() {
        let found = in_two_processes(&plan, cut, |world, _| {
            let (plan, batches) = (plan.clone(), Arc::clone(&source));
            let mut engine = Engine::in_world(plan, batches, world).expect("ranks start");
            engine.load(&path).expect("the weights are finite");
            engine.train_batch().expect_err("it is not finite").to_string()
        });
        assert_eq!(found, [expected.clone(), expected.clone()], "cut at {cut}");
    }
}

/// Whatever holds it: fp32 or the type of the run, whole or sharded, a rank here or in another process.
#[test]
fn weights_that_are_not_finite_are_named_when_they_are_read() {
    let bad: [(f32, Precision, Option<&str>); 7] = [
        (f32::NAN, Precision::F32, Some("NaN, and values must be finite")),
        (f32::INFINITY, Precision::F32, Some("inf, and values must be finite")),
        (f32::NEG_INFINITY, Precision::Bf16, Some("-inf, and values must be finite")),
        (3.4e38, Precision::F32, None),
        (
            3.4e38,
            Precision::Bf16,
            Some("3.4e38, which is infinite in bf16, the type of the run's weights; train in f32"),
        ),
        (
            -70000.0,
            FP16,
            Some("-70000, which is infinite in fp16, the type of the run's weights; train in bf16 or f32"),
        ),
        (-65519.0, FP16, None),
    ];
    let home = tempfile::tempdir().expect("a temporary folder");
    let path = home.path().join("weights.safetensors");
    for case in grids() {
        for (value, precision, expected) in bad {
            let run = small_run(Case { precision, ..case.clone() });
            let (plan, source) = plan_and_batches(run.clone(), Mask::None);
            write_weights(&run, &[("h.2.attn.proj.weight", &|values| values[17] = value)], &path);
            let mut trains = Engine::new(plan.clone(), Arc::clone(&source)).expect("ranks start");
            let mut infers = Engine::for_inference(plan, source).expect("ranks start");
            for found in [trains.load(&path), infers.load(&path)] {
                let found = found.map_err(|error| error.to_string());
                let expected = expected.map_or(Ok(()), |why| {
                    let place = format!("{}: `h.2.attn.proj.weight`[1, 5] is ", path.display());
                    Err(format!(
                        "{place}{why}; take another copy of the weights, or an earlier state of their run"
                    ))
                });
                assert_eq!(found, expected, "{value} in {precision:?} on {case:?}");
            }
        }
    }
}

/// Replaces the first value of a piece whose name begins so by infinity, in whichever file of the checkpoint it lies, and all checksums by those
/// that the files then have. Returns the piece's name and the file.
fn break_first_value(folder: &Path, piece: &str) -> (String, String) {
    let digits = |bytes: &[u8]| format!("{:016x}", xxh3_64(bytes));
    let manifest = folder.join("manifest.json");
    let mut fields: Map<String, Value> =
        serde_json::from_slice(&std::fs::read(&manifest).expect("a manifest")).expect("it is JSON");
    let mut found = None;
    for file in fields["files"].as_array_mut().expect("a list") {
        let name = file["name"].as_str().expect("a name").to_owned();
        let path = folder.join(&name);
        let mut bytes = std::fs::read(&path).expect("a file");
        let length = 8 + u64::from_le_bytes(bytes[..8].try_into().expect("a length")) as usize;
        let mut header: Map<String, Value> = serde_json::from_slice(&bytes[8..length]).expect("a header");
        let Some((piece, info)) = header.iter().find(|(name, _)| name.starts_with(piece)) else { continue };
        let start = length + info["data_offsets"][0].as_u64().expect("a place") as usize;
        found = Some((piece.clone(), name));
        bytes[start..start + 4].copy_from_slice(&f32::INFINITY.to_le_bytes());
        let blocks: String = bytes[length..].chunks(1 << 20).map(digits).collect();
        header["__metadata__"]["blocks"] = blocks.into();
        let mut text = serde_json::to_vec(&header).expect("a header");
        text.resize(length - 8, b' ');
        bytes[8..length].copy_from_slice(&text);
        file["header_checksum"] = digits(&bytes[..length]).into();
        std::fs::write(path, bytes).expect("it is written");
        break;
    }
    let of_files = digits(serde_json::to_string(&fields["files"]).expect("a value").as_bytes());
    fields["checksums"]["files"] = of_files.into();
    std::fs::write(manifest, serde_json::to_string_pretty(&fields).expect("a manifest"))
        .expect("it is written");
    found.expect("a file has it")
}

/// Parameters, master copies and the optimizer's state, read by the grid that wrote them and by another.
#[test]
fn a_checkpoint_with_a_value_that_is_not_finite_is_refused_by_name() {
    for precision in [Precision::F32, Precision::Bf16] {
        let case = Case { precision, ..grids().swap_remove(1) };
        for kind in ["parameter", "exp_avg", "exp_avg_sq"] {
            let home = tempfile::tempdir().expect("a temporary folder");
            let checkpoints = Checkpoints::of_run(home.path());
            let mut engine = started(Engine::new, small_run(case.clone()), Mask::None);
            engine.train_batch().expect("a step");
            engine.write_checkpoint(&checkpoints, &AboutRun::default()).expect("a checkpoint");
            let folder = std::fs::read_dir(home.path().join("checkpoints")).expect("a folder").next();
            let folder = folder.expect("a checkpoint").expect("a checkpoint").path();
            let (piece, file) = break_first_value(&folder, &format!("{kind}/h.3.mlp.up.weight/"));
            let first: usize = {
                let range = piece.rsplit('/').next().expect("a range");
                range.split("..").next().and_then(|first| first.parse().ok()).expect("a number")
            };
            let name = if kind == "parameter" {
                "h.3.mlp.up.weight".to_owned()
            } else {
                format!("{kind}/h.3.mlp.up.weight")
            };
            let index = [first / 12, first % 12];
            let expected = format!(
                "{}: `{name}`{index:?} is inf, and values must be finite; ",
                folder.join(file).display()
            );
            let reader = Arc::new(CheckpointReader::open(&folder).expect("its checksums are right"));
            for case in [case.clone(), Case { pipeline: 1, data: 1, ..case.clone() }] {
                let mut engine = started(Engine::new, small_run(case), Mask::None);
                let error = engine.resume(&reader).expect_err("a value is infinite").to_string();
                assert!(error.starts_with(&expected), "{kind} in {precision:?}: {error}, not {expected}");
            }
        }
    }
}
