//! The command line: reads arguments, calls the library, prints. Machine output goes to stdout, all else to stderr.

mod agreement;
mod check;
mod check_all;
mod checkpoint;
mod compare;
mod decimal;
mod describe;
mod device;
mod doctor;
mod eval;
mod exit_status;
mod failure;
mod figures;
mod frozen_weights;
mod generate;
mod in_use;
mod initial_weights;
mod kernel_table;
mod launch;
mod limits;
mod loaded_weights;
mod log;
mod master;
mod nccl_variable;
mod notices;
mod one_file;
mod origins;
mod out_file;
mod output;
#[cfg(test)]
mod pages;
mod parameters;
mod plan;
mod profile;
mod progress;
mod run_args;
mod shell;
mod show;
mod signals;
mod simulate;
mod table;
mod task_plans;
mod terminal;
mod together;
mod tokenize;
mod train;
mod trained_run;
mod unread_weights;
mod unused_parts;
mod utilisation;
mod whole;

use std::env;
use std::ffi::OsString;
use std::iter;
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use failure::Failure;
use one_file::second_file;
use pipezero_files::host::{LaunchedProcess, Local, cores, job_files};
use pipezero_launch::end_with_parent;
use pipezero_models::memory::give_back_freed_memory;
use run_args::RunArgs;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, fmt};

/// Trains GPT-style models on DP x PP grids with ZeRO, from one JSON file.
///
/// Everything that a run will do is planned and checked before it starts: `check` reads the file, `plan` prints the memory
/// and traffic of each rank and compares residencies, `show` prints the program, and `train` runs exactly that program.
#[derive(Debug, Parser)]
#[command(name = "pipezero", version, arg_required_else_help = true, after_help = exit_status::STATUSES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Train the model of a run file, and write a run directory.
    #[command(after_help = train::EXAMPLES)]
    Train(Box<train::TrainArgs>),
    /// Go on with the run of a run directory, as it was started.
    #[command(after_help = train::RESUME_EXAMPLES)]
    Resume(Box<train::ResumeArgs>),
    /// Loss, perplexity and bits per byte of a trained model.
    #[command(after_help = eval::EXAMPLES)]
    Eval(eval::EvalArgs),
    /// Write text with a trained model.
    #[command(after_help = generate::EXAMPLES)]
    Generate(generate::GenerateArgs),
    /// Check a run file: print the resolved run, or every mistake.
    #[command(after_help = check::EXAMPLES)]
    Check(check::CheckArgs),
    /// Stages, units, memory and traffic of each rank, and how fewer gathers cost memory, before anything runs.
    #[command(after_help = plan::EXAMPLES)]
    Plan(plan::PlanArgs),
    /// Print the program: what each rank does, in which order.
    #[command(after_help = show::EXAMPLES)]
    Show(show::ShowArgs),
    /// How long a step takes, of a run or of a schedule without a model, and what its ranks wait for.
    #[command(after_help = simulate::EXAMPLES)]
    Simulate(Box<simulate::SimulateArgs>),
    /// Measure the costs of a run on this machine, from which `simulate` predicts runs.
    #[command(after_help = profile::EXAMPLES)]
    Profile(profile::ProfileArgs),
    /// Compare a traced run with its prediction: step, ranks, instructions, and where they differ.
    #[command(after_help = compare::EXAMPLES)]
    Compare(compare::CompareArgs),
    /// Examine the machines that a run is for, before it burns hours: hosts, messages, bits, memory, times, clocks, disk.
    #[command(after_help = doctor::EXAMPLES)]
    Doctor(doctor::DoctorArgs),
    /// Look at the checkpoints of a run, prove them, or write them in another form.
    #[command(after_help = checkpoint::EXAMPLES)]
    Checkpoint(checkpoint::CheckpointArgs),
    /// Turn texts into a file of tokens, with a tokenizer.json of Hugging Face's tokenizers.
    #[command(after_help = tokenize::EXAMPLES)]
    Tokenize(Box<tokenize::TokenizeArgs>),
    /// Start a command as several processes of this host, and again if ranks are lost.
    #[command(after_help = launch::EXAMPLES)]
    Launch(launch::LaunchArgs),
    /// Print what completes commands and arguments in a shell.
    #[command(after_help = shell::COMPLETIONS)]
    Completions(shell::CompletionsArgs),
    /// Write a man page for pipezero and for each of its commands.
    #[command(after_help = shell::PAGES)]
    Man(shell::ManArgs),
}

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    give_back_freed_memory();
    limits::within_limits(run)
}

