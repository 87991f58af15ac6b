//! The name of a checkpoint's folder, which says the step after which it was written.

const PREFIX: &str = "step-";

/// The name of the folder of the checkpoint after a step.
pub(super) fn folder_name(step: u64) -> String {
    format!("{PREFIX}{step:08}")
}

/// The step in the name of a complete checkpoint's folder.
pub(super) fn step_of(name: &str) -> Option<u64> {
    let step = name.strip_prefix(PREFIX)?.parse().ok()?;
    (folder_name(step) == name).then_some(step)
}
