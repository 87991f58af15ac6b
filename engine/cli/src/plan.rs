//! `pipezero plan`.

use clap::Args;
use pipezero_config::{GivenFile, MasterFile, Part, ResidencyConfig, Resources, ZeroLevel};
use pipezero_plan::costs::{DeviceSpec, Source};
use pipezero_plan::what_if::{Simulation, device_diagnostics, one_gradient_buffer};
use pipezero_plan::{BesideZero1, Persistent, Plan, RankForecast, ResidencyCost};
use pipezero_run::engine::ProcessNeeds;
use serde_json::{Value, json};

use super::describe;
use super::device::{device, measured};
use super::failure::Failure;
use super::figures::{bytes, count, counted, percent};
use super::in_use::{InUse, too_long};
use super::master::no_tasks;
use super::notices::Notices;
use super::output::{print, print_json};
use super::parameters;
use super::run_args::{RunArgs, resources_for};
use super::table::{MemoryColumns, Table};
use super::task_plans::{EnginePlan, ranks_as_json, task_plans, text_of_teacher};
use super::terminal;
use super::together::{bytes_together, memory_together};
use super::utilisation;

/// What `--help` ends with.
pub(super) const EXAMPLES: &str = "\
Examples:
  pipezero plan run.json
  pipezero plan run.json --set zero_optimization.stage=1
  pipezero plan run.json --set zero_optimization.resident_units=all
  pipezero plan run.json --device h100            # its speed too
  pipezero plan run.json --json | jq '.ranks[].memory.peak'   # bytes
  pipezero plan pair.json --task pair             # several models

With ZeRO-3 two more tables compare: each rank with itself under ZeRO-1, and the values of `resident_units`, as more units that stay gathered need fewer gathers and more memory.";

/// Arguments of `plan`.
#[derive(Debug, Args)]
pub(super) struct PlanArgs {
    #[command(flatten)]
    run: RunArgs,
    /// The task of a master file whose engines are planned, each for itself and all together [default: the only task].
    #[arg(long, value_name = "NAME")]
    task: Option<String>,
    /// Predict the speed on a device: h100, h200, a100 or cpu, which is this host.
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// List every parameter and what becomes of it: sharded, persistent or whole, trained or frozen.
    #[arg(long, conflicts_with = "json")]
    parameters: bool,
    /// Print JSON: `parameter_kinds[]` with the parameters of which the same becomes, `ranks[]` with layers, units, memory and traffic in bytes, `process` with what the process with most needs of its host's memory, `in_use` with the most of that memory which holds data at once, `beside_zero_1[]` with what each pipeline rank needs and sends under ZeRO-3 and ZeRO-1, and `residencies[]`, each figure that of the rank with the largest.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &PlanArgs) -> Result<(), Failure> {
    let resources = resources_for(args.device.as_deref());
    let file = match GivenFile::load(&args.run.run)? {
        GivenFile::Run(file) => file.set(&args.run.set)?,
        GivenFile::Master(master) => return args.plan_all(master, resources),
    };
    if let Some(task) = &args.task {
        return Err(no_tasks(task, &args.run.name()));
    }
    let (plan, notices) = Plan::from_file(&file, resources)?;
    let mut notices = Notices::new(args.run.name(), notices);
    if args.json {
        return Ok(print_json(format_args!("{:#}\n", args.json_of(&plan, &mut notices)?))?);
    }
    Ok(print(args.text_of(&plan, &mut notices)?)?)
}

impl PlanArgs {
    /// Plans the engines of a task of a master file.
    fn plan_all(&self, master: MasterFile, resources: Resources) -> Result<(), Failure> {
        let task = master.task(self.task.as_deref()).map_err(|error| Failure::Input(error.into()))?.clone();
        let master = master.set(&self.run.set, &task.engines())?;
        let mut plans = task_plans(&master, &task, resources, |engine, resources, distillation| {
            Ok(match distillation {
                Some(distillation) => Plan::of_student(&engine.file, resources, &|_| None, distillation)?,
                None => Plan::from_file(&engine.file, resources)?,
            })
        })?;
        let notices = plans
            .engines
            .iter_mut()
            .map(|engine| (engine.engine.shown(), std::mem::take(&mut engine.notices)));
        let notices: Vec<Notices> = notices.map(|(file, notices)| Notices::new(file, notices)).collect();
        let engines = &plans.engines;
        if self.json {
            let mut of_engines = serde_json::Map::new();
            for (EnginePlan { engine, plan, .. }, mut notices) in engines.iter().zip(notices) {
                let name = &engine.name;
                let json = match task.part_of(name) {
                    Some(Part::Teaches(_)) => teacher_as_json(plan),
                    _ => self.json_of(plan, &mut notices).map_err(|failure| failure.of_engine(name))?,
                };
                of_engines.insert(name.clone(), json);
            }
            let mut json = json!({ "engines": of_engines, "together": bytes_together(engines) });
            if plans.ranks.are_said() {
                json["ranks"] = ranks_as_json(engines);
            }
            return Ok(print_json(format_args!("{json:#}\n"))?);
        }
        for (EnginePlan { engine, plan, .. }, mut notices) in engines.iter().zip(notices) {
            let name = &engine.name;
            let text = match task.part_of(name) {
                Some(Part::Teaches(student)) => text_of_teacher(plan, student, terminal::width()),
                _ => self.text_of(plan, &mut notices).map_err(|failure| failure.of_engine(name))?,
            };
            print(format_args!("{}\n{text}", plans.heading(name)))?;
            drop(notices);
            print("\n")?;
        }
        Ok(print(memory_together(engines, terminal::width()))?)
    }

