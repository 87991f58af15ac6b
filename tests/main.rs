//! Every integration test, in one binary so that there is one link step.

mod collectives; // What every communication backend promises.
mod failures; // A rank that fails stops all, with one report.
mod oracle; // What PyTorch and DeepSpeed compute, from golden files.
mod parity; // Every grid gives the same bits.
