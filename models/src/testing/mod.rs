//! What the tests of this crate have in common: runs of models, and candle's autograd in f64 to compare them with.

mod compare;
mod configs;
mod llama_oracle;
mod oracle;
mod rope_oracle;
mod run;

pub(crate) use compare::{
    assert_close, assert_close_of, assert_same_bits, largest, same_at_every_place, same_on_all_threads,
};
pub(crate) use configs::{config, llama_config};
pub(crate) use oracle::Oracle;
pub(crate) use run::{
    Backward, Batch, EncoderInputsOfBatch, Run, assert_same_result, check_against_oracle, loss_of, random,
    result, segments,
};