    fn device_of(&self, plan: &Plan) -> Result<Option<DeviceSpec>, Failure> {
        let Some(name) = self.device.as_deref() else { return Ok(None) };
        Ok(Some(measured(device(Some(name), plan)?, plan)?))
    }

    fn json_of(&self, plan: &Plan, notices: &mut Notices) -> Result<Value, Failure> {
        let device = self.device_of(plan)?;
        let Found { simulation, in_use, residencies } = Found::of(plan, device.as_ref(), notices)?;
        Ok(json!({
            "parameters": plan.num_parameters(),
            "frozen_parameters": plan.num_frozen_parameters(),
            "parameter_kinds": plan.parameter_kinds(),
            "bubble_share": plan.bubble_share(),
            "ranks": plan.forecast(),
            "process": ProcessNeeds::of_fullest(plan),
            "in_use": in_use,
            "beside_zero_1": plan.beside_zero_1(),
            "residencies": residencies,
            "vocabulary_slices": plan.run().model.gpt().map(|gpt| gpt.vocabulary.num_slices),
            "head_logits": plan.head_logits_cost(),
            "predicted": simulation.map(|of| json!({
                "step_s": of.step().step_s(),
                "tokens_per_s": of.step().tokens_per_s(),
                "each_rank": utilisation::as_json(&of.utilisation()),
            })),
        }))
    }

    fn text_of(&self, plan: &Plan, notices: &mut Notices) -> Result<String, Failure> {
        let device = self.device_of(plan)?;
        let Found { simulation, in_use, residencies } = Found::of(plan, device.as_ref(), notices)?;
        let width = terminal::width();
        let mut all = text(plan, self.parameters, in_use.as_ref(), width);
        if self.parameters {
            all += &format!("\n{}", parameters::each(plan, width));
        }
        if !plan.beside_zero_1().is_empty() {
            all += &format!("\n{}", zero_1_table(plan, width));
        }
        if let Some(costs) = residencies.filter(|costs| !costs.is_empty()) {
            all += &format!("\n{}", residency_table(plan, &costs, width));
        }
        Ok(all + &format!("\n{}\n", speed(plan, simulation.as_ref(), width)))
    }
}

/// A teacher's ranks with the memory of inference, and the bytes of the logits of a batch.
fn teacher_as_json(plan: &Plan) -> Value {
    let ranks = plan.forecast().into_iter().zip(plan.memory());
    let ranks = ranks.map(|(rank, memory)| {
        json!({ "rank": rank.rank, "pipeline_rank": rank.pipeline_rank, "data_rank": rank.data_rank,
            "layers": rank.layers, "units": rank.units, "parameters": rank.parameters, "memory": memory })
    });
    json!({
        "parameters": plan.num_parameters(),
        "ranks": ranks.collect::<Vec<_>>(),
        "logits": plan.batch_logits_bytes(),
    })
}

/// What is worked out from a plan.
struct Found<'a> {
    simulation: Option<Simulation<'a>>,
    in_use: Option<InUse>,
    residencies: Option<Vec<ResidencyCost>>,
}

impl<'a> Found<'a> {
    fn of(plan: &'a Plan, device: Option<&'a DeviceSpec>, notices: &mut Notices) -> Result<Self, Failure> {
        let simulation = match device {
            Some(device) => {
                device_diagnostics(plan, device).into_iter().for_each(|diagnostic| notices.add(diagnostic));
                let source = Source::Analytic(device);
                one_gradient_buffer(plan, source)?.into_iter().for_each(|hint| notices.add(hint));
                Some(Simulation::new(plan, source, None)?)
            }
            None => None,
        };
        let in_use = match (&simulation, device) {
            (Some(simulation), Some(device)) => Ok(InUse::in_step(simulation, device)?),
            _ => InUse::unasked(plan),
        };
        let residencies = plan.residencies_in_time()?;
        if let Err(why) = &in_use {
            notices.add(format_args!("what is in use at once is not known: {why}"));
        }
        if residencies.is_none() && plan.run().zero.level == ZeroLevel::Zero3 {
            let why = if plan.num_instructions() > Plan::COMPARED_INSTRUCTIONS_MAX {
                too_long(plan)
            } else {
                format!("instructions x units of a rank are more than {}", Plan::COMPARED_CHOICES_MAX)
            };
            notices.add(format_args!("residencies are not compared: {why}"));
        }
        Ok(Self { simulation, in_use: in_use.ok(), residencies })
    }
}

