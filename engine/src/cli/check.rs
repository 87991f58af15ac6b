//! `pipezero check`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use pipezero_models::Distillation;
use pipezero_models::queue::Cuda;
use pipezero_models::shared::GptConfig;

use super::describe;
use super::failure::Failure;
use super::figures::{bytes, count, counted, percent};
use super::master::resolve_all;
use super::notices::Notices;
use super::out_file::{OutFile, Written};
use super::output::{note, print};
use super::run_args::{PlannedData, RunArgs, not_found, plan_with_data_of};
use super::task_plans::{EnginePlan, TaskPlans, task_plans, text_of_teacher};
use super::terminal;
use super::unread_weights::unread_weights;
use crate::config::{
    BackendName, Change, DeviceName, Fixed, GivenFile, Launch, MasterFile, ModelConfig, Notice, NoticeKind,
    Part, PartOfJob, RunFile, Task, TaskKind,
};
use crate::files::input::{is_stdio, named};
use crate::files::partial::Existing;
use crate::plan::{Plan, Purpose};
use crate::run::data::Inspected;

/// What `--help` ends with.
pub(super) const EXAMPLES: &str = "\
Examples:
  pipezero check run.json
  pipezero check run.json --set zero_optimization.stage=2
  pipezero check run.json --set memory=80GiB      # does every rank fit?
  pipezero check run.json --json | jq .batch      # every default filled in
  pipezero check run.json --fix                   # writes run.fixed.json
  pipezero check pair.json                        # every engine in it

The JSON is the run as the engine sees it, under the engine's own names: it is meant to be read, and `train` does not accept it. Of the data no more is read than the beginning of each file of tokens: a text must exist and, where its bytes are the tokens, be long enough.

Exit status: 0 for a valid file; 2 for a file with mistakes, which are all printed with line and column; 1 for a valid file that cannot be planned, for example if a rank does not fit `memory`.";

/// Arguments of `check`.
#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    run: RunArgs,
    /// Print JSON: the run with every default filled in.
    #[arg(long)]
    json: bool,
    /// Write the file with every mistake mended that can mean one thing alone, comments kept, and check that. Not with --set, which the file would not hold.
    #[arg(long, conflicts_with_all = ["set", "json"])]
    fix: bool,
    /// Where --fix writes; `-` is stdout [default: NAME.fixed.json beside NAME.json]
    #[arg(long, value_name = "FILE", requires = "fix")]
    out: Option<PathBuf>,
    /// Replace the file of --out if it is a run file.
    #[arg(long, requires = "fix")]
    overwrite: bool,
}

pub(super) fn run(args: &CheckArgs) -> Result<(), Failure> {
    if args.fix {
        return args.fix();
    }
    let file = match GivenFile::load(&args.run.run)? {
        GivenFile::Run(file) => file.set(&args.run.set)?,
        GivenFile::Master(master) => return args.check_all(master),
    };
    let checked = Checked::of(&file, Launch::this_host(), None)?;
    if args.json {
        print(format_args!("{}\n", in_json(checked.plan.run())))?;
        drop(Notices::new(args.run.name(), checked.notices));
        return Ok(());
    }
    let notices = checked.print(args.run.name())?;
    let verdict = format!("{} is a valid run{}", args.run.name(), with_notices(&notices));
    drop(notices);
    print(format_args!("\n{}\n", terminal::fitted(&verdict)))?;
    Ok(())
}

/// Whether tasks use an engine, and none trains it.
fn only_teaches(master: &MasterFile, name: &str) -> bool {
    let mut parts = master.tasks().iter().filter_map(|task| task.part_of(name)).peekable();
    parts.peek().is_some() && parts.all(|part| matches!(part, Part::Teaches(_)))
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
            print(text_of_teacher(&planned.plan, student, terminal::width()))?;
            notices_of(planned);
            break;
        }
    }
    Ok(())
}

