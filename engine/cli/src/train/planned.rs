//! The engines of a task before their ranks start: each planned as if it were alone, with what it is given on the command line.

use std::ops::Range;
use std::path::{Path, PathBuf};

use pipezero_config::{JobRanks, MasterFile, MasterProblem, Part, Resources, RunFile, Task};
use pipezero_plan::Plan;

use super::options::RunOptions;
use crate::failure::Failure;
use crate::notices::Notices;
use crate::output::ProcessOutput;
use crate::task_plans::{EnginePlan, TaskPlans, task_plans};
use crate::unused_parts::unused_parts;

/// An engine that is trained, before its ranks start.
pub(super) struct Planned {
    pub(super) name: String,
    pub(super) file: RunFile,
    pub(super) plan: Plan,
    pub(super) notices: Notices,
    pub(super) options: RunOptions,
    /// Its ranks of the job.
    pub(super) ranks: Range<usize>,
}

impl Planned {
    /// The same, whose notices are printed through another output than that of the process.
    pub(super) fn with_output(self, output: ProcessOutput) -> Self {
        Self { notices: self.notices.with_output(output), ..self }
    }
}

/// The engine of a task that computes logits for a student, before its ranks start.
pub(super) struct PlannedTeacher {
    pub(super) name: String,
    pub(super) student: String,
    pub(super) plan: Plan,
    pub(super) notices: Notices,
    pub(super) weights: PathBuf,
    /// Its ranks of the job.
    pub(super) ranks: Range<usize>,
}

/// The engines of a task.
pub(super) struct Engines {
    pub(super) trained: Vec<Planned>,
    pub(super) teacher: Option<PlannedTeacher>,
    /// Which ranks of the job they have.
    pub(super) ranks: JobRanks,
}

impl Engines {
    pub(super) fn plans(&self) -> impl Iterator<Item = &Plan> {
        let trained = self.trained.iter().map(|engine| &engine.plan);
        trained.chain(self.teacher.iter().map(|teacher| &teacher.plan))
    }
}

/// All engines, each planned as if it were alone.
pub(super) fn planned(
    master: &MasterFile,
    task: &Task,
    options: Vec<RunOptions>,
) -> Result<Engines, Failure> {
    let mut waiting = options.iter();
    let TaskPlans { engines: plans, ranks } =
        task_plans(master, task, Resources::this_host(), |engine, resources, distillation| {
            let options = waiting.next().expect("engines that are trained come first, each with its options");
            let options = options.clone().or_weights_of(&engine.file);
            options.planned(&options.keeping_batch(&engine.file), resources, distillation)
        })?;
    let mut engines = Engines { trained: Vec::new(), teacher: None, ranks };
    for (EnginePlan { engine, plan, notices, ranks, .. }, options) in plans.into_iter().zip(options) {
        let options = options.or_weights_of(&engine.file);
        let mut notices = notices;
        if let Some(Part::Teaches(_)) = task.part_of(&engine.name) {
            notices.extend(unused_parts(&plan, &engine.file, options.init.as_deref()));
        }
        let notices = Notices::new(engine.shown(), notices);
        let name = engine.name.clone();
        match task.part_of(&engine.name) {
            Some(Part::Teaches(student)) => {
                let no_weights = || task.error_at(&name, MasterProblem::NoWeights { name: name.clone() });
                let weights = options.init.clone().ok_or_else(|| Failure::Config(no_weights()))?;
                options.check_init(&plan).map_err(|failure| failure.of_engine(&name))?;
                check_apart(&name, &weights, &engines.trained)?;
                let student = student.to_owned();
                engines.teacher = Some(PlannedTeacher { name, student, plan, notices, weights, ranks });
            }
            _ => {
                let file = options.keeping_batch(&engine.file);
                engines.trained.push(Planned { name, file, plan, notices, options, ranks });
            }
        }
    }
    Ok(engines)
}

/// Refuses weights of a teacher in a run directory that the task writes: they would be replaced, or be the student's own.
fn check_apart(teacher: &str, weights: &Path, trained: &[Planned]) -> Result<(), Failure> {
    let place = |path: &Path| path.canonicalize().or_else(|_| std::path::absolute(path));
    let Ok(from) = place(weights) else { return Ok(()) };
    let is_inside = |engine: &&Planned| place(&engine.options.out).is_ok_and(|out| from.starts_with(out));
    let Some(engine) = trained.iter().find(is_inside) else { return Ok(()) };
    let error = format!(
        "the weights of `{teacher}`, {}, lie in the run directory of `{}`, which this task writes: name another folder with --out, or copy them elsewhere",
        weights.display(),
        engine.name
    );
    Err(Failure::Input(error.into()))
}