/// How fast a device would be, and the memory that is left on it.
fn speed(plan: &Plan, simulation: Option<&Simulation<'_>>, width: usize) -> String {
    let text = match simulation {
        None => format!(
            "memory: {}\nprocess: {}\nspeed: --device {} predicts it",
            describe::memory(plan, plan.run().memory_bytes),
            describe::process(plan),
            DeviceSpec::NAMES.join(" or ")
        ),
        Some(simulation) => utilisation::of_step(simulation),
    };
    let vocabulary = describe::vocabulary(plan).unwrap_or_default();
    terminal::wrapped_after(&format!("{vocabulary}{text}"), width, 4)
}

fn text(plan: &Plan, lists_parameters: bool, in_use: Option<&InUse>, width: usize) -> String {
    let forecast = plan.forecast();
    let grid = plan.grid();
    // All data ranks of a pipeline rank have the same figures.
    let by_pipeline_rank: Vec<&RankForecast> = forecast.iter().step_by(grid.data_degree).collect();
    let name = |rank: &RankForecast| format!("pipeline rank {}", rank.pipeline_rank);
    let traffic = by_pipeline_rank.iter().map(|rank| (name(rank), rank.traffic));
    format!(
        "{}\n{}\n{:width$}{}\n{}{}\n{:width$}",
        terminal::wrapped(&headline(plan), width),
        describe::trained(plan)
            .map_or_else(String::new, |line| format!("{}\n", terminal::wrapped(&line, width))),
        stages(&by_pipeline_rank),
        listed(plan, width),
        parameters::kinds(plan, lists_parameters, width),
        memory_table(&by_pipeline_rank, in_use, width),
        Table::of_traffic("sent per rank and step", traffic),
    )
}

/// What each rank allocates, by category, and how much of it is in use at once.
fn memory_table(ranks: &[&RankForecast], in_use: Option<&InUse>, width: usize) -> String {
    let columns = MemoryColumns::of(ranks.iter().map(|rank| &rank.memory));
    let header = ["memory per rank"].into_iter().chain(columns.names());
    let mut table = Table::new(header.chain(in_use.map(|_| "in use")));
    for rank in ranks {
        let in_use = in_use.map(|of| of.peak_used_bytes[rank.pipeline_rank]);
        let figures = columns.figures(&rank.memory).chain(in_use);
        table.row(format!("pipeline rank {}", rank.pipeline_rank), figures.map(bytes));
    }
    let Some(in_use) = in_use else { return format!("{table:width$}") };
    let what = format!(
        "peak: allocated before the first step; in use: the most of it that holds data at one moment of a step, simulated on {}",
        in_use.device
    );
    format!("{table:width$}{}\n", terminal::wrapped(&what, width))
}

/// What the run's list of names decides of every stage; a threshold's persistent units have a column of their own.
fn listed(plan: &Plan, width: usize) -> String {
    let has_list = !plan.run().zero.sharding.rules().is_empty();
    let lines = plan.parameters_that_stay().into_iter().filter(|_| has_list);
    lines.map(|line| format!("{}\n", terminal::wrapped(&line, width))).collect()
}

fn headline(plan: &Plan) -> String {
    let grid = plan.grid();
    let mut parts = vec![
        format!("{} parameters", count(plan.num_parameters())),
        format!("pipeline {} x data {}", grid.pipeline_degree, grid.data_degree),
        describe::schedule(plan),
        plan.run().precision.name().to_owned(),
        describe::at_rest(plan),
    ];
    parts.extend(describe::residency(plan));
    parts.extend(describe::checkpointing(plan));
    parts.push(format!("bubble {:.1}% of a step", 100.0 * plan.bubble_share()));
    parts.join(", ")
}

