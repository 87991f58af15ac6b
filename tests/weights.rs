//! Weights that one grid has trained and saved are the same on every other grid that loads them.

use std::path::Path;
use std::sync::Arc;

use pipezero_config::{ResidencyConfig, Run, UnitLayers, ZeroConfig, ZeroLevel};
use pipezero_run::engine::{Engine, EngineKind};
use tests::{
    Case, Mask, Weights, assert_same_weights, plan_and_batches, small_run, started, weights_of, zero,
};

/// A run on any grid that sees 12 sequences in each step.
fn run(pipeline: usize, data: usize, level: ZeroLevel, tied: bool) -> Run {
    // Units of other sizes, so that a parameter lies elsewhere in its unit and is cut into shards elsewhere.
    let unit_layers = 1 + pipeline % 2;
    let zero = ZeroConfig {
        unit_layers: UnitLayers::of_blocks(unit_layers).expect("units have layers"),
        ..zero(level, ResidencyConfig::Units(2), 1)
    };
    let case = Case { pipeline, data, num_micro_batches: 6 / data, zero, tied, ..Case::ONE_RANK };
    small_run(case)
}

/// The loss of one batch and the weights themselves.
fn look<K: EngineKind>(engine: &mut Engine<K>, run: &Run) -> (u64, Weights) {
    let (_, validation) = plan_and_batches(run.clone(), Mask::Uneven);
    let report = engine.eval_batch(&validation, 50).expect("an evaluation");
    (report.loss.expect("some targets carry loss").to_bits(), weights_of(engine))
}

/// Loads weights, and says what the engine then evaluates and holds.
fn loaded<K: EngineKind>(mut engine: Engine<K>, path: &Path, run: &Run) -> (u64, Weights) {
    engine.load(path).expect("weights are loaded");
    look(&mut engine, run)
}

/// Trains two steps, saves, and says what the engine then evaluates and holds.
fn train_and_save(run: Run, path: &Path) -> (u64, Weights) {
    let mut engine = started(Engine::new, run.clone(), Mask::Uneven);
    for _ in 0..2 {
        engine.train_batch().expect("a step");
    }
    engine.save(path).expect("weights are saved");
    look(&mut engine, &run)
}

#[test]
fn every_grid_and_level_loads_what_any_other_has_saved() {
    use ZeroLevel::{Zero0, Zero1, Zero2, Zero3};
    let grids = [(1, 1, Zero0), (1, 2, Zero2), (2, 1, Zero1), (2, 3, Zero3), (4, 2, Zero3), (4, 1, Zero0)];
    let home = tempfile::tempdir().expect("a temporary folder");
    let path = home.path().join("weights.safetensors");
    for tied in [false, true] {
        for (pipeline, data, level) in [(2, 2, Zero3), (1, 3, Zero1), (4, 1, Zero0)] {
            let (loss, weights) = train_and_save(run(pipeline, data, level, tied), &path);
            for (pipeline, data, level) in grids {
                let name = format!("{pipeline} x {data}, {level:?}, tied: {tied}");
                // Other initial values, so that a parameter that is not loaded shows.
                let run = Run { seed: 8, ..run(pipeline, data, level, tied) };
                let to_train = loaded(started(Engine::new, run.clone(), Mask::Uneven), &path, &run);
                let for_inference =
                    loaded(started(Engine::for_inference, run.clone(), Mask::Uneven), &path, &run);
                for (loaded_loss, loaded) in [to_train, for_inference] {
                    assert_same_weights(&loaded, &weights, &name);
                    assert_eq!(loaded_loss, loss, "loss on {name}");
                }
            }
        }
    }
}

/// Loading replaces weights in an engine that has trained: what it evaluates then is what was saved.
#[test]
fn loading_goes_back_to_what_was_saved() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let path = home.path().join("weights.safetensors");
    let run = run(2, 2, ZeroLevel::Zero3, true);
    let (plan, source) = plan_and_batches(run.clone(), Mask::None);
    let mut engine = Engine::new(plan, Arc::clone(&source)).expect("ranks start");
    engine.save(&path).expect("weights are saved");
    let before = look(&mut engine, &run);
    engine.train_batch().expect("a step");
    assert_ne!(look(&mut engine, &run).0, before.0, "a step changes the loss");
    engine.load(&path).expect("weights are loaded");
    assert_eq!(look(&mut engine, &run), before);
}
