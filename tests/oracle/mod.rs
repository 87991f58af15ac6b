//! pipezero against PyTorch and DeepSpeed: figures made by `tests/golden/scripts`, which says how and with which versions.

mod distillation; // PyTorch: steps of a student that learns from a teacher's logits.
mod golden; // Reading the files and comparing.
mod gpt2; // PyTorch: forward, loss, gradients and training steps of GPT-2.
mod learning_rates; // DeepSpeed's schedules.
mod loss_scales; // DeepSpeed's loss scaler.
mod optimizers; // PyTorch's AdamW and SGD.
mod published; // Hugging Face's transformers: folders of GPT-2 and Llama.
mod rope; // transformers: rotary frequencies of every scaling.
