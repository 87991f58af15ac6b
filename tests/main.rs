//! Every integration test, in one binary so that there is one link step.

mod examples; // Run files in pages load.
mod oracle; // What PyTorch and DeepSpeed compute, from golden files.
mod parity; // Every grid gives the same bits.
mod tidy; // The tree keeps its own rules.
