//! What is free of a GPU's memory, and runs that just fit.

use std::sync::Arc;

use pipezero::config::{DeviceName, Precision, Run};
use pipezero::models::{Device, ElementType};
use pipezero::run::checkpoint::Checkpoints;
use pipezero::run::engine::{AboutRun, Engine, EngineError};
use tests::{Case, Mask, plan_and_batches, small_run};

use super::device;

/// What the imitation rounds allocations up to, as CUDA's alignment does.
const GRANULE_BYTES: u64 = 256;

#[test]
#[ignore = "needs a GPU, or the imitation of one"]
fn memory_in_use_is_that_of_the_buffers_that_live_and_some_beside() {
    let device = device();
    let in_use = || device.memory().expect("the driver answers").expect("its own memory");
    let before = in_use();
    let buffer = device.queue().unwrap().zeros(1 << 20, ElementType::Bf16).unwrap();
    let during = in_use();
    assert_eq!(during.buffer_bytes, before.buffer_bytes + (2 << 20));
    assert!(during.free_bytes + (2 << 20) <= before.free_bytes, "{before:?}, then {during:?}");
    assert!(during.free_bytes + during.buffer_bytes <= during.total_bytes, "{during:?}");
    drop(buffer);
    assert_eq!(in_use(), before);
}

/// With what a run says it needs it trains and saves; with less it does not start. On hardware the driver rounds what it gives by more.
#[test]
#[ignore = "needs the imitation of a GPU"]
fn a_run_that_is_let_in_has_memory_to_save_its_state() {
    let device = device();
    if !device.name().unwrap().starts_with("imitation") {
        return;
    }
    let queue = device.queue().unwrap();
    let attempt = |left_bytes: u64| {
        let free_bytes = device.memory().unwrap().expect("its own memory").free_bytes;
        let ballast_elements = usize::try_from((free_bytes - left_bytes) / 2).unwrap();
        let _ballast = queue.zeros(ballast_elements, ElementType::Bf16).unwrap();
        let case = Case { pipeline: 2, data: 2, num_micro_batches: 2, ..Case::ONE_RANK };
        let run = Run { device: DeviceName::Cuda, precision: Precision::Bf16, ..small_run(case) };
        let (plan, source) = plan_and_batches(run, Mask::None);
        let mut engine = Engine::on_device(plan, source, Arc::clone(&device) as Arc<dyn Device>)?;
        engine.train_batch().expect("a step");
        let home = tempfile::tempdir().unwrap();
        engine.save(&home.path().join("weights.safetensors")).expect("weights");
        let checkpoints = Checkpoints::of_run(home.path());
        engine.write_checkpoint(&checkpoints, &AboutRun::default()).expect("a checkpoint");
        Ok(())
    };
    let refused = |left_bytes| match attempt(left_bytes) {
        Err(EngineError::Memory { needed_bytes, available_bytes, .. }) => [needed_bytes, available_bytes],
        other => panic!("{left_bytes} bytes are enough? {other:?}"),
    };
    let [needed_bytes, _] = refused(0);
    let enough_bytes = needed_bytes.next_multiple_of(GRANULE_BYTES) + GRANULE_BYTES;
    let [_, available_bytes] = refused(enough_bytes - 2 * GRANULE_BYTES);
    assert!((needed_bytes - 2 * GRANULE_BYTES..needed_bytes).contains(&available_bytes), "{available_bytes}");
    attempt(enough_bytes).unwrap();
}
