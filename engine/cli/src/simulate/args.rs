//! The arguments of `simulate`, and which of them go together.

use std::path::PathBuf;

use clap::Args;
use pipezero_plan::what_if::GeneratedSchedule;

use super::error::SimulateError;
use super::output::{Format, Output};
use super::schedule::{ScheduleRequest, ScheduleSource};
use super::schedule_name::ScheduleName;
use super::step::StepRequest;
use super::what_if::{WhatIfArgs, first_given};
use crate::decimal::Decimal;
use crate::run_args::RunArgs;
use crate::terminal;
use crate::whole::whole;

/// What `--help` ends with.
pub(crate) const EXAMPLES: &str = "\
Examples:
  pipezero simulate run.json --costs costs.json      # as `profile` measured
  pipezero simulate run.json --device h100 --set parallel.schedule=zb-h1
  pipezero simulate run.json --device a100 --ranks-per-node 4
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

A trace opens in ui.perfetto.dev or chrome://tracing. The what-if arguments ask how long a step would take if a rank were slow, computes uneven, or messages shared ports.

With a run file, the program that `train` would execute is simulated: computes, gathers, reductions, messages between stages and the end of the step. Times are measured (--costs) or else calculated from the rates of a device, which the result names. If ranks differ or share something, every data rank is simulated by itself, and the result says how many times as long the step takes.

With --schedule, times are those of a whole rank, all its stages together, and one micro-batch, all in one unit of your choice; results are in the same unit. They are decimals above 0; --latency may be 0, which is an ideal link, and so may one half of a backward if the schedule runs it whole. At most 4096 stages and 16,777,216 instructions are simulated; a longer step whose pattern repeats is extrapolated from shorter ones. The makespan is that of all ranks: a step with a gradient norm over all of them takes as long. The longest rank's span, from its first start to its last end, is what the zero-bubble papers report.";

/// Arguments of `simulate`.
#[derive(Debug, Args)]
pub(crate) struct SimulateArgs {
    /// The run file, JSON; `-` reads it from stdin. Leave it out with --schedule.
    #[arg(value_name = "RUN.json")]
    run: Option<PathBuf>,
    /// Change a key, as `--set parallel.pipeline=4`; the value is read as JSON, else as a string; `null` removes the key.
    #[arg(long, value_name = "KEY.PATH=VALUE")]
    set: Vec<String>,
    /// Times that `pipezero profile` measured.
    #[arg(long, value_name = "COSTS.json", conflicts_with = "device")]
    costs: Option<PathBuf>,
    /// Calculate times from a device's rates: h100, h200, a100 or cpu, which is this host, and the default for a run that it could hold.
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// Ranks of a node, instead of those of the device's nodes; not for a run that has its own (`comm.ranks_per_node`, or that of `comm.links`).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), allow_negative_numbers = true)]
    ranks_per_node: Option<u32>,
    /// A schedule without a model: gpipe, 1f1b, eager-1f1b, interleaved, bfs, zb-h1, zb-h2, zb-v, or a file with your own
    /// order in PyTorch's pipelining CSV, which has its sizes.
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
    /// Time of a rank's input gradients; above 0, or 0 if the schedule runs a backward as one.
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    backward_input: Option<Decimal>,
    /// Time of a rank's weight gradients; above 0, or 0 if the schedule runs a backward as one.
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    backward_weight: Option<Decimal>,
    /// Time of a message between ranks, 0 by default; neither rank is busy with it.
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    latency: Option<Decimal>,
    /// Columns that tables and the grid may take [default: `COLUMNS`, those of the terminal, or 100]
    #[arg(long, value_name = "COLUMNS", value_parser = whole::<usize>, allow_negative_numbers = true)]
    width: Option<usize>,
    /// Print the critical path: what the time is spent on.
    #[arg(long)]
    explain: bool,
    /// How to print it: tables, JSON, a picture or, for a run, a trace.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Print JSON: `--format json`.
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Write to a file instead of stdout.
    #[arg(long, value_name = "FILE")]
    pub(super) out: Option<PathBuf>,
    /// Replace the file if it exists and is JSON, a picture or a trace that an earlier simulation wrote.
    #[arg(long, requires = "out")]
    pub(super) overwrite: bool,
    #[command(flatten)]
    what_if: WhatIfArgs,
}

