//! `pipezero check` of a master file: every engine, whether a task uses it or not, and every task.

use std::collections::BTreeMap;
use std::path::Path;

use pipezero_config::{
    ConfigErrors, MasterFile, Notice, NoticeKind, Part, PartOfJob, Resources, Task, TaskKind,
};
use pipezero_models::Distillation;
use pipezero_plan::Plan;
use serde_json::{Map, Value, json};

use super::check::{CheckArgs, Checked, in_json};
use super::failure::Failure;
use super::figures::{bytes, counted};
use super::frozen_weights::may_be_drawn;
use super::initial_weights::{self, new_to_nothing};
use super::master::resolve_all;
use super::notices::Notices;
use super::origins::{text_of, with_origins};
use super::output::{note, print, print_json};
use super::run_args::{PlannedData, plan_with_data_of};
use super::task_plans::{EnginePlan, TaskPlans, ranks_as_json, task_plans, text_of_teacher};
use super::terminal;

impl CheckArgs {
    /// Checks every engine of a master file, whether a task uses it or not, and every task in which one engine computes for another.
    pub(super) fn check_all(&self, master: MasterFile) -> Result<(), Failure> {
        let names: Vec<String> = master.engines().map(str::to_owned).collect();
        let master = master.set(&self.run.set, &names)?;
        let trained: Vec<String> =
            names.iter().filter(|name| !only_teaches(&master, name)).cloned().collect();
        let engines = resolve_all(&master, &trained, |engine| {
            let resources = Resources { part: part_of_job(&master, &engine.name), ..Resources::this_host() };
            let of_task = init_of_tasks(&master, &engine.name);
            let mut checked = Checked::of(&engine.file, resources, learns(&master, &engine.name))?
                .beginning_with(&engine.file, of_task)?;
            if master.tasks().iter().all(|task| task.init_of(&engine.name).is_none()) {
                let hint = may_be_drawn(&checked.plan, &engine.file, Some(&engine.name));
                checked.notices.extend(hint);
                checked.notices.extend(new_to_nothing(&engine.file, NoticeKind::Hint));
            }
            checked.notices = engine.notices_in_place(std::mem::take(&mut checked.notices));
            Ok((engine.shown(), checked))
        })?;
        // Engines that are trained, each on its own and on ranks that it shares, are those above.
        let is_planned_anew = |task: &&Task| !matches!(task.kind, TaskKind::Train(_)) || task.says_ranks();
        let mut of_tasks = Vec::new();
        for task in master.tasks().iter().filter(is_planned_anew) {
            of_tasks.push((
                task,
                task_plans(&master, task, Resources::this_host(), |engine, resources, distillation| {
                    let PlannedData { plan, notices, .. } =
                        plan_with_data_of(&engine.file, resources, distillation)?;
                    Ok((plan, notices))
                })?,
            ));
        }
        let plans_of: BTreeMap<&str, &Plan> = trained
            .iter()
            .map(String::as_str)
            .zip(engines.iter().map(|(_, checked)| &checked.plan))
            .collect();
        let of_weights = check_initial_weights(&master, &of_tasks, &plans_of)?;
        let together = memory_of_tasks(&master, &of_tasks, &plans_of);
        if self.json {
            let runs = trained.iter().zip(engines.iter().map(|(_, checked)| checked.as_json())).collect();
            print_json(format_args!("{}\n", all_in_json(&master, runs, &of_tasks, &together)))?;
            engines.into_iter().for_each(|(file, checked)| drop(Notices::new(file, checked.notices)));
            self.say_of_tasks(&master, of_weights);
            return Ok(());
        }
        let mut engines: BTreeMap<&String, (String, Checked)> = trained.iter().zip(engines).collect();
        for name in &names {
            print(format_args!("engine {name}\n"))?;
            match engines.remove(name) {
                Some((file, checked)) => drop(checked.print(file)?),
                None => print_teacher(&of_tasks, name)?,
            }
            print("\n")?;
        }
        print_tasks(&master, &of_tasks, &together)?;
        say_of_teachers(&master, &of_tasks);
        self.say_of_tasks(&master, of_weights);
        let counts = [counted(names.len(), "engine"), counted(master.tasks().len(), "task")];
        let verdict = format!("{} is a valid master file: {}", self.run.name(), counts.join(", "));
        print(format_args!("{}\n", terminal::fitted(&verdict)))?;
        Ok(())
    }

