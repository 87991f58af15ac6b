//! Checkpoints of other systems, known by the names of their files.

use std::fs;
use std::path::{Path, PathBuf};

/// A system whose checkpoints are recognised, and not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct System {
    pub(super) name: &'static str,
    /// What turns its checkpoints into weights that others read.
    pub(super) way: &'static str,
}

const DEEPSPEED: System = System {
    name: "DeepSpeed",
    way: "`python zero_to_fp32.py . weights --safe_serialization`, which DeepSpeed left in its folder",
};
const MEGATRON: System = System {
    name: "Megatron-LM",
    way: "Megatron-LM's `tools/checkpoint/convert.py` with a saver for Hugging Face",
};
const TORCH: System = System {
    name: "PyTorch's distributed checkpoints",
    way: "`python -m torch.distributed.checkpoint.format_utils dcp_to_torch`, and `save_pretrained` of the model",
};

const TORCH_WEIGHTS: System =
    System { name: "PyTorch", way: "`save_pretrained` of the model with safetensors" };

/// Beginnings and endings of the names of files and folders that only one system writes.
const MARKS: [(&str, &str, System); 10] = [
    ("zero_to_fp32", ".py", DEEPSPEED),
    ("mp_rank_", "_model_states.pt", DEEPSPEED),
    ("zero_pp_rank_", "_states.pt", DEEPSPEED),
    ("bf16_zero_pp_rank_", "_states.pt", DEEPSPEED),
    ("global_step", "", DEEPSPEED),
    ("latest_checkpointed_iteration", ".txt", MEGATRON),
    ("iter_", "", MEGATRON),
    ("model_optim_rng", ".pt", MEGATRON),
    (".metadata", "", TORCH),
    ("pytorch_model", ".bin", TORCH_WEIGHTS),
];

/// The system that wrote a folder, if it is one of these.
pub(super) fn system_of(folder: &Path) -> Option<System> {
    let entries: Vec<PathBuf> = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path()).collect();
    // A folder of checkpoints holds the marks one level below.
    marked(&entries).or_else(|| {
        let inner = entries.iter().filter_map(|entry| fs::read_dir(entry).ok());
        marked(&inner.flatten().flatten().map(|entry| entry.path()).collect::<Vec<_>>())
    })
}

fn marked(paths: &[PathBuf]) -> Option<System> {
    let names: Vec<&str> = paths.iter().filter_map(|path| path.file_name()?.to_str()).collect();
    let has = |start: &str, end: &str| {
        names.iter().any(|name| {
            name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end)
        })
    };
    MARKS.into_iter().find(|(start, end, _)| has(start, end)).map(|(.., system)| system)
}