/// What is simulated: a run, or a schedule without a model.
pub(super) enum Request<'a> {
    Step(StepRequest<'a>),
    Schedule(ScheduleRequest),
}

impl SimulateArgs {
    /// How the result is printed.
    pub(super) fn format(&self) -> Format {
        if self.json { Format::Json } else { self.format }
    }

    /// What is to be simulated.
    pub(super) fn request(&self) -> Result<Request<'_>, SimulateError> {
        let format = self.format();
        if self.explain && !matches!(format, Format::Text | Format::Json) {
            return Err(SimulateError::Unexplained);
        }
        let output = Output {
            format,
            explain: self.explain,
            width: self.width.map_or_else(terminal::width, terminal::at_most),
        };
        let Some(run) = &self.run else { return Ok(Request::Schedule(self.schedule(output)?)) };
        self.refuse_schedule()?;
        Ok(Request::Step(StepRequest {
            run: RunArgs { run: run.clone(), set: self.set.clone() },
            costs: self.costs.as_deref(),
            device: self.device.as_deref(),
            ranks_per_node: self.ranks_per_node,
            what_if: self.what_if.changes()?,
            output,
        }))
    }

    /// Refuses arguments of a schedule beside a run file, which has all of them.
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

    /// The sizes of a generated schedule, and which of them are given.
    fn sizes(&self) -> [(&'static str, bool); 4] {
        [
            ("--ranks", self.ranks.is_some()),
            ("--micro-batches", self.micro_batches.is_some()),
            ("--virtual-stages", self.virtual_stages.is_some()),
            ("--group-size", self.group_size.is_some()),
        ]
    }

    /// The schedule with its times, without arguments that only a run has.
    fn schedule(&self, output: Output) -> Result<ScheduleRequest, SimulateError> {
        let of_run = [
            ("--costs", self.costs.is_some()),
            ("--device", self.device.is_some()),
            ("--ranks-per-node", self.ranks_per_node.is_some()),
            ("--set", !self.set.is_empty()),
        ];
        let name = self.schedule.as_ref().ok_or(SimulateError::Nothing)?;
        if let Some(flag) = first_given(of_run).or(self.what_if.first()) {
            return Err(SimulateError::OnlyOfRun { flag });
        }
        let is_file = matches!(name, ScheduleName::File(_));
        let needed = |time: Option<Decimal>, flag| time.ok_or(SimulateError::Missing { flag, is_file });
        Ok(ScheduleRequest {
            schedule: self.generated_or_read(name)?,
            forward: needed(self.forward, "--forward")?,
            backward_input: needed(self.backward_input, "--backward-input")?,
            backward_weight: needed(self.backward_weight, "--backward-weight")?,
            latency: self.latency.unwrap_or_default(),
            output,
        })
    }

    /// A generator with its sizes, or a file, which has them.
    fn generated_or_read(&self, name: &ScheduleName) -> Result<ScheduleSource, SimulateError> {
        let needed = |size: Option<u32>, flag| size.ok_or(SimulateError::Missing { flag, is_file: false });
        match (name, first_given(self.sizes())) {
            (&ScheduleName::Generator(generator), _) => Ok(ScheduleSource::Generated(GeneratedSchedule {
                generator,
                ranks: needed(self.ranks, "--ranks")?,
                micro_batches: needed(self.micro_batches, "--micro-batches")?,
                virtual_stages: self.virtual_stages,
                group_size: self.group_size,
            })),
            (ScheduleName::File(_), Some(flag)) => Err(SimulateError::SizeOfFile { flag }),
            (ScheduleName::File(path), None) => Ok(ScheduleSource::File(path.clone())),
        }
    }
}