    /// Prints what `train` needs for the tasks beside the file.
    fn say_of_tasks(&self, master: &MasterFile, of_weights: Vec<Notice>) {
        let names_weights = |task: &Task| {
            task.engines().iter().any(|name| {
                matches!(task.part_of(name), Some(Part::Teaches(_)))
                    && master.engine(name).is_ok_and(|teacher| teacher.file.initial_weights().is_some())
            })
        };
        let tasks = master.tasks().iter().filter(|task| !names_weights(task));
        let warnings = tasks.flat_map(Task::warnings).chain(of_weights).collect();
        drop(Notices::new(self.run.name(), warnings));
    }
}

/// Refuses weights of tasks and of teachers that are missing or do not fit, as for a single run. Returns a hint for each path that another task may
/// write first.
fn check_initial_weights(
    master: &MasterFile,
    of_tasks: &[(&Task, TaskPlans)],
    plans_of: &BTreeMap<&str, &Plan>,
) -> Result<Vec<Notice>, Failure> {
    let (mut hints, mut mistakes) = (Vec::new(), Vec::new());
    for task in master.tasks() {
        let anew = plans_of_task(of_tasks, task).map(|plans| &plans.engines);
        for name in task.engines() {
            let teaches = matches!(task.part_of(&name), Some(Part::Teaches(_)));
            if task.init_of(&name).is_none() && !teaches {
                continue;
            }
            let planned = anew.into_iter().flatten().find(|planned| planned.engine.name == name);
            let Some(plan) = planned.map(|planned| &planned.plan).or(plans_of.get(&*name).copied()) else {
                continue;
            };
            let has_others = master.tasks().len() > 1;
            match initial_weights::check_of_task(task, &master.engine(&name)?, plan, has_others) {
                Err(Failure::Config(errors)) => mistakes.push(errors),
                checked => hints.extend(checked?),
            }
        }
    }
    if mistakes.is_empty() { Ok(hints) } else { Err(Failure::Config(ConfigErrors::joined(mistakes))) }
}

/// The plans of a task, if it has its own.
fn plans_of_task<'a>(of_tasks: &'a [(&Task, TaskPlans)], task: &Task) -> Option<&'a TaskPlans> {
    of_tasks.iter().find(|(of, _)| of.name == task.name).map(|(_, plans)| plans)
}

/// Whether tasks use an engine, and none trains it.
fn only_teaches(master: &MasterFile, name: &str) -> bool {
    let mut parts = master.tasks().iter().filter_map(|task| task.part_of(name)).peekable();
    parts.peek().is_some() && parts.all(|part| matches!(part, Part::Teaches(_)))
}

/// The weights that the first task names for an engine, if every task that uses the engine names some. Then no run begins with those of its own file.
fn init_of_tasks<'a>(master: &'a MasterFile, name: &str) -> Option<&'a Path> {
    let using = || master.tasks().iter().filter(|task| task.part_of(name).is_some());
    using().next()?.init_of(name).filter(|_| using().all(|task| task.init_of(name).is_some()))
}

/// Its ranks in the first task that says which they are: they may be its data degree.
fn part_of_job(master: &MasterFile, name: &str) -> Option<PartOfJob> {
    let mut using = master.tasks().iter().filter(|task| task.part_of(name).is_some());
    using.find_map(|task| task.part_of_job(name))
}

/// How an engine learns from a teacher, if no task trains it on its own.
fn learns(master: &MasterFile, name: &str) -> Option<Distillation> {
    let parts = || master.tasks().iter().filter_map(|task| task.part_of(name));
    let learns = parts().find_map(|part| match part {
        Part::Learns(distillation) => Some(distillation),
        Part::Trains | Part::Teaches(_) => None,
    });
    learns.filter(|_| !parts().any(|part| part == Part::Trains))
}

/// What an engine is that is not trained, as the first task has it that uses it.
fn print_teacher(of_tasks: &[(&Task, TaskPlans)], name: &str) -> Result<(), Failure> {
    for (task, plans) in of_tasks {
        let planned = plans.engines.iter().find(|planned| planned.engine.name == name);
        if let (Some(planned), Some(Part::Teaches(student))) = (planned, task.part_of(name)) {
            let width = terminal::width();
            let origins = text_of(&planned.engine.file.origins(), width);
            print(text_of_teacher(&planned.plan, student, width) + &origins)?;
            notices_of(planned);
            break;
        }
    }
    Ok(())
}

