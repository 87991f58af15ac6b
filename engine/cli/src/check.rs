//! `pipezero check`.

use std::path::{Path, PathBuf};

use clap::Args;
use pipezero_config::{
    BackendName, Change, DeviceName, Fixed, GivenFile, ModelConfig, Notice, NoticeKind, Resources, RunFile,
    ValueOrigin,
};
use pipezero_files::input::{is_stdio, named};
use pipezero_files::partial::Existing;
use pipezero_models::Distillation;
use pipezero_models::queue::Cuda;
use pipezero_models::shared::GptConfig;
use pipezero_plan::Plan;
use pipezero_run::data::Inspected;
use serde_json::Value;

use super::describe;
use super::failure::Failure;
use super::figures::{count, counted, percent};
use super::frozen_weights::may_be_drawn;
use super::initial_weights;
use super::notices::Notices;
use super::origins::{text_of, with_origins};
use super::out_file::{OutFile, Written};
use super::output::{print, print_json};
use super::run_args::{PlannedData, RunArgs, not_found, plan_with_data_of};
use super::terminal;
use super::unread_weights::unread_weights;
use super::unused_parts::unused_parts;

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
    pub(super) run: RunArgs,
    /// Print JSON: the run with every default filled in, and, if the file extends another, `origins` with file and line of each value; of a master file `engines` with the run of each, and `tasks` with what each does, with which weights and on which ranks, and its memory.
    #[arg(long)]
    pub(super) json: bool,
    /// Write the file with every mistake mended that can mean one thing alone, comments kept, and check that. Not with --set, which the file would not hold.
    #[arg(long, conflicts_with_all = ["set", "json"])]
    fix: bool,
    /// Where --fix writes; `-` is stdout [default: NAME.fixed.json beside NAME.json]
    #[arg(long, value_name = "FILE", requires = "fix")]
    out: Option<PathBuf>,
    /// Replace the file of --out if it is a run file or a master file.
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
    let mut checked = Checked::of(&file, Resources::this_host(), None)?.beginning_with(&file, None)?;
    checked.notices.extend(may_be_drawn(&checked.plan, &file, None));
    checked.notices.extend(initial_weights::new_to_nothing(&file, NoticeKind::Hint));
    if args.json {
        print_json(format_args!("{}\n", in_json(&checked.as_json())))?;
        drop(Notices::new(args.run.name(), checked.notices));
        return Ok(());
    }
    let notices = checked.print(args.run.name())?;
    let verdict = format!("{} is a valid run{}", args.run.name(), with_notices(&notices));
    drop(notices);
    print(format_args!("\n{}\n", terminal::fitted(&verdict)))?;
    Ok(())
}

/// A run file in which nothing is wrong.
pub(super) struct Checked {
    pub(super) plan: Plan,
    pub(super) notices: Vec<Notice>,
    data: Option<Inspected>,
    /// Of its values, if it extends another file.
    pub(super) origins: Vec<ValueOrigin>,
}

impl Checked {
    pub(super) fn of(
        file: &RunFile,
        resources: Resources,
        distillation: Option<Distillation>,
    ) -> Result<Self, Failure> {
        let PlannedData { plan, mut notices, data } = plan_with_data_of(file, resources, distillation)?;
        if let Some(warning) = too_few_gpus(&plan) {
            notices.push(Notice::new(NoticeKind::Warning, &file.place(&["comm.backend"]), warning));
        }
        Ok(Self { plan, notices, data, origins: file.origins() })
    }

    /// Checks the weights with which the run begins too: those that a task names, or else those of its file.
    pub(super) fn beginning_with(mut self, file: &RunFile, of_task: Option<&Path>) -> Result<Self, Failure> {
        let own = file.initial_weights();
        if of_task.is_none() {
            self.notices.extend(initial_weights::check(&self.plan, file)?);
            self.notices.extend(unread_weights(file));
        }
        self.notices.extend(unused_parts(&self.plan, file, of_task.or(own.as_deref())));
        Ok(self)
    }

    /// The run with every default filled in.
    pub(super) fn as_json(&self) -> Value {
        with_origins(self.plan.run(), &self.origins)
    }

    /// Prints what it means; its notices, which stand in a file of this name, are still to be printed.
    pub(super) fn print(self, file: String) -> Result<Notices, Failure> {
        let (notices, autos) = Notices::new(file, self.notices).in_full_but_autos();
        let width = terminal::width();
        print(summary(&self.plan, self.data.as_ref(), &autos, width) + &text_of(&self.origins, width))?;
        Ok(notices)
    }
}

pub(super) fn in_json(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).expect("a run has string keys and finite depth")
}

impl CheckArgs {
    /// Writes the mended file and says what was changed, and prints what it means.
    fn fix(&self) -> Result<(), Failure> {
        let path = self.out.clone().unwrap_or_else(|| beside(&self.run.run));
        // Relative paths are checked where the file is to stand; what is printed replaces the file itself.
        let stands = if is_stdio(&path) { &self.run.run } else { &path };
        let folder = std::path::absolute(stands)?.parent().unwrap_or(Path::new("/")).to_owned();
        let found = GivenFile::fixed(&self.run.run, &folder, Resources::this_host(), &not_found);
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
    name: "run file or master file",
    writer: "check --fix",
    example: "run.fixed.json",
    is_such: |path| match GivenFile::load(path) {
        Ok(GivenFile::Run(file)) => file.has("model"),
        Ok(GivenFile::Master(_)) => true,
        Err(_) => false,
    },
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
        ("process", describe::process(plan)),
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
    let lengths = match plan.run().data.seq_lengths.as_slice() {
        [] => String::new(),
        [only] => format!("; sequences of {only} tokens"),
        lengths => {
            let lengths: Vec<String> = lengths.iter().map(usize::to_string).collect();
            format!("; sequences of {} tokens, as is drawn for each micro-batch", lengths.join(" or "))
        }
    };
    let at_most = if lengths.is_empty() { "" } else { "at most " };
    format!(
        "{} ({at_most}{} tokens): on each data rank {} of {}; {steps} steps{lengths}",
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
    let mut parts = vec![format!("{} on {device}", run.precision.name()), describe::at_rest(plan)];
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
