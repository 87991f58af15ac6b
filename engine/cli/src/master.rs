//! What the commands that take a master file share: its engines, resolved, with all that is wrong in any of them.

use pipezero_config::{ConfigErrors, EngineFile, MasterFile};

use super::failure::Failure;

/// Does something with the run file of each engine, in this order.
///
/// # Errors
/// The mistakes in all run files, at their places; else the first other failure, with the engine's name.
pub(super) fn resolve_all<T>(
    master: &MasterFile,
    names: &[String],
    mut resolve: impl FnMut(&EngineFile) -> Result<T, Failure>,
) -> Result<Vec<T>, Failure> {
    let mut resolved = Vec::new();
    let mut mistakes = Vec::new();
    let mut failed = None;
    for name in names {
        let found = match master.engine(name) {
            Ok(engine) => resolve(&engine).map_err(|failure| failure.of_engine_file(&engine)),
            Err(errors) => Err(Failure::Config(errors)),
        };
        match found {
            Ok(found) => resolved.push(found),
            Err(Failure::Config(errors)) => mistakes.push(errors),
            Err(other) => failed = failed.or(Some(other)),
        }
    }
    match (mistakes.is_empty(), failed) {
        (false, _) => Err(Failure::Config(ConfigErrors::joined(mistakes))),
        (true, Some(failure)) => Err(failure),
        (true, None) => Ok(resolved),
    }
}

/// The error that a task was named of a run file.
pub(super) fn no_tasks(task: &str, file: &str) -> Failure {
    let error = format!(
        "--task {task}: {file} is an ordinary run file, of one model, and has no tasks: leave --task out, or name a master file \
         (docs/several-models.md)"
    );
    Failure::Input(error.into())
}
