//! What is saved of a run that an error ends, and where.

use std::path::Path;

use pipezero_config::hugging_face::Origin;
use pipezero_files::partial::{self, Existing};
use pipezero_run::checkpoint::Starts;
use pipezero_run::engine::Engine;

use super::checkpoints::CheckpointKeeper;
use super::error::TrainingError;
use super::run_dir::RunDir;
use super::run_dir_error::RunDirError;

/// Saves weights and a checkpoint in the run directory, or where that cannot be, in the folder for such a case; the error that ended the
/// run says where. `lines` are those of metrics that could not be written.
pub(super) fn save_after(
    error: TrainingError,
    engine: &mut Engine,
    keeper: &mut CheckpointKeeper,
    directory: &RunDir,
    rescue: Option<&Path>,
    lines: &str,
) -> TrainingError {
    let (error, step) = (Box::new(error), engine.position().step);
    let mut saved = save(engine, keeper, directory);
    let mut path = directory.path();
    if let (Err(_), Some(folder)) = (&saved, rescue) {
        path = folder;
        saved = save_elsewhere(engine, keeper, directory, folder, lines);
    }
    match saved {
        Ok(()) => TrainingError::Saved { error, step, path: path.to_owned() },
        Err(why) => TrainingError::NotSaved { error, step, why: Box::new(why) },
    }
}

fn save(engine: &mut Engine, keeper: &mut CheckpointKeeper, directory: &RunDir) -> Result<(), TrainingError> {
    engine.agree(directory.check_is_held().map_err(TrainingError::from))?;
    let checkpoint = if engine.position().step > 0 { Some(keeper.write_to(directory, engine)) } else { None };
    let weights = engine.save(&directory.file(RunDir::WEIGHTS));
    // The checkpoint has the weights too; before the first step there is none.
    Ok(checkpoint.unwrap_or(weights)?)
}

/// Makes a run directory like the other, with which `--resume` can go on.
fn save_elsewhere(
    engine: &mut Engine,
    keeper: &mut CheckpointKeeper,
    directory: &RunDir,
    folder: &Path,
    lines: &str,
) -> Result<(), TrainingError> {
    let made = if engine.has_rank_0() {
        copied(directory, folder, lines)
    } else {
        Ok(RunDir::written_elsewhere(folder))
    };
    let made = engine.agree(made.map_err(TrainingError::from))?;
    save(engine, keeper, &made)
}

fn copied(directory: &RunDir, folder: &Path, lines: &str) -> Result<RunDir, RunDirError> {
    let made = RunDir::create(folder, false)?;
    let names = [RunDir::METRICS, RunDir::SCHEDULE, RunDir::TOKENIZER, Starts::FILE];
    let beside = RunDir::BESIDE_TOKENIZER.into_iter().chain(Origin::FILES);
    // The folder may be another run's by now.
    let is_own = directory.check_is_held().is_ok();
    for name in names.into_iter().chain(beside).chain([RunDir::RUN_FILE]) {
        let (from, to) = (directory.file(name), made.file(name));
        let is_of_this_run = is_own || ![RunDir::METRICS, RunDir::RUN_FILE, Starts::FILE].contains(&name);
        if is_of_this_run && partial::copy(&from, &to, Existing::Kept).is_ok() {
            continue;
        }
        match (name, directory.recorded()) {
            (RunDir::METRICS, _) => made.write(name, "")?,
            (RunDir::RUN_FILE, Some(text)) => made.write(name, text)?,
            // A schedule that is lost with the run directory is not needed to go on: the command names the file.
            _ => {}
        }
    }
    made.metrics_with(lines)?;
    Ok(made)
}
