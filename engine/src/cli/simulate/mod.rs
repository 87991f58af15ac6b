//! `pipezero simulate`: how long a step takes, of a whole run or of a schedule by itself.

mod error;
mod factor;
mod named;
mod order_file;
mod path;
mod picture;
mod program_size;
mod ranks;
mod result_file;
mod schedule;
mod step;
mod what_if;
mod world;

use std::path::PathBuf;

use clap::Args;

pub(super) use self::error::SimulateError;
use self::named::{NamedSchedule, ScheduleName};
use self::picture::Format;
use self::result_file::RESULT_FILE;
use self::schedule::{ScheduleRequest, ScheduleSource};
use self::step::{Explain, StepRequest};
use self::what_if::WhatIf;
use super::decimal::Decimal;
use super::failure::Failure;
use super::out_file::{OutFile, Overwrite};
use super::output::{note, print};
use super::run_args::RunArgs;
use super::whole::whole;

/// What `--help` ends with.
pub(super) const EXAMPLES: &str = "\
Examples:
  pipezero simulate run.json --costs costs.json      # as `profile` measured
  pipezero simulate run.json --device h100 --set parallel.schedule=zb-h1
  pipezero simulate run.json --json | jq '.step_s'
  pipezero simulate run.json --explain               # the critical path
  pipezero simulate run.json --format svg --out step.svg
  pipezero simulate run.json --format chrome --out step.json
  pipezero simulate run.json --speed 5=0.8 --jitter 0.1
  pipezero simulate run.json --sharing rank-port --slowdown 1.15
  pipezero simulate --schedule 1f1b --ranks 8 --micro-batches 24 \\
    --forward 18.522 --backward-input 18.086 --backward-weight 9.337 \\
    --latency 0.601
  pipezero simulate --schedule interleaved --virtual-stages 2 --ranks 4 \\
    --micro-batches 8 --forward 1 --backward-input 1 \\
    --backward-weight 1 --json
  pipezero simulate --schedule order.csv --forward 1 --backward-input 1 \\
    --backward-weight 1 --format svg --out order.svg

A trace is for ui.perfetto.dev or chrome://tracing. What-if arguments ask what a step would take were a rank slow, computes uneven, or messages in each other's way.

Of a run, the program that `train` would execute is played: computes, gathers, reductions, messages between stages and the end of the step. Times are measured (--costs) or, without that, calculated from a device's rates, which the result names. Where ranks differ or share something, every data rank is played by itself, and the result says how many times as long the step takes.

Of a schedule, times are of a whole rank, all its stages together, and one micro-batch, in any one unit; results are in the same. They are decimals above 0; --latency may be 0, which is an ideal link, and so may one half of a backward where the schedule runs it whole. At most 4096 stages are played, and 16,777,216 instructions; a longer step whose pattern repeats is told by shorter ones. The makespan is that of all ranks: a step with a gradient norm over all of them takes it. The longest rank's span, from its first start to its last end, is what the zero-bubble papers count.";

/// Columns that a grid may take where nobody says so.
const WIDTH: usize = 160;

/// Arguments of `simulate`.
#[derive(Debug, Args)]
pub(super) struct SimulateArgs {
    /// The run file, JSON; without one, a schedule by itself.
    #[arg(value_name = "RUN.json")]
    run: Option<PathBuf>,
    /// Change a key, as `--set parallel.pipeline=4`; the value is read as JSON, else as a string; `null` takes the key away.
    #[arg(long, value_name = "KEY.PATH=VALUE")]
    set: Vec<String>,
    /// Times that `pipezero profile` measured.
    #[arg(long, value_name = "COSTS.json", conflicts_with = "device")]
    costs: Option<PathBuf>,
    /// Calculate times from a device's rates: h100, h200, a100 or cpu, which is this host and the default.
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// A schedule by itself: gpipe, 1f1b, eager-1f1b, interleaved, bfs, zb-h1, zb-h2, zb-v, or a file with an order of
    /// one's own in PyTorch's pipelining CSV, which says its sizes itself.
    #[arg(long, value_name = "NAME|ORDER.csv")]
    schedule: Option<ScheduleName>,
    /// Pipeline ranks.
    #[arg(long, value_name = "P", value_parser = whole::<u32>, allow_negative_numbers = true)]
    ranks: Option<u32>,
    /// Micro-batches of a step.
    #[arg(long, value_name = "M", value_parser = whole::<u32>, allow_negative_numbers = true)]
    micro_batches: Option<u32>,
    /// Stages of each rank; needed for `interleaved` and `bfs`, 2 for `zb-v`, 1 for the others.
    #[arg(long, value_name = "V", value_parser = whole::<u32>, allow_negative_numbers = true)]
    virtual_stages: Option<u32>,
    /// Micro-batches of a group of `interleaved`; by default as many as ranks.
    #[arg(long, value_name = "N", value_parser = whole::<u32>, allow_negative_numbers = true)]
    group_size: Option<u32>,
    /// Time of a rank's forwards, above 0; any unit, the same for all times.
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    forward: Option<Decimal>,
    /// Time of a rank's input gradients; above 0, or 0 where the schedule runs a backward as one.
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    backward_input: Option<Decimal>,
    /// Time of a rank's weight gradients; the same goes for it.
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    backward_weight: Option<Decimal>,
    /// Time of a message between ranks, 0 by default; it occupies neither.
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    latency: Option<Decimal>,
    /// Columns that the grid may take, 160 by default.
    #[arg(long, value_name = "COLUMNS", value_parser = whole::<usize>, allow_negative_numbers = true)]
    width: Option<usize>,
    /// What the time is made of: the critical path.
    #[arg(long)]
    explain: bool,
    /// How to print it: tables, JSON, a picture or, of a run, a trace.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Print JSON: `--format json`.
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Write to a file instead of stdout.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Replace the file if it exists and is JSON, a picture or a trace that an earlier simulation has written.
    #[arg(long, requires = "out")]
    overwrite: bool,
    #[command(flatten)]
    what_if: WhatIf,
}