fn run() -> ExitCode {
    tracing_subscriber::registry()
        .with(EnvFilter::from_env("PIPEZERO_LOG"))
        .with(fmt::layer().with_writer(std::io::stderr).with_ansi(terminal::has_colours()))
        .with(fmt::layer().with_writer(|| output::Events).with_ansi(false).without_time())
        .init();
    let command = match Cli::try_parse() {
        Ok(Cli { command }) => command,
        Err(error) => {
            let failure = second_file(&error, env::args_os().skip(1));
            // What --help prints is no mistake.
            job_files::leave_status(u8::try_from(error.exit_code()).unwrap_or(2));
            let Some(failure) = failure else { error.exit() };
            return ExitCode::from(failure.report());
        }
    };
    if let Some(local) = bound_place() {
        cores::bind(local);
    }
    end_with_parent();
    let saves =
        matches!(command, Command::Train(_) | Command::Resume(_) | Command::Tokenize(_) | Command::Launch(_));
    if let Err(error) = limits::end_before_processor_time(saves) {
        output::note(format_args!(
            "warning: a limit of processor time will end the command at once: {error}"
        ));
    }
    let result = match command {
        Command::Launch(args) => {
            return launch::run(args).unwrap_or_else(|failure| ExitCode::from(failure.report()));
        }
        Command::Train(args) => train::run(&args),
        Command::Resume(args) => args.of_train().and_then(|args| train::run(&args)),
        Command::Eval(args) => eval::run(&args),
        Command::Generate(args) => generate::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Show(args) => show::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Profile(args) => profile::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Checkpoint(args) => checkpoint::run(&args),
        Command::Tokenize(args) => tokenize::run(&args),
        Command::Completions(args) => shell::completions(&args, Cli::command()),
        Command::Man(args) => shell::man(&args, Cli::command()),
    };
    let status = match result {
        Ok(()) => 0,
        Err(failure) => failure.report(),
    };
    job_files::leave_status(status);
    ExitCode::from(status)
}

/// Which files a command that is to be started takes.
enum Takes {
    /// A run file.
    Run,
    /// A run file, or a master file of which this task is meant.
    RunOrTask(Option<String>),
}

/// Refuses arguments of a command that is to be started, as it would do itself, and a command that several processes would each do alone. Returns the
/// arguments about the run file.
fn checked_arguments(command: &[OsString]) -> Result<(RunArgs, Takes), Failure> {
    if command.first().is_some_and(|first| Path::new(first).file_name() == Some("pipezero".as_ref())) {
        return Err(Failure::Input(
            "launch: write the command without the name of the program: pipezero launch -n 4 -- train run.json".into(),
        ));
    }
    let named = iter::once(OsString::from("pipezero")).chain(command.iter().cloned());
    match Cli::try_parse_from(named) {
        Ok(Cli { command: Command::Train(args) }) => Ok((args.run, Takes::RunOrTask(args.task))),
        Ok(Cli { command: Command::Resume(args) }) => Ok((args.of_train()?.run, Takes::Run)),
        Ok(Cli { command: Command::Doctor(args) }) => Ok((args.run, Takes::Run)),
        Ok(Cli { command: Command::Profile(args) }) => Ok((args.run, Takes::Run)),
        Ok(Cli { command: Command::Launch(_) }) => Err(Failure::Input(
            "launch: a job cannot start another; write the command behind one `launch`".into(),
        )),
        Ok(_) => Err(Failure::Input(
            "launch: `train`, `resume`, `doctor` and `profile` run as several processes; start this command without `launch`".into(),
        )),
        Err(error) => match second_file(&error, command.iter().cloned()) {
            Some(failure) => Err(failure),
            None => error.exit(),
        },
    }
}

/// This process's place on its host, if it is to bind itself to its share of the cores.
fn bound_place() -> Option<Local> {
    env::var_os(cores::BIND)?;
    LaunchedProcess::this().ok()??.local
}