/// Prints what is worth knowing of the files of engines that teach in some task and are trained in others, of which that is not all.
fn say_of_teachers(master: &MasterFile, of_tasks: &[(&Task, TaskPlans)]) {
    let teachers = of_tasks.iter().flat_map(|(_, plans)| &plans.engines);
    let mut teachers: Vec<&EnginePlan> =
        teachers.filter(|planned| planned.purpose == Purpose::Inference).collect();
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

/// A run file in which nothing is wrong.
struct Checked {
    plan: Plan,
    notices: Vec<Notice>,
    data: Option<Inspected>,
}

impl Checked {
    fn of(file: &RunFile, launch: Launch, distillation: Option<Distillation>) -> Result<Self, Failure> {
        let PlannedData { plan, mut notices, data } = plan_with_data_of(file, launch, distillation)?;
        if let Some(warning) = too_few_gpus(&plan) {
            notices.push(Notice::new(NoticeKind::Warning, &file.place(&["comm.backend"]), warning));
        }
        notices.extend(unread_weights(file));
        Ok(Self { plan, notices, data })
    }

    /// Prints what it means; its notices, which stand in a file of this name, are still to be printed.
    fn print(self, file: String) -> Result<Notices, Failure> {
        let (notices, autos) = Notices::new(file, self.notices).in_full_but_autos();
        print(summary(&self.plan, self.data.as_ref(), &autos, terminal::width()))?;
        Ok(notices)
    }
}

fn in_json(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).expect("a run has string keys and finite depth")
}

