//! Every call of NCCL that ranks make, with one rank, which sends to itself: on one GPU there cannot be two.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use pipezero_models::element::ElementType;
use pipezero_models::queue::{Cuda, F32Products, Joining, NcclCommunicator, NcclId, nccl_version};
use pipezero_models::{Device, Queue};

const TIMEOUT: Duration = Duration::from_secs(20);
/// Multiprocessors for an operation.
const NUM_CTAS: usize = 4;

fn joined(joining: Joining) -> Option<NcclCommunicator> {
    let start = Instant::now();
    while !joining.poll().expect("the rank is alone") {
        assert!(start.elapsed() < TIMEOUT, "nobody else is waited for");
        thread::yield_now();
    }
    joining.finish(TIMEOUT).expect("a stream")
}

/// Waits until the queue has come to this point.
fn finish(queue: &dyn Queue) {
    let (start, here) = (Instant::now(), queue.record());
    while !queue.has_reached(&here).expect("the device works") {
        assert!(start.elapsed() < TIMEOUT, "an operation of one rank ends");
        thread::yield_now();
    }
}

/// Data of a communicator's operations: each leaves what one rank alone brings.
fn operations_leave_what_one_rank_brings(comm: &NcclCommunicator) {
    let queue = comm.queue();
    // Each type holds them exactly.
    let values: Vec<f32> = (0..1000).map(|index| (index % 251) as f32).collect();
    for element in [ElementType::F32, ElementType::Bf16, ElementType::F16] {
        let wide = |values: &[f32]| {
            let mut buffer = queue.zeros(values.len(), ElementType::F32).expect("memory");
            queue.upload_floats(values, buffer.view_mut());
            buffer
        };
        let (whole, mut sent) = (wide(&values), queue.zeros(values.len(), element).expect("memory"));
        let mut received = queue.zeros(values.len(), element).expect("memory");
        let mut back = queue.zeros(values.len(), ElementType::F32).expect("memory");
        queue.copy(whole.view(), sent.view_mut());
        comm.all_gather(&sent.view_mut());
        comm.exchange(&[(0, sent.view())], &[(0, received.view_mut())]);
        queue.copy(received.view(), back.view_mut());
        if element == ElementType::F32 {
            comm.reduce_scatter(&back.view_mut());
        }
        finish(&*queue);
        let mut found = vec![0.0; values.len()];
        queue.download_floats(back.view(), &mut found).expect("the device works");
        assert_eq!(found, values, "{element:?}");
    }
    let halves = [u32::MAX, 7, 3, u32::MAX];
    let mut words = queue.zeros(halves.len(), ElementType::U32).expect("memory");
    queue.upload(&halves, words.view_mut());
    comm.add_words(&words.view_mut());
    finish(&*queue);
    let mut found = [0; 4];
    queue.download(words.view(), &mut found).expect("the device works");
    assert_eq!(found, halves);
    comm.poll().expect("nothing has gone wrong");
}

/// It is zero at first, and is freed with its registration before the communicator ends.
fn memory_of_the_library_is_used_as_any(comm: &Arc<NcclCommunicator>) {
    let values: Vec<f32> = (0..1000).map(|index| index as f32).collect();
    let queue = comm.queue();
    let mut found = vec![1.0; values.len()];
    for len in [1, 1000, 1 << 20] {
        let mut buffer = comm.zeros(len, ElementType::F32, &|| false).expect("memory");
        let len = len.min(values.len());
        queue.download_floats(buffer.view().range(0..len), &mut found[..len]).expect("the device works");
        assert!(found[..len].iter().all(|&value| value == 0.0));
        queue.upload_floats(&values[..len], buffer.view_mut().range(0..len));
        comm.all_gather(&buffer.view_mut());
        finish(&*queue);
        queue.download_floats(buffer.view().range(0..len), &mut found[..len]).expect("the device works");
        assert_eq!(found[..len], values[..len]);
    }
}

#[test]
#[ignore = "needs a GPU and NCCL, or the fake ones"]
fn every_call_of_nccl_works_with_one_rank() {
    println!("figure: NCCL {}", nccl_version().expect("a library"));
    let gpu = Cuda::open(0, F32Products::Whole).expect("a GPU, or the fake GPU");
    let id = NcclId::new().expect("an id");
    let world = gpu.join_nccl(&id, [0, 1], NUM_CTAS).expect("a communicator is begun");
    let world = joined(world).expect("the rank has a color");
    operations_leave_what_one_rank_brings(&world);
    // A rank without a color takes part in the split and gets nothing.
    assert!(joined(world.split(None, [0, 1], NUM_CTAS).expect("a split is begun")).is_none());
    let lane = joined(world.split(Some(3), [0, 1], NUM_CTAS).expect("a split is begun"));
    let lane = Arc::new(lane.expect("the rank has a color"));
    operations_leave_what_one_rank_brings(&lane);
    memory_of_the_library_is_used_as_any(&lane);
    // What is aborted answers no question any more, and ends at once.
    world.abort();
    world.poll().expect("an aborted communicator has no state");
    gpu.queue().expect("the device works");
}
