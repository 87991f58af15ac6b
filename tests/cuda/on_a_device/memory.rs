//! What is free of a GPU's memory, runs that just fit, and what runs leave there that do not end well.

use std::sync::{Arc, Mutex};

use pipezero_config::{DeviceName, Precision, Run};
use pipezero_models::queue::{Cuda, MemoryInUse};
use pipezero_models::{Buffer, Device, ElementType, ModelError, Queue};
use pipezero_run::checkpoint::Checkpoints;
use pipezero_run::engine::{AboutRun, Engine, EngineError};
use tests::{Case, Mask, RandomBatches, plan_and_batches, small_run};

use super::device;

/// What the fake GPU rounds allocations up to, as CUDA's alignment does.
const GRANULE_BYTES: u64 = 256;

#[test]
#[ignore = "needs a GPU, or the fake GPU"]
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
#[ignore = "needs the fake GPU"]
fn a_run_that_is_let_in_has_memory_to_save_its_state() {
    let device = device();
    if !device.name().unwrap().starts_with("fake GPU") {
        return;
    }
    let queue = device.queue().unwrap();
    let attempt = |left_bytes: u64| {
        let free_bytes = device.memory().unwrap().expect("its own memory").free_bytes;
        let ballast_elements = usize::try_from((free_bytes - left_bytes) / 2).unwrap();
        let _ballast = queue.zeros(ballast_elements, ElementType::Bf16).unwrap();
        let (plan, source) = plan_and_batches(run(), Mask::None);
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

fn run() -> Run {
    let case = Case { pipeline: 2, data: 2, num_micro_batches: 2, ..Case::ONE_RANK };
    Run { device: DeviceName::Cuda, precision: Precision::Bf16, ..small_run(case) }
}

fn in_use(device: &Cuda) -> MemoryInUse {
    device.memory().expect("the driver answers").expect("its own memory")
}

/// What is in use before a run and must be so after it: a first run has loaded kernels and made the driver's and the libraries' own buffers.
fn in_use_after_a_run(device: &Arc<Cuda>) -> MemoryInUse {
    let (plan, source) = plan_and_batches(run(), Mask::None);
    Engine::on_device(plan, source, Arc::clone(device) as _).unwrap().train_batch().expect("a step");
    in_use(device)
}

/// An H200's driver has a few MiB more free after memory has run out than before.
fn assert_nothing_is_left(device: &Cuda, before: MemoryInUse) {
    let after = in_use(device);
    let is_freed = after.buffer_bytes == before.buffer_bytes && after.free_bytes >= before.free_bytes;
    assert!(is_freed, "{before:?}, then {after:?}");
}

#[test]
#[ignore = "needs a GPU, or the fake GPU"]
fn a_rank_that_panics_leaves_nothing_in_memory() {
    let device = device();
    let before = in_use_after_a_run(&device);
    let (plan, _) = plan_and_batches(run(), Mask::None);
    let source =
        RandomBatches::for_plan(&plan, Mask::None).with_fault(1, |_| panic!("the tokenizer is gone"));
    let mut engine = Engine::on_device(plan, Arc::new(source), Arc::clone(&device) as _).unwrap();
    engine.train_batch().expect("the first step reads well");
    assert!(in_use(&device).buffer_bytes > before.buffer_bytes);
    let error = engine.train_batch().unwrap_err().to_string();
    assert!(error.contains("panicked: the tokenizer is gone"), "{error}");
    drop(engine);
    assert_nothing_is_left(&device, before);
}

/// A device of which somebody else takes all that is free, once a run has been told how much that is.
#[derive(Debug)]
struct TakenMeanwhile {
    device: Arc<Cuda>,
    taken: Mutex<Vec<Buffer>>,
}

impl TakenMeanwhile {
    fn take_all(&self) {
        let queue = self.device.queue().unwrap();
        let mut taken = self.taken.lock().unwrap();
        let mut num_elements = usize::try_from(in_use(&self.device).free_bytes / 2).unwrap();
        while num_elements > 0 {
            match queue.zeros(num_elements, ElementType::Bf16) {
                Ok(buffer) => taken.push(buffer),
                Err(_) => num_elements /= 2,
            }
        }
    }
}

impl Device for TakenMeanwhile {
    fn queue(&self) -> Result<Arc<dyn Queue>, ModelError> {
        self.device.queue()
    }

    fn computes_in(&self, element: ElementType) -> bool {
        self.device.computes_in(element)
    }

    fn memory(&self) -> Result<Option<MemoryInUse>, ModelError> {
        let memory = self.device.memory();
        self.take_all();
        memory
    }
}

#[test]
#[ignore = "needs a GPU, or the fake GPU"]
fn a_run_whose_memory_is_taken_while_it_starts_says_so_and_leaves_nothing() {
    let device = device();
    let before = in_use_after_a_run(&device);
    let taken = Arc::new(TakenMeanwhile { device: Arc::clone(&device), taken: Mutex::default() });
    let (plan, source) = plan_and_batches(run(), Mask::None);
    let error = match Engine::on_device(plan, source, Arc::clone(&taken) as _) {
        Ok(_) => panic!("it starts without memory"),
        Err(error) => error.to_string(),
    };
    assert!(
        error.contains("GPU 0 is out of memory: ") && error.contains(" bytes more are needed"),
        "{error}"
    );
    drop(taken);
    assert_nothing_is_left(&device, before);
    in_use_after_a_run(&device);
}
