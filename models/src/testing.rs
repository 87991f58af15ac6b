//! What the tests of this crate have in common: runs of models, and candle's autograd in f64 to compare them with.

mod compare;
mod oracle;
mod run;

pub(crate) use compare::{assert_close, with_threads};
pub(crate) use oracle::{Gradients, Oracle};
pub(crate) use run::{Backward, Batch, Run, random};
