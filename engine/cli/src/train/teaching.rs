//! The engine of a task from whose logits another learns: its ranks, which may be in other processes than those of its student.

use std::ops::Range;
use std::sync::Arc;

use pipezero_comm::world::World;
use pipezero_plan::Plan;
use pipezero_run::engine::{LogitsHere, Together};
use pipezero_train::{EndedRun, InTurnError, Teacher};

use super::apart::Apart;
use super::place::Job;
use super::planned::PlannedTeacher;
use crate::agreement::said_once;
use crate::failure::Failure;
use crate::loaded_weights;
use crate::task_plans::{heading, text_of_teacher};
use crate::terminal;

/// The engine that teaches, with what connects its ranks.
pub(super) struct WaitingTeacher {
    pub(super) engine: PlannedTeacher,
    /// `None` in a process that has none of them.
    pub(super) world: Option<Arc<dyn World>>,
    /// The plan of its student.
    pub(super) student: Plan,
}

/// A teacher in a process that has no rank of its student.
pub(super) struct Teaching {
    pub(super) teacher: Teacher,
    pub(super) student: Plan,
    /// Its ranks of the job.
    pub(super) ranks: Range<usize>,
}

impl WaitingTeacher {
    /// What its ranks need of this process's host, if it has some.
    pub(super) fn together(&self) -> Option<Together<'_>> {
        let Self { engine, world, .. } = self;
        let world = &**world.as_ref()?;
        Some(Together { name: &engine.name, plan: &engine.plan, world })
    }

    /// The logits that it computes, which all processes have that have a rank of it or of its student.
    pub(super) fn logits<'a>(&'a self, apart: Option<&'a Apart>) -> Option<LogitsHere<'a>> {
        let Self { engine, world, .. } = self;
        let world = apart.map(|apart| &apart.job).or(world.as_ref())?;
        Some(LogitsHere { name: &engine.name, plan: &engine.plan, world: &**world })
    }

    /// Starts the ranks of a teacher, as far as this process has them.
    pub(super) fn start(self, Job { process, ranks, apart, .. }: &Job<'_>) -> Result<Teacher, Failure> {
        let PlannedTeacher { name, student, plan, notices, weights, ranks: own } = self.engine;
        let output = process.output_of(&own);
        output.note(heading(ranks, &name));
        output.note(text_of_teacher(&plan, &student, terminal::width()).trim_end());
        drop(notices.with_output(output));
        let teacher = match (apart, self.world) {
            (Some(apart), world) => Teacher::in_job(name, plan, world, &weights, Arc::clone(&apart.job)),
            (None, Some(world)) => Teacher::start(name, plan, world, &weights),
            (None, None) => unreachable!("without ranks of its own each engine has all processes"),
        };
        let teacher = teacher.map_err(|error| said_once(error, process.rank_of_several(&own)))?;
        if let Some(engine) = teacher.engine() {
            loaded_weights::say(output, engine.loaded_weights());
            output.note(terminal::fitted(&format!("computing on: {}", engine.device_name())));
        }
        Ok(teacher)
    }
}

impl Teaching {
    /// Computes logits until the student has ended, and ends with the job.
    pub(super) fn until_the_student_ends(
        mut self,
        apart: &Apart,
        is_interrupted: &dyn Fn() -> bool,
    ) -> Result<Vec<EndedRun>, Failure> {
        let name = self.teacher.name().to_owned();
        let ended = self.teacher.serve(&self.student, is_interrupted);
        let ended = ended.map(|()| Vec::new()).map_err(|error| InTurnError {
            name: name.clone(),
            error: Box::new(error),
            others: Vec::new(),
        });
        apart.end(ended, &[(name, self.ranks)])
    }
}
