//! Every integration test, in one binary so that there is one link step.

mod custom_loss; // A loss of the user's own.
mod oracle; // What PyTorch and DeepSpeed compute, from golden files.
mod parity; // Every grid gives the same bits.
mod quickstart; // The README's first command learns, and needs attention to.
