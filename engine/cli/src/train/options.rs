//! How one run is started: the arguments of `train` for it alone.

use std::path::{Path, PathBuf};

use pipezero_config::{RunFile, Task};
use pipezero_measure::trace::TracedSteps;
use pipezero_train::RunDir;

use super::args::TrainArgs;
use crate::failure::Failure;
use crate::master::no_tasks;

/// The argument that names weights.
const INIT: &str = "--init";

/// How a run is started.
#[derive(Clone, Debug)]
pub(super) struct RunOptions {
    /// The engine of a task that it is of; `None` where it is the only run.
    pub(super) engine: Option<String>,
    /// Its run directory.
    pub(super) out: PathBuf,
    pub(super) overwrite: bool,
    pub(super) resume: bool,
    pub(super) step: Option<u64>,
    pub(super) init: Option<PathBuf>,
    /// What names them, as messages call it: the argument, or the key of a task.
    pub(super) init_is_from: String,
    pub(super) rescue: Option<PathBuf>,
    pub(super) trace: bool,
    pub(super) trace_steps: Option<TracedSteps>,
}

impl RunOptions {
    /// These, with the weights that the run file names, where neither the command nor a task names any.
    pub(super) fn or_weights_of(mut self, file: &RunFile) -> Self {
        if self.init.is_none() {
            self.init = file.initial_weights();
            self.init_is_from = "`init.from`: ".to_owned();
        }
        self
    }
}

impl TrainArgs {
    /// The folder of what is written.
    pub(super) fn out(&self) -> PathBuf {
        self.out.clone().unwrap_or_else(|| RunDir::default_path(&self.run.run))
    }

    /// Of the one run of a run file.
    ///
    /// # Errors
    /// When an argument is about several engines.
    pub(super) fn of_one(&self) -> Result<RunOptions, Failure> {
        if let Some(task) = &self.task {
            return Err(no_tasks(task, &self.run.name()));
        }
        if self.init.len() > 1 {
            let error = "--init stands several times: a run begins with the weights of one; of several engines in a master file write \
                         --init ENGINE=DIR for each";
            return Err(Failure::Input(error.into()));
        }
        Ok(self.with(None, self.init.first().cloned(), format!("{INIT} ")))
    }

    /// Of an engine of a task.
    ///
    /// # Errors
    /// When an argument cannot be given for several engines.
    pub(super) fn of_engines(&self, task: &Task) -> Result<Vec<RunOptions>, Failure> {
        if let Some(step) = self.step {
            return Err(only_for_one(&format!("--step {step}"), &self.out()));
        }
        if let Some(rescue) = &self.rescue {
            return Err(only_for_one(&format!("--rescue {}", rescue.display()), &self.out()));
        }
        let inits = self.inits(task)?;
        let of = |name: &String| {
            let named = inits.iter().find(|(engine, _)| engine == name).map(|(_, path)| path.clone());
            let from = match named {
                Some(_) => format!("{INIT} {name}="),
                None => format!("`tasks.{}.init.{name}`: ", task.name),
            };
            let init = named.or_else(|| task.init_of(name).map(Path::to_owned));
            self.with(Some(name), init, from)
        };
        Ok(task.engines().iter().map(of).collect())
    }

    /// The weights with which engines begin.
    fn inits(&self, task: &Task) -> Result<Vec<(String, PathBuf)>, Failure> {
        let mut inits: Vec<(String, PathBuf)> = Vec::new();
        let engines = task.engines();
        for init in &self.init {
            let named = init.to_str().and_then(|text| text.split_once('='));
            let engine = named.filter(|(engine, _)| engines.iter().any(|known| known == engine));
            let fault = match engine {
                None => "it names no engine of the task",
                Some((engine, _)) if inits.iter().any(|(known, _)| known == engine) => {
                    "this engine has weights to begin with already"
                }
                Some((engine, path)) => {
                    inits.push((engine.to_owned(), path.into()));
                    continue;
                }
            };
            let error = format!(
                "--init {}: {fault}: of several engines write --init ENGINE=DIR, with each of these at most once: {}",
                init.display(),
                engines.join(", ")
            );
            return Err(Failure::Input(error.into()));
        }
        Ok(inits)
    }

    fn with(&self, engine: Option<&String>, init: Option<PathBuf>, init_is_from: String) -> RunOptions {
        RunOptions {
            engine: engine.cloned(),
            out: engine.map_or_else(|| self.out(), |engine| self.out().join(engine)),
            overwrite: self.overwrite,
            resume: self.resume,
            step: self.step,
            init,
            init_is_from,
            rescue: self.rescue.clone(),
            trace: self.trace,
            trace_steps: self.trace_steps.clone(),
        }
    }
}

/// The error that an argument is for one run alone, and how an engine becomes one.
fn only_for_one(argument: &str, out: &Path) -> Failure {
    let out = out.display();
    let error = format!(
        "{argument} is for one run, and a task has several engines: an engine goes on alone with pipezero resume {out}/ENGINE"
    );
    Failure::Input(error.into())
}
