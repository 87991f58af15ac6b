//! What integration tests share: small runs, random batches, trained weights as tensors by name.

mod batches;
mod runs;
mod trained;

pub use batches::{Mask, RandomBatches};
pub use runs::{Case, small_gpt, small_run};
pub use trained::{Trained, assert_bit_identical, assert_close, train, train_plan};
