//! A process that connects GPUs starts itself again where variables are missing that NCCL and the driver read when they begin.

use std::env;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use super::failure::Failure;
use crate::config::BackendName;
use crate::files::input::is_stdio;
use crate::run::world::missing_nccl_variables;

/// Replaces this process by the same command with the variables that a run over this backend needs, if any are missing. What came over the standard
/// input is gone then, so whoever writes a run file there has to set the variables.
///
/// # Errors
/// When the program cannot be started.
pub(super) fn set_variables(backend: BackendName, from: &Path) -> Result<(), Failure> {
    let missing = missing_nccl_variables();
    if backend != BackendName::Nccl || is_stdio(from) || missing.is_empty() {
        return Ok(());
    }
    let again = || -> io::Result<Command> {
        let mut command = Command::new(env::current_exe()?);
        command.args(env::args_os().skip(1)).envs(missing);
        Ok(command)
    };
    // It returns only where it fails.
    Err(again().map_or_else(|error| error, |mut command| command.exec()).into())
}
