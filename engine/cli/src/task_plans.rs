//! The plans of a task's engines, each in its part.

use std::collections::BTreeMap;
use std::ops::Range;

use pipezero_config::{
    EngineFile, JobRanks, MasterFile, MasterProblem, Notice, Part, Resources, Run, StudentRun, Task,
};
use pipezero_plan::Plan;
use serde_json::{Value, json};

use super::describe;
use super::failure::Failure;
use super::figures::{bytes, count, counted};
use super::master::resolve_all;
use super::table::Table;
use super::terminal;
use pipezero_models::Distillation;

/// The plan of an engine in its part of a task.
pub(super) struct EnginePlan {
    pub(super) engine: EngineFile,
    pub(super) plan: Plan,
    pub(super) notices: Vec<Notice>,
    /// Its ranks of the job.
    pub(super) ranks: Range<usize>,
}

/// The plans of a task's engines, in its order, and which ranks they have.
pub(super) struct TaskPlans {
    pub(super) engines: Vec<EnginePlan>,
    pub(super) ranks: JobRanks,
}

impl TaskPlans {
    /// What stands above an engine's lines: its name, and its ranks where the task says them.
    pub(super) fn heading(&self, engine: &str) -> String {
        heading(&self.ranks, engine)
    }

    /// Where each engine is, where the task says it, as what follows on what the task does.
    pub(super) fn places(&self) -> Vec<String> {
        let place = |planned: &EnginePlan| {
            let name = &planned.engine.name;
            Some(format!("; {name} on {}", self.ranks.place_of(name)?))
        };
        self.engines.iter().filter_map(place).collect()
    }
}

/// The name of an engine, and its ranks where the task says them.
pub(super) fn heading(ranks: &JobRanks, engine: &str) -> String {
    let place = ranks.place_of(engine).map_or_else(String::new, |place| format!(" on {place}"));
    format!("engine {engine}{place}")
}

impl EnginePlan {
    /// Whether it takes gradients and keeps an optimizer; else it computes logits for a student.
    pub(super) fn trains(&self) -> bool {
        self.plan.run().trains()
    }

    /// What these of its ranks hold, logits included.
    pub(super) fn bytes_of(&self, ranks: impl IntoIterator<Item = usize> + Clone) -> u64 {
        let planned = self.plan.needed_bytes(ranks.clone());
        let of_logits = if self.trains() { 0 } else { self.plan.micro_batch_logits_bytes(ranks) };
        planned.saturating_add(of_logits)
    }

    /// What it takes of the host beside its ranks: the logits of a batch.
    pub(super) fn logits_bytes(&self) -> u64 {
        if self.trains() { 0 } else { self.plan.batch_logits_bytes() }
    }

    /// All of both.
    pub(super) fn all_bytes(&self) -> u64 {
        self.bytes_of(0..self.plan.grid().world_size()).saturating_add(self.logits_bytes())
    }
}

/// Plans the engines of a task, in its order; `trained` plans one that is trained.
///
/// # Errors
/// That of ranks that do not suit all engines, which share them; the mistakes in all run files, at their places; else that of a teacher whose logits are not of its student's shape, or of ranks that are not those
/// of the engines' grids; else the first other failure.
pub(super) fn task_plans(
    master: &MasterFile,
    task: &Task,
    resources: Resources,
    mut trained: impl FnMut(&EngineFile, Resources, Option<Distillation>) -> Result<(Plan, Vec<Notice>), Failure>,
) -> Result<TaskPlans, Failure> {
    master.check_shared_ranks(task, resources.ranks)?;
    let mut students: BTreeMap<String, Run> = BTreeMap::new();
    let mut plans = resolve_all(master, &task.engines(), |engine| {
        let resources = Resources { part: task.part_of_job(&engine.name), ..resources };
        let (plan, notices) = match task.part_of(&engine.name) {
            Some(Part::Teaches(name)) => {
                // Without its student there is nothing to say of it.
                let run = students.get(name).ok_or(Failure::SaidElsewhere)?;
                let student = StudentRun { name, run };
                Plan::for_inference(&engine.file, resources, student)?
            }
            part => {
                let distillation = match part {
                    Some(Part::Learns(distillation)) => Some(distillation),
                    Some(Part::Trains | Part::Teaches(_)) | None => None,
                };
                let (plan, notices) = trained(engine, resources, distillation)?;
                students.insert(engine.name.clone(), plan.run().clone());
                (plan, notices)
            }
        };
        let notices = engine.notices_in_place(notices);
        let mut engine = engine.clone();
        let data = plan.run().parallel.data;
        if resources.part.is_some() && data > 1 {
            // Alone it has no ranks that say it.
            engine.file = engine.file.set(&[format!("parallel.data={data}")])?;
        }
        Ok(EnginePlan { engine, plan, notices, ranks: 0..0 })
    })?;
    check_shapes(task, &plans)?;
    let grids = plans.iter().map(|planned| (planned.engine.name.as_str(), &planned.plan.run().parallel));
    let ranks = task.job_ranks(&grids.collect::<Vec<_>>(), resources.ranks)?;
    plans.iter_mut().for_each(|planned| planned.ranks = ranks.of(&planned.engine.name));
    Ok(TaskPlans { engines: plans, ranks })
}

