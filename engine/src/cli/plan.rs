//! `pipezero plan`.

use clap::Args;

use super::failure::Failure;
use super::output::print;
use super::run_args::{RunArgs, print_notices};
use super::table::Table;
use super::units::{bytes, count};
use crate::config::{ReductionPolicy, ZeroLevel};
use crate::plan::{Plan, RankForecast};

/// What `--help` ends with.
pub(super) const EXAMPLES: &str = "\
Examples:
  pipezero plan run.json
  pipezero plan run.json --set zero_optimization.stage=1          the same run with another ZeRO level
  pipezero plan run.json --json | jq '.ranks[].memory.peak'       bytes per rank";

/// Arguments of `plan`.
#[derive(Debug, Args)]
pub(super) struct PlanArgs {
    #[command(flatten)]
    run: RunArgs,
    /// Print JSON: `ranks[]` with layers, units, memory and traffic in bytes.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &PlanArgs) -> Result<(), Failure> {
    let (run, notices) = args.run.resolve()?;
    print_notices(&notices);
    let plan = Plan::new(run)?;
    if args.json {
        let json = serde_json::json!({ "parameters": plan.num_parameters(), "ranks": plan.forecast() });
        print(format_args!("{json:#}\n"))?;
    } else {
        print(text(&plan))?;
    }
    Ok(())
}

fn text(plan: &Plan) -> String {
    let forecast = plan.forecast();
    let grid = plan.grid();
    // All data ranks of a pipeline rank are alike.
    let by_pipeline_rank: Vec<&RankForecast> = forecast.iter().step_by(grid.data_degree).collect();
    format!(
        "{} parameters, pipeline {} x data {}, {}, bubble {:.1}% of a step\n\n{}\n{}\n{}",
        count(plan.num_parameters()),
        grid.pipeline_degree,
        grid.data_degree,
        at_rest(plan),
        100.0 * plan.bubble_share(),
        stages(&by_pipeline_rank),
        memory(&by_pipeline_rank),
        traffic(&by_pipeline_rank),
    )
}

/// What is sharded between micro-batches.
fn at_rest(plan: &Plan) -> &'static str {
    match (plan.run().zero.level, plan.run().zero.reduce) {
        _ if plan.grid().data_degree == 1 => "nothing to shard (one data rank)",
        (ZeroLevel::Zero0, _) => "nothing sharded (ZeRO-0)",
        (ZeroLevel::Zero1, _) => "optimizer state sharded (ZeRO-1)",
        (ZeroLevel::Zero2, _) => "optimizer state and gradients sharded (ZeRO-2)",
        (ZeroLevel::Zero3, ReductionPolicy::Every) => {
            "optimizer state, gradients and parameters sharded (ZeRO-3)"
        }
        (ZeroLevel::Zero3, ReductionPolicy::Last) => {
            "optimizer state and parameters sharded, gradients whole until the last micro-batch (ZeRO-3)"
        }
    }
}

fn stages(ranks: &[&RankForecast]) -> Table {
    let mut table =
        Table::new(["pipeline rank", "parts", "units", "parameters", "in flight", "first", "last"]);
    for rank in ranks {
        // A transformer layer has two parts, attention and MLP; embedding, final norm and head are one each.
        table.row([
            rank.pipeline_rank.to_string(),
            rank.layers.len().to_string(),
            rank.units.len().to_string(),
            count(rank.parameters),
            rank.in_flight.to_string(),
            rank.layers.first().cloned().unwrap_or_default(),
            rank.layers.last().cloned().unwrap_or_default(),
        ]);
    }
    table
}

fn memory(ranks: &[&RankForecast]) -> Table {
    let header = [
        "memory per rank",
        "parameters",
        "gathered",
        "gradients",
        "optimizer",
        "activations",
        "communication",
        "peak",
    ];
    let mut table = Table::new(header);
    for rank in ranks {
        let figures = rank.memory.figures();
        table.row(std::iter::once(format!("pipeline rank {}", rank.pipeline_rank)).chain(figures.map(bytes)));
    }
    table
}

fn traffic(ranks: &[&RankForecast]) -> Table {
    let mut table =
        Table::new(["sent per rank and step", "all-gather", "reduce-scatter", "all-reduce", "send"]);
    for rank in ranks {
        let t = &rank.traffic;
        let kinds = [t.all_gather, t.reduce_scatter, t.all_reduce, t.send];
        let cells = kinds.map(|kind| format!("{} x, {}", kind.count, bytes(kind.bytes)));
        table.row(std::iter::once(format!("pipeline rank {}", rank.pipeline_rank)).chain(cells));
    }
    table
}
