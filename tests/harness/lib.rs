//! What integration tests share: small runs, random batches, trained weights as tensors by name, recorded orders.

mod altered;
mod batches;
mod draws;
mod encoders;
mod fake_gpu;
pub mod faults;
pub mod features;
mod job;
mod joined;
mod outputs;
mod pairwise;
mod phase;
mod recorded;
mod runs;
mod sample;
mod schedule;
mod spread;
mod trained;
mod trap;

pub use altered::Altered;
pub use batches::{Lengths, Mask, RandomBatches};
pub use draws::{Draws, seed_of_draws};
pub use encoders::{EncoderBatches, model_with_encoder, plan_with_encoder};
pub use fake_gpu::{
    FakeGpuSettings, checked_fake_gpu, fake_gpu, is_unchanged, on_the_fake_gpu, run_on_fake_gpu,
    run_on_fake_gpu_with,
};
pub use job::EndOnPanic;
pub use joined::{in_two_processes, on_devices};
pub use outputs::Outputs;
pub use pairwise::pairwise;
pub use phase::Phase;
pub use recorded::{GatheredCopy, WeightOrder, WeightUse};
pub use runs::{
    Case, FP16, Family, GRADIENT_CLIPPING, NO_ZERO, SGD, at_rate, example, grids, loaded, small_gpt,
    small_run, two_steps, zero,
};
pub use sample::{Sample, in_full};
pub use schedule::Schedule;
pub use spread::{Spread, spread};
pub use trained::{
    Trained, Weights, assert_as_planned, assert_bit_identical, assert_close, assert_same_weights,
    plan_and_batches, started, train, train_into, train_on, train_on_devices, train_plan, train_plan_on,
    train_with, weights_in, weights_of,
};
pub use trap::{Moment, Trap, TrapCommunicator, TrapDevice, step_of};
