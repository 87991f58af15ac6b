//! The command line: reads arguments, calls the library, prints. Machine output goes to stdout, all else to stderr.

mod check;
mod compare;
mod decimal;
mod describe;
mod eval;
mod failure;
mod generate;
mod out_file;
mod output;
mod plan;
mod profile;
mod progress;
#[cfg(test)]
mod readme;
mod report;
mod run_args;
mod show;
mod simulate;
mod table;
mod train;
mod units;
mod whole;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Trains GPT-style models on DP x PP grids with ZeRO, from one JSON file.
///
/// What a run will do, hold and send is planned and checked before anything starts: `check` reads the file, `plan`
/// prints memory and traffic per rank and what other residencies would cost, `show` prints the program, `train` runs
/// exactly that.
#[derive(Debug, Parser)]
#[command(name = "pipezero", version, arg_required_else_help = true, after_help = failure::STATUSES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Train the model of a run file and leave a run directory.
    #[command(after_help = train::EXAMPLES)]
    Train(train::TrainArgs),
    /// Loss, perplexity and bits per byte of a trained model.
    #[command(after_help = eval::EXAMPLES)]
    Eval(eval::EvalArgs),
    /// Write text with a trained model.
    #[command(after_help = generate::EXAMPLES)]
    Generate(generate::GenerateArgs),
    /// Check a run file: print what it resolves to (no run file itself), or every error in it.
    #[command(after_help = check::EXAMPLES)]
    Check(check::CheckArgs),
    /// Stages, units, memory and traffic of each rank, and the trade of gathers for memory, before anything runs.
    #[command(after_help = plan::EXAMPLES)]
    Plan(plan::PlanArgs),
    /// Print the program: who does what, in which order.
    #[command(after_help = show::EXAMPLES)]
    Show(show::ShowArgs),
    /// How long a step takes, of a run or of a schedule by itself, and what its ranks wait for.
    #[command(after_help = simulate::EXAMPLES)]
    Simulate(Box<simulate::SimulateArgs>),
    /// Measure what the parts of a run take on this machine, for `simulate` to predict runs from.
    #[command(after_help = profile::EXAMPLES)]
    Profile(profile::ProfileArgs),
    /// A traced run beside its prediction: step, ranks, instructions, and where the two part.
    #[command(after_help = compare::EXAMPLES)]
    Compare(compare::CompareArgs),
}

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_env_filter(tracing_subscriber::EnvFilter::from_env("PIPEZERO_LOG"))
        .init();
    let result = match Cli::parse().command {
        Command::Train(args) => train::run(&args),
        Command::Eval(args) => eval::run(&args),
        Command::Generate(args) => generate::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Show(args) => show::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Profile(args) => profile::run(&args),
        Command::Compare(args) => compare::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