impl CheckArgs {
    /// Checks every engine of a master file, whether a task uses it or not, and every task in which one engine computes for another.
    fn check_all(&self, master: MasterFile) -> Result<(), Failure> {
        let names: Vec<String> = master.engines().map(str::to_owned).collect();
        let master = master.set(&self.run.set, &names)?;
        let trained: Vec<String> =
            names.iter().filter(|name| !only_teaches(&master, name)).cloned().collect();
        let engines = resolve_all(&master, &trained, |engine| {
            let launch = Launch { part: part_of_job(&master, &engine.name), ..Launch::this_host() };
            let checked = Checked::of(&engine.file, launch, learns(&master, &engine.name))?;
            let notices = engine.notices_in_place(checked.notices);
            Ok((engine.shown(), Checked { notices, ..checked }))
        })?;
        // Engines that are trained, each on its own and on ranks that it shares, are those above.
        let is_planned_anew = |task: &&Task| !matches!(task.kind, TaskKind::Train(_)) || task.says_ranks();
        let mut of_tasks = Vec::new();
        for task in master.tasks().iter().filter(is_planned_anew) {
            of_tasks.push((
                task,
                task_plans(&master, task, Launch::this_host(), |engine, launch, distillation| {
                    let PlannedData { plan, notices, .. } =
                        plan_with_data_of(&engine.file, launch, distillation)?;
                    Ok((plan, notices))
                })?,
            ));
        }
        let bytes_of: BTreeMap<&String, u64> =
            trained.iter().zip(engines.iter().map(|(_, checked)| checked.plan.needs().world_bytes)).collect();
        if self.json {
            let mut runs: BTreeMap<_, _> =
                trained.iter().zip(engines.iter().map(|(_, checked)| checked.plan.run())).collect();
            for planned in of_tasks.iter().flat_map(|(_, plans)| &plans.engines) {
                runs.entry(&planned.engine.name).or_insert_with(|| planned.plan.run());
            }
            print(format_args!("{}\n", in_json(&runs)))?;
            engines.into_iter().for_each(|(file, checked)| drop(Notices::new(file, checked.notices)));
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
        for task in master.tasks() {
            let anew = of_tasks.iter().find(|(of, _)| of.name == task.name);
            let of_engines: Vec<u64> = match anew {
                Some((_, plans)) => plans.engines.iter().map(EnginePlan::all_bytes).collect(),
                None => task.trained().iter().map(|name| bytes_of[name]).collect(),
            };
            let together = of_engines.into_iter().fold(0, u64::saturating_add);
            let does = match &task.kind {
                TaskKind::Distill { student, teacher, .. } => {
                    format!("trains {student} on the logits of {teacher}")
                }
                _ => format!("trains {}", task.trained().join(", ")),
            };
            let places: String = anew.iter().flat_map(|(_, plans)| plans.places()).collect();
            let line = format!("task {}: {does}{places}; {} of memory in all", task.name, bytes(together));
            print(format_args!("{}\n", terminal::fitted(&line)))?;
        }
        say_of_teachers(&master, &of_tasks);
        let counts = [counted(names.len(), "engine"), counted(master.tasks().len(), "task")];
        let verdict = format!("{} is a valid master file: {}", self.run.name(), counts.join(", "));
        print(format_args!("{}\n", terminal::fitted(&verdict)))?;
        Ok(())
    }

    /// Writes the mended file and says what was changed, and prints what it means.
    fn fix(&self) -> Result<(), Failure> {
        let path = self.out.clone().unwrap_or_else(|| beside(&self.run.run));
        // Relative paths are checked where the file is to stand; what is printed replaces the file itself.
        let stands = if is_stdio(&path) { &self.run.run } else { &path };
        let folder = std::path::absolute(stands)?.parent().unwrap_or(Path::new("/")).to_owned();
        let found = RunFile::fixed(&self.run.run, &folder, Launch::this_host(), &not_found);
        let Fixed { text, changes } = found.map_err(Failure::Unfixed)?;
        if is_stdio(&path) {
            return Ok(print(text)?);
        }
        if changes.is_empty() && self.out.is_none() {
            return Ok(print(format_args!("{}: there is nothing to mend\n", self.run.name()))?);
        }
        OutFile::new(&path, Existing::of(self.overwrite), MENDED)?.write(&text)?;
        for Change { line, from, to } in &changes {
            let from = if from.is_empty() { "nothing" } else { from };
            print(format_args!("{}:{line}: {from} -> {to}\n", self.run.name()))?;
        }
        print(format_args!("wrote {}\n\n", path.display()))?;
        let of_mended = RunArgs { run: path, set: Vec::new() };
        run(&Self { run: of_mended, json: false, fix: false, out: None, overwrite: false })
    }
}

/// `NAME.fixed.json` beside `NAME.json`.
fn beside(path: &Path) -> PathBuf {
    named(path).with_extension("fixed.json")
}

/// What --fix writes.
const MENDED: Written = Written {
    name: "run file",
    writer: "check --fix",
    example: "run.fixed.json",
    is_such: |path| RunFile::load(path).is_ok_and(|file| file.has("model")),
};

/// Columns before the text of a line.
const NAME_WIDTH: usize = 12;

/// The run in a line for each of its parts, and what each `"auto"` became.
fn summary(plan: &Plan, data: Option<&Inspected>, autos: &[Notice], width: usize) -> String {
    let mut parts = vec![
        ("model", model(plan)),
        ("grid", grid(plan)),
        ("step", step(plan)),
        ("state", state(plan)),
        ("memory", describe::memory(plan, plan.run().memory_bytes)),
        ("data", data.map_or_else(|| "none".to_owned(), |data| data_of(plan, data))),
    ];
    if let Some(trained) = describe::trained(plan) {
        parts.insert(1, ("model", trained));
    }
    parts.extend(autos.iter().map(|auto| ("auto", format!("`{}` is {}", auto.path(), auto.message()))));
    let mut of_last = "";
    let mut lines = String::new();
    for (name, text) in parts {
        let shown = if name == of_last { "" } else { name };
        let line = format!("{shown:<NAME_WIDTH$}{text}");
        lines += &format!("{}\n", terminal::wrapped_after(&line, width, NAME_WIDTH));
        of_last = name;
    }
    lines
}

fn model(plan: &Plan) -> String {
    let model = &plan.run().model;
    let parameters = count(plan.num_parameters());
    let family = model.facts().family;
    match model {
        ModelConfig::Gpt2(sizes) => of_tokens(family, &parameters, sizes, &heads_of(sizes)),
        ModelConfig::Llama(llama) => {
            let groups = counted(llama.num_query_groups, "head");
            let heads = format!("{} of {}, {groups} of keys", heads_of(&llama.gpt), llama.kv_channels);
            of_tokens(family, &parameters, &llama.gpt, &heads)
        }
        ModelConfig::Mlp(sizes) => of_tokens(family, &parameters, sizes, ""),
        ModelConfig::Timed(_) => {
            format!(
                "{family}, {parameters} parameters: {}, which learn nothing",
                counted(model.num_layers(), "layer")
            )
        }
    }
}

fn heads_of(sizes: &GptConfig) -> String {
    format!(" with {}", counted(sizes.num_attention_heads, "head"))
}

fn of_tokens(family: &str, parameters: &str, sizes: &GptConfig, heads: &str) -> String {
    format!(
        "{family}, {parameters} parameters: {} of width {}{heads}, sequences of {} tokens, vocabulary {}",
        counted(sizes.num_layers, "layer"),
        sizes.hidden_size,
        sizes.seq_length,
        sizes.vocab_size
    )
}

fn grid(plan: &Plan) -> String {
    let grid = plan.grid();
    format!(
        "pipeline {} x data {}: {}, {}, bubble {:.1}% of a step",
        grid.pipeline_degree,
        grid.data_degree,
        counted(grid.world_size(), "rank"),
        describe::schedule(plan),
        100.0 * plan.bubble_share()
    )
}

fn step(plan: &Plan) -> String {
    let (batch, steps) = (&plan.run().batch, plan.run().steps);
    let tokens = batch.train_batch_size as u64 * plan.micro_batch_shape().seq_length as u64;
    format!(
        "{} ({} tokens): on each data rank {} of {}; {steps} steps",
        counted(batch.train_batch_size, "sequence"),
        count(tokens),
        describe::micro_batches(batch.num_micro_batches),
        batch.micro_batch_size
    )
}

fn state(plan: &Plan) -> String {
    let run = plan.run();
    let device = match run.device {
        DeviceName::Cpu => "the CPU".to_owned(),
        DeviceName::Cuda => gpus(plan),
    };
    let mut parts = vec![format!("{} on {device}", run.precision.name()), describe::at_rest(plan).to_owned()];
    parts.extend(describe::residency(plan));
    parts.extend(describe::checkpointing(plan));
    parts.join(", ")
}

/// A warning where this host has fewer GPUs than a run needs whose ranks have one each. It may be another than the one that trains.
fn too_few_gpus(plan: &Plan) -> Option<String> {
    if plan.run().comm.backend != BackendName::Nccl {
        return None;
    }
    let num_ranks = plan.grid().world_size();
    let of_host = plan.run().comm.ranks_per_node.map_or(num_ranks, |of_host| of_host.min(num_ranks));
    let found = match Cuda::num_devices() {
        Ok(found) if found >= of_host => return None,
        Ok(found) => found.to_string(),
        Err(none) => format!("none ({})", none.in_short()),
    };
    Some(format!(
        "each rank has a GPU of its own: the run needs {} on a host, and this one has {found}",
        counted(of_host, "GPU")
    ))
}

/// The GPUs that a run computes on: those of this host, with the number of ranks by which each is used, unless each rank has its own.
fn gpus(plan: &Plan) -> String {
    let num_ranks = plan.grid().world_size();
    if plan.run().comm.backend == BackendName::Nccl {
        return format!("{}, one for each rank", counted(num_ranks, "GPU"));
    }
    match Cuda::names() {
        Err(none) => format!("GPUs, which this host lacks ({})", none.in_short()),
        Ok(names) => {
            let used = names.len().min(num_ranks);
            let share = match num_ranks.div_ceil(used) {
                1 => String::new(),
                ranks => format!(" (up to {ranks} ranks share one)"),
            };
            let gpu = if used == 1 { names[0].clone() } else { format!("{used} GPUs such as {}", names[0]) };
            format!("{gpu}{share}")
        }
    }
}

/// Where the data is, how much, and how often it is read.
fn data_of(plan: &Plan, inspected: &Inspected) -> String {
    let run = plan.run();
    let data = &run.data;
    let is_text = data.files.tokens.is_empty();
    let paths = if is_text { &data.text } else { &data.files.tokens };
    let mut found = match paths.split_first() {
        None => "none".to_owned(),
        Some((first, [])) => first.display().to_string(),
        Some((first, others)) => format!("{} and {} more", first.display(), others.len()),
    };
    if is_text && data.tokenizer.is_none() {
        found += ", each byte a token";
    }
    if let Some(tokenizer) = &data.tokenizer {
        found += &format!(", tokenizer {}", tokenizer.display());
    }
    if let Some(num_tokens) = inspected.num_tokens {
        let held_out = if data.files.validation_tokens.is_empty() { data.validation } else { 0.0 };
        let of_run =
            run.batch.train_batch_size as f64 * plan.micro_batch_shape().seq_length as f64 * run.steps as f64;
        let times = of_run / (num_tokens as f64 * (1.0 - held_out));
        found += &format!("; {} tokens", count(num_tokens));
        if held_out > 0.0 {
            found += &format!(", {} of them held out", percent(held_out));
        }
        // Sources with weights are each read as often as their weight says.
        if data.files.weights.is_empty() {
            let digits = if times < 10.0 { 2 } else { 0 };
            let read = if held_out > 0.0 { "the rest" } else { "them" };
            found += &format!("; all steps read {read} {times:.digits$} times");
        }
    }
    found
}

/// How many notices of each kind there are.
fn with_notices(notices: &Notices) -> String {
    let counts = [(NoticeKind::Warning, "warning"), (NoticeKind::Hint, "hint")];
    let counts = counts.map(|(kind, noun)| (notices.count(kind), noun));
    let found: Vec<String> = counts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, noun)| counted(count, noun))
        .collect();
    if found.is_empty() { String::new() } else { format!(", with {}", found.join(" and ")) }
}
