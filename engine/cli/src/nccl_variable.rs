//! A process that connects GPUs starts itself again where a variable is missing that the driver reads when it begins.

use std::env;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use pipezero_comm::world::missing_nccl_variable;
use pipezero_config::BackendName;
use pipezero_files::input::is_stdio;

use super::failure::Failure;

/// Replaces this process by the same command with the variable that a run over this backend needs, if it is missing. What came over the standard
/// input is gone then, so whoever writes a run file there has to set it.
///
/// # Errors
/// When the program cannot be started.
pub(super) fn set_variable(backend: BackendName, from: &Path) -> Result<(), Failure> {
    let missing = missing_nccl_variable();
    if backend != BackendName::Nccl || is_stdio(from) || missing.is_none() {
        return Ok(());
    }
    let mut command = Command::new(env::current_exe()?);
    // It returns only where it fails.
    Err(command.args(env::args_os().skip(1)).envs(missing).exec().into())
}