fn stages(ranks: &[&RankForecast]) -> Table {
    let several = ranks.iter().any(|rank| rank.stages.len() > 1);
    let persists = ranks.iter().any(|rank| rank.persistent.parameters > 0);
    let has_whole = ranks.iter().any(|rank| rank.whole.parameters > 0);
    let gathers = ranks.iter().any(|rank| rank.resident_units > 0);
    let header = std::iter::once("pipeline rank")
        .chain(several.then_some("stages"))
        .chain(["parts", "units"])
        .chain(gathers.then_some("gathered at once"))
        .chain(persists.then_some("stay gathered"))
        .chain(has_whole.then_some("whole"))
        .chain(["parameters", "in flight", "first", "last"]);
    let mut table = Table::new(header);
    for rank in ranks {
        let stages: Vec<String> = rank.stages.iter().map(usize::to_string).collect();
        let of_kind = |of: Persistent| {
            format!("{}, {} elements", counted(of.parameters, "parameter"), count(of.elements))
        };
        let cells = several
            .then(|| stages.join(", "))
            .into_iter()
            // A transformer layer has two parts, attention and MLP; embedding, final norm and head are one each.
            .chain([rank.layers.len().to_string(), rank.units.len().to_string()])
            .chain(gathers.then(|| rank.resident_units.to_string()))
            .chain(persists.then(|| of_kind(rank.persistent)))
            .chain(has_whole.then(|| of_kind(rank.whole)))
            .chain([
                count(rank.parameters),
                rank.in_flight.to_string(),
                rank.layers.first().cloned().unwrap_or_default(),
                rank.layers.last().cloned().unwrap_or_default(),
            ]);
        table.row(rank.pipeline_rank.to_string(), cells);
    }
    table
}

/// What each rank needs and sends beside what it would under ZeRO-1.
fn zero_1_table(plan: &Plan, width: usize) -> String {
    let ranks = plan.beside_zero_1();
    let least_tried = |rank: &BesideZero1| rank.least_tried_peak_bytes.map(bytes);
    let header = ["beside ZeRO-1", "peak", "ZeRO-1's", "of it"]
        .into_iter()
        .chain(ranks.first().and_then(least_tried).map(|_| "least of tried lists"))
        .chain(["sent per step", "ZeRO-1's"]);
    let mut table = Table::new(header);
    for rank in ranks {
        let cells = [bytes(rank.peak_bytes), bytes(rank.zero_1_peak_bytes), percent(rank.peak_share())]
            .into_iter()
            .chain(least_tried(rank))
            .chain([bytes(rank.sent_bytes), bytes(rank.zero_1_sent_bytes)]);
        table.row(format!("pipeline rank {}", rank.pipeline_rank), cells);
    }
    let least = 1 + plan.run().zero.prefetch_units;
    let mut what = "ZeRO-1's: on this split, with these slices and logits".to_owned();
    let own = &plan.run().zero.resident_units;
    if *own != ResidencyConfig::Units(least) && *own != ResidencyConfig::Strict {
        what += &format!(
            "; peak and bytes sent: with {}, the fewest that ZeRO-3 can have; the tables above are of what this run keeps",
            counted(least, "resident unit")
        );
    }
    format!("{table:width$}{}\n", terminal::wrapped(&what, width))
}

/// Gathers and memory of every residency, and which ranks the figures belong to.
fn residency_table(plan: &Plan, costs: &[ResidencyCost], width: usize) -> String {
    let mut table = Table::new(["resident_units", "all-gathers", "on one rank", "bytes sent", "memory"]);
    for cost in costs {
        let is_too_much = plan.run().memory_bytes.is_some_and(|limit| cost.peak_bytes > limit);
        let mark = match (cost.is_chosen, is_too_much) {
            (true, _) => " (this run)",
            (false, true) => " (exceeds `memory`)",
            (false, false) => "",
        };
        let cells = [
            cost.num_gathers_of_all.to_string(),
            cost.num_gathers.to_string(),
            bytes(cost.gathered_bytes),
            bytes(cost.peak_bytes),
        ];
        table.row(format!("{}{mark}", cost.resident_units), cells);
    }
    let of_which = "all-gathers: of a step on all pipeline ranks; on one rank, the bytes sent in them and memory: of the rank that has most";
    format!("{table:width$}{}\n", terminal::wrapped(of_which, width))
}

#[cfg(test)]
mod tests {
    use super::super::pages;
    use super::{InUse, residency_table, speed, text, zero_1_table};

    #[test]
    fn a_page_shows_the_real_output() {
        let (plan, excerpt) =
            pages::example("pipezero plan engine/configs/seed-48-layers.json --set parallel.data=8");
        let costs = plan.residencies().expect("the example is planned with every residency");
        let tables = [
            text(&plan, false, InUse::unasked(&plan).ok().as_ref(), pages::WIDTH),
            zero_1_table(&plan, pages::WIDTH),
            residency_table(&plan, &costs, pages::WIDTH),
        ]
        .join("\n");
        assert_eq!(format!("{tables}\n{}\n", speed(&plan, None, pages::WIDTH)), excerpt);
    }
}
