//! `pipezero show`.

use clap::{Args, ValueEnum};
use pipezero_plan::Plan;
use pipezero_schedule::render;

use super::failure::Failure;
use super::output::print;
use super::run_args::RunArgs;
use super::terminal;
use super::whole::whole;

/// What `--help` ends with.
pub(super) const EXAMPLES: &str = "\
Examples:
  pipezero show engine/configs/quickstart.json
  pipezero show run.json --set parallel.schedule=gpipe --width 100
  pipezero show run.json --set parallel.schedule=interleaved \\
    --set parallel.virtual_stages=2
  pipezero show run.json --format csv > order.csv    # to be edited, and run:
  pipezero train run.json --set 'parallel.schedule={\"file\": \"order.csv\"}'
  pipezero show run.json --format program > run.program

In the grid, the number before F or B is the stage, if a rank has several, and the number after it is the micro-batch. In the program, F and B are the forward and backward of a unit and a micro-batch; R recomputes activations that were not kept; UNSHARD, RESHARD and REDUCE belong to ZeRO-3; SEND and RECV go over stage edges, s0>s1 up with activations, s1>s0 down with gradients.";

/// Arguments of `show`.
#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    #[command(flatten)]
    run: RunArgs,
    /// How to print it.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Columns that a grid may take [default: `COLUMNS`, those of the terminal, or 100]
    #[arg(long, value_name = "COLUMNS", value_parser = whole::<usize>, allow_negative_numbers = true)]
    width: Option<usize>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// The order of compute as a grid, then every pipeline rank's instructions.
    Text,
    /// PyTorch's pipelining CSV: compute only, a row per rank, as the schedule has it.
    Csv,
    /// The program in its versioned text form, which the library reads back: `text.parse::<Program>()`.
    Program,
}

pub(super) fn run(args: &ShowArgs) -> Result<(), Failure> {
    let (plan, _notices) = args.run.plan()?;
    match args.format {
        Format::Text => print(text(&plan, args.width.unwrap_or_else(terminal::width)))?,
        Format::Csv => print(plan.order().to_csv())?,
        Format::Program => print(plan.training().program())?,
    }
    Ok(())
}

fn text(plan: &Plan, width: usize) -> String {
    let program = plan.training();
    let rows = program.ranks().map(|rank| {
        let stages: Vec<String> = program.placement().stages(rank).map(|stage| stage.to_string()).collect();
        let of_several = if stages.len() > 1 { format!(": {}", stages.join(", ")) } else { String::new() };
        format!("rank {}{of_several}\n{}", rank.0, render::instructions(program, rank))
    });
    format!("{}\n{}", render::computes(program, width), rows.collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::super::pages;
    use super::text;

    #[test]
    fn a_page_shows_the_real_output() {
        let (plan, excerpt) = pages::example("pipezero show engine/configs/quickstart.json");
        let (beginning, rest) =
            excerpt.split_once("...\n").expect("the excerpt ends before the program does");
        assert!(beginning.lines().count() > 5, "{beginning}");
        assert!(rest.is_empty(), "{rest}");
        let printed: String =
            text(&plan, pages::WIDTH).split_inclusive('\n').take(beginning.lines().count()).collect();
        assert_eq!(printed, beginning);
    }
}