pub(super) fn run(args: &SimulateArgs) -> Result<(), Failure> {
    let Some(path) = &args.out else { return Ok(print(args.play()?)?) };
    args.format().check_name(path)?;
    let out = OutFile::new(path, Overwrite::of(args.overwrite), RESULT_FILE)?;
    out.write(&args.play()?)?;
    note(format_args!("wrote {}", path.display()));
    Ok(())
}

impl SimulateArgs {
    fn format(&self) -> Format {
        if self.json { Format::Json } else { self.format }
    }

    /// Plays what was asked for, and says what came out.
    fn play(&self) -> Result<String, Failure> {
        let format = self.format();
        if self.explain && !matches!(format, Format::Text | Format::Json) {
            return Err(SimulateError::Unexplained.into());
        }
        let explain = if self.explain { Explain::CriticalPath } else { Explain::Nothing };
        let Some(run) = &self.run else { return Ok(schedule::run(&self.schedule(explain)?, format)?) };
        self.refuse_schedule()?;
        step::run(&StepRequest {
            run: RunArgs { run: run.clone(), set: self.set.clone() },
            costs: self.costs.as_deref(),
            device: self.device.as_deref(),
            what_if: &self.what_if,
            format,
            explain,
            width: self.width.unwrap_or(WIDTH),
        })
    }

    /// A run file says all that a schedule by itself is given.
    fn refuse_schedule(&self) -> Result<(), SimulateError> {
        let name = [("--schedule", self.schedule.is_some())];
        let times = [
            ("--forward", self.forward.is_some()),
            ("--backward-input", self.backward_input.is_some()),
            ("--backward-weight", self.backward_weight.is_some()),
            ("--latency", self.latency.is_some()),
        ];
        match first_given(name.into_iter().chain(self.sizes()).chain(times)) {
            Some(flag) => Err(SimulateError::BothForms { flag }),
            None => Ok(()),
        }
    }

    /// The sizes of a schedule by its name, and which of them were given.
    fn sizes(&self) -> [(&'static str, bool); 4] {
        [
            ("--ranks", self.ranks.is_some()),
            ("--micro-batches", self.micro_batches.is_some()),
            ("--virtual-stages", self.virtual_stages.is_some()),
            ("--group-size", self.group_size.is_some()),
        ]
    }

    /// The schedule by itself, with everything that it needs and nothing that only a run has.
    fn schedule(&self, explain: Explain) -> Result<ScheduleRequest, SimulateError> {
        let of_run = [
            ("--costs", self.costs.is_some()),
            ("--device", self.device.is_some()),
            ("--set", !self.set.is_empty()),
        ];
        let name = self.schedule.as_ref().ok_or(SimulateError::Nothing)?;
        if let Some(flag) = first_given(of_run).or(self.what_if.first()) {
            return Err(SimulateError::OnlyOfRun { flag });
        }
        let is_file = matches!(name, ScheduleName::File(_));
        let needed = |time: Option<Decimal>, flag| time.ok_or(SimulateError::Missing { flag, is_file });
        Ok(ScheduleRequest {
            source: self.schedule_source(name)?,
            forward: needed(self.forward, "--forward")?,
            backward_input: needed(self.backward_input, "--backward-input")?,
            backward_weight: needed(self.backward_weight, "--backward-weight")?,
            latency: self.latency.unwrap_or_default(),
            explain,
            width: self.width.unwrap_or(WIDTH),
        })
    }

    /// A generator with its sizes, or a file, which says them itself.
    fn schedule_source(&self, name: &ScheduleName) -> Result<ScheduleSource, SimulateError> {
        let needed = |size: Option<u32>, flag| size.ok_or(SimulateError::Missing { flag, is_file: false });
        match (name, first_given(self.sizes())) {
            (&ScheduleName::Generator(generator), _) => Ok(ScheduleSource::Named(NamedSchedule {
                generator,
                ranks: needed(self.ranks, "--ranks")?,
                micro_batches: needed(self.micro_batches, "--micro-batches")?,
                virtual_stages: self.virtual_stages,
                group_size: self.group_size,
            })),
            (ScheduleName::File(_), Some(flag)) => Err(SimulateError::SaidByFile { flag }),
            (ScheduleName::File(path), None) => Ok(ScheduleSource::File(path.clone())),
        }
    }
}

/// The first argument of a list that was given.
fn first_given(arguments: impl IntoIterator<Item = (&'static str, bool)>) -> Option<&'static str> {
    arguments.into_iter().find_map(|(flag, is_given)| is_given.then_some(flag))
}