/// Refuses a teacher that has no logits, or none that a student can be compared with.
fn check_shapes(task: &Task, plans: &[EnginePlan]) -> Result<(), Failure> {
    for teacher in plans {
        let Some(Part::Teaches(student)) = task.part_of(&teacher.engine.name) else { continue };
        let student = plans.iter().find(|plan| plan.engine.name == student);
        let student = student.expect("a teacher is planned after its student");
        if !teacher.plan.run().model.learns() {
            let name = teacher.engine.name.clone();
            return Err(Failure::Config(task.error_at(&name.clone(), MasterProblem::NoLogits { name })));
        }
        let length = |plan: &Plan| plan.micro_batch_shape().seq_length;
        for (key, size) in [("vocab_size", Plan::vocab_size as fn(&Plan) -> usize), ("seq_length", length)] {
            let of = |engine: &EnginePlan| (engine.engine.name.clone(), size(&engine.plan));
            if size(&teacher.plan) != size(&student.plan) {
                let (student, teacher) = (of(student), of(teacher));
                let name = teacher.0.clone();
                let problem = MasterProblem::OtherShape { key, student, teacher };
                return Err(Failure::Config(task.error_at(&name, problem)));
            }
        }
    }
    Ok(())
}

/// The first and the last rank that each engine has of the job.
pub(super) fn ranks_as_json(engines: &[EnginePlan]) -> Value {
    let of_engine = |planned: &EnginePlan| {
        let ranks = &planned.ranks;
        (planned.engine.name.clone(), json!([ranks.start, ranks.end - 1]))
    };
    Value::Object(engines.iter().map(of_engine).collect())
}

/// What a teacher does, and what it takes.
pub(super) fn text_of_teacher(plan: &Plan, student: &str, width: usize) -> String {
    let (grid, batch, shape) = (plan.grid(), plan.run().batch, plan.micro_batch_shape());
    let headline = format!(
        "computes the logits of {student}'s batches: {} parameters on pipeline {} x data {} ({}), {}, on each data rank {} of {}",
        count(plan.num_parameters()),
        grid.pipeline_degree,
        grid.data_degree,
        counted(grid.world_size(), "rank"),
        plan.run().precision.name(),
        describe::micro_batches(batch.num_micro_batches),
        counted(batch.micro_batch_size, "sequence"),
    );
    let memories = plan.memory().into_iter().step_by(grid.data_degree);
    let rows = memories.enumerate().map(|(rank, memory)| (format!("pipeline rank {rank}"), memory));
    let table = Table::of_memory("memory per rank", rows);
    let logits = format!(
        "logits of a batch: 4 bytes x {} x {} tokens x vocabulary {} = {} on this host; those of a micro-batch, {}, on each rank with the head",
        counted(batch.train_batch_size, "sequence"),
        shape.seq_length,
        plan.vocab_size(),
        bytes(plan.batch_logits_bytes()),
        bytes(plan.micro_batch_logits_bytes(0..grid.world_size()) / grid.data_degree as u64),
    );
    format!("{}\n{table:width$}{}\n", terminal::wrapped(&headline, width), terminal::wrapped(&logits, width))
}