/// Prints what each task does, and its memory.
fn print_tasks(
    master: &MasterFile,
    of_tasks: &[(&Task, TaskPlans)],
    together: &BTreeMap<&String, u64>,
) -> Result<(), Failure> {
    for task in master.tasks() {
        let does = match &task.kind {
            TaskKind::Distill { student, teacher, .. } => {
                format!("trains {student} on the logits of {teacher}")
            }
            _ => format!("trains {}", task.trained().join(", ")),
        };
        let places: String = plans_of_task(of_tasks, task).into_iter().flat_map(TaskPlans::places).collect();
        let line =
            format!("task {}: {does}{places}; {} of memory in all", task.name, bytes(together[&task.name]));
        print(format_args!("{}\n", terminal::fitted(&line)))?;
    }
    Ok(())
}

/// Prints what is worth knowing of the files of engines that teach in some task and are trained in others, of which that is not all.
fn say_of_teachers(master: &MasterFile, of_tasks: &[(&Task, TaskPlans)]) {
    let teachers = of_tasks.iter().flat_map(|(_, plans)| &plans.engines);
    let mut teachers: Vec<&EnginePlan> = teachers.filter(|planned| !planned.trains()).collect();
    teachers.sort_by_key(|planned| &planned.engine.name);
    teachers.dedup_by_key(|planned| &planned.engine.name);
    for planned in teachers.into_iter().filter(|planned| !only_teaches(master, &planned.engine.name)) {
        note(format_args!("\nengine {} where it computes for another:", planned.engine.name));
        notices_of(planned);
    }
}

/// Prints what is worth knowing of an engine's file in its part of a task.
fn notices_of(planned: &EnginePlan) {
    drop(Notices::new(planned.engine.shown(), planned.notices.clone()).in_full());
}

/// Bytes of each task: of all its engines, and of logits.
fn memory_of_tasks<'a>(
    master: &'a MasterFile,
    of_tasks: &[(&Task, TaskPlans)],
    plans_of: &BTreeMap<&str, &Plan>,
) -> BTreeMap<&'a String, u64> {
    let of_task = |task: &'a Task| {
        let of_engines: Vec<u64> = match plans_of_task(of_tasks, task) {
            Some(plans) => plans.engines.iter().map(EnginePlan::all_bytes).collect(),
            None => task.trained().iter().map(|name| plans_of[name.as_str()].needs().world_bytes).collect(),
        };
        (&task.name, of_engines.into_iter().fold(0, u64::saturating_add))
    };
    master.tasks().iter().map(of_task).collect()
}

/// The runs of all engines, those that are trained and those that only teach, and what the tasks do.
fn all_in_json<'a>(
    master: &MasterFile,
    mut runs: BTreeMap<&'a String, Value>,
    of_tasks: &'a [(&Task, TaskPlans)],
    together: &BTreeMap<&String, u64>,
) -> String {
    for planned in of_tasks.iter().flat_map(|(_, plans)| &plans.engines) {
        let run = || with_origins(planned.plan.run(), &planned.engine.file.origins());
        runs.entry(&planned.engine.name).or_insert_with(run);
    }
    let tasks = master.tasks().iter().map(|task| {
        let plans = of_tasks.iter().find(|(of, _)| of.name == task.name).map(|(_, plans)| plans);
        (task.name.clone(), task_as_json(task, plans, together[&task.name]))
    });
    let tasks: Map<String, Value> = tasks.collect();
    in_json(&json!({ "engines": runs, "tasks": tasks }))
}

/// What a task does, with which weights its engines begin, which ranks they have where the file says it, and the memory of all.
fn task_as_json(task: &Task, plans: Option<&TaskPlans>, memory_bytes: u64) -> Value {
    let mut json = match &task.kind {
        TaskKind::Distill { student, teacher, distillation } => json!({ "distill": {
            "student": student, "teacher": teacher,
            "temperature": distillation.temperature, "alpha": distillation.alpha,
        } }),
        _ => json!({ "train": task.trained() }),
    };
    let inits = task.engines().into_iter().filter_map(|name| {
        let path = task.init_of(&name)?.display().to_string();
        Some((name, Value::String(path)))
    });
    let inits: Map<String, Value> = inits.collect();
    if !inits.is_empty() {
        json["init"] = Value::Object(inits);
    }
    if let Some(plans) = plans.filter(|plans| plans.ranks.are_said()) {
        json["ranks"] = ranks_as_json(&plans.engines);
    }
    json["memory_bytes"] = json!(memory_bytes);
    json
}
