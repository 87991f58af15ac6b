//! pipezero against PyTorch and DeepSpeed: figures made by `scripts/golden`, which says how and with which versions.

mod golden; // Reading the files and comparing.
mod learning_rates; // DeepSpeed's schedules.
mod optimizers; // PyTorch's AdamW and SGD.
