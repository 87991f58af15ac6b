//! `pipezero simulate`.

use clap::{Args, ValueEnum};
use pipezero_schedule::generate::{
    SizeError, bfs, eager_1f1b, gpipe, interleaved, one_f_one_b, zb_h1, zb_h2, zb_v,
};
use pipezero_schedule::simulate::{RankTimes, Study, study_long};
use pipezero_schedule::{ComputeOrder, render};
use serde_json::json;

use super::decimal::Decimal;
use super::failure::Failure;
use super::output::print;
use super::table::Table;

/// What `--help` ends with.
pub(super) const EXAMPLES: &str = "\
Examples:
  pipezero simulate --schedule 1f1b --ranks 8 --micro-batches 24 --forward 18.522 --backward-input 18.086 \\
                    --backward-weight 9.337 --latency 0.601
  pipezero simulate --schedule interleaved --virtual-stages 2 --ranks 4 --micro-batches 8 --forward 1 \\
                    --backward-input 1 --backward-weight 1 --json

Times are of a whole rank, all its stages together, and one micro-batch, in any one unit; results are in the same. The makespan is that of all ranks: a step with a gradient norm over all of them takes it. The longest rank's span, from its first start to its last end, is what the zero-bubble papers count.";

/// Forwards of a step that is played at most: some gigabytes of program. Longer steps are told by shorter ones.
const MAX_FORWARDS: u128 = 1 << 23;

/// Forwards of a step that is drawn at most; of a longer one hardly anything would fit.
const MAX_DRAWN: u128 = 1 << 16;

/// Arguments of `simulate`.
#[derive(Debug, Args)]
pub(super) struct SimulateArgs {
    /// The schedule.
    #[arg(long, value_enum, value_name = "NAME")]
    schedule: Schedule,
    /// Pipeline ranks.
    #[arg(long, value_name = "P")]
    ranks: u32,
    /// Micro-batches of a step.
    #[arg(long, value_name = "M")]
    micro_batches: u32,
    /// Stages of each rank; needed for `interleaved` and `bfs`, 2 for `zb-v`, 1 for the others.
    #[arg(long, value_name = "V")]
    virtual_stages: Option<u32>,
    /// Micro-batches of a group of `interleaved`; by default as many as ranks.
    #[arg(long, value_name = "N")]
    group_size: Option<u32>,
    /// Time of a rank's forwards.
    #[arg(long, value_name = "T")]
    forward: Decimal,
    /// Time of a rank's input gradients.
    #[arg(long, value_name = "T")]
    backward_input: Decimal,
    /// Time of a rank's weight gradients.
    #[arg(long, value_name = "T")]
    backward_weight: Decimal,
    /// Time of a message between ranks; it occupies neither.
    #[arg(long, value_name = "T", default_value = "0")]
    latency: Decimal,
    /// Print JSON instead of tables.
    #[arg(long)]
    json: bool,
    /// Columns that the grid may take.
    #[arg(long, value_name = "COLUMNS", default_value_t = 160)]
    width: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Schedule {
    #[value(name = "gpipe")]
    GPipe,
    #[value(name = "1f1b")]
    OneFOneB,
    #[value(name = "eager-1f1b")]
    EagerOneFOneB,
    Interleaved,
    Bfs,
    ZbH1,
    ZbH2,
    ZbV,
}

/// Arguments that make no schedule.
#[derive(Debug, thiserror::Error)]
pub(super) enum SimulateError {
    /// A size that the schedule does not have.
    #[error("{0}")]
    Size(#[from] SizeError),
    /// A time that is too long.
    #[error("{0}")]
    Costs(#[from] pipezero_schedule::simulate::CostsError),
    /// Stages per rank that the schedule does not have.
    #[error("--virtual-stages {found}: this schedule runs {expected} on each rank; leave it out")]
    VirtualStages {
        /// What was asked for.
        found: u32,
        /// What the schedule has.
        expected: u32,
    },
    /// Several stages per rank, and nobody said how many.
    #[error("--virtual-stages is missing: this schedule runs several stages on each rank; add 2 or more")]
    NoVirtualStages,
    /// A program that would not fit.
    #[error(
        "{num_forwards} forwards in a step, over all stages: a program has at most {MAX_FORWARDS}; use fewer ranks, stages or \
         micro-batches"
    )]
    TooLarge {
        /// Ranks times stages of each times micro-batches.
        num_forwards: u128,
    },
    /// Groups where there are none.
    #[error("--group-size {0}: only `interleaved` runs micro-batches in groups; leave it out")]
    GroupSize(u32),
}

pub(super) fn run(args: &SimulateArgs) -> Result<(), Failure> {
    let times = [args.forward, args.backward_input, args.backward_weight, args.latency];
    let num_behind = times.iter().map(|time| time.num_behind()).max().unwrap_or(0);
    let [forward, backward_input, backward_weight, latency] = times.map(|time| time.in_parts(num_behind));
    let times = RankTimes { forward, backward_input, backward_weight, latency };
    let study = study_long(|micro_batches| order(args, micro_batches), args.micro_batches, times)?;
    // Parts of a part of the unit; divided once, at the end.
    let per_unit = study.parts as f64 * 10f64.powi(num_behind as i32);
    if args.json {
        print(format!("{:#}\n", as_json(&study, per_unit)))?;
    } else {
        let drawn = if num_forwards(args, args.micro_batches) > MAX_DRAWN {
            "left out, it is too long\n".to_owned()
        } else {
            render::order(&order(args, args.micro_batches)?, args.width)
        };
        print(as_text(&study, per_unit, &drawn))?;
    }
    Ok(())
}

/// Over all stages.
fn num_forwards(args: &SimulateArgs, micro_batches: u32) -> u128 {
    u128::from(args.ranks) * u128::from(args.virtual_stages.unwrap_or(2)) * u128::from(micro_batches)
}

/// The order of a step of so many micro-batches, those asked for or fewer.
fn order(args: &SimulateArgs, micro_batches: u32) -> Result<ComputeOrder, SimulateError> {
    let (p, m) = (args.ranks, micro_batches);
    let fixed = |expected| match args.virtual_stages {
        Some(found) if found != expected => Err(SimulateError::VirtualStages { found, expected }),
        _ => Ok(()),
    };
    let several = || args.virtual_stages.ok_or(SimulateError::NoVirtualStages);
    if let Some(size) = args.group_size.filter(|_| args.schedule != Schedule::Interleaved) {
        return Err(SimulateError::GroupSize(size));
    }
    if num_forwards(args, m) > MAX_FORWARDS {
        return Err(SimulateError::TooLarge { num_forwards: num_forwards(args, args.micro_batches) });
    }
    Ok(match args.schedule {
        Schedule::GPipe => fixed(1).and(Ok(gpipe(p, m)?))?,
        Schedule::OneFOneB => fixed(1).and(Ok(one_f_one_b(p, m)?))?,
        Schedule::EagerOneFOneB => fixed(1).and(Ok(eager_1f1b(p, m)?))?,
        Schedule::Interleaved => interleaved(p, several()?, m, args.group_size.unwrap_or(p))?,
        Schedule::Bfs => bfs(p, several()?, m)?,
        Schedule::ZbH1 => fixed(1).and(Ok(zb_h1(p, m)?))?,
        Schedule::ZbH2 => fixed(1).and(Ok(zb_h2(p, m)?))?,
        Schedule::ZbV => fixed(2).and(Ok(zb_v(p, m)?))?,
    })
}

fn as_json(study: &Study, per_unit: f64) -> serde_json::Value {
    let in_flight = |&of: &u64| of as f64 / study.parts as f64;
    json!({
        "makespan": study.makespan as f64 / per_unit,
        "longest_rank_span": study.longest_rank_span as f64 / per_unit,
        "ideal": study.ideal as f64 / per_unit,
        "bubble_rate": study.bubble_rate(),
        "bubble_rate_longest_rank": study.bubble_rate_longest_rank(),
        "peak_in_flight": study.peak_in_flight.iter().map(in_flight).collect::<Vec<_>>(),
    })
}

fn as_text(study: &Study, per_unit: f64, drawn: &str) -> String {
    let mut times = Table::new(["", "time", "bubble"]);
    let percent = |rate: f64| format!("{:.2} %", 100.0 * rate);
    let time = |of: u64| format!("{}", of as f64 / per_unit);
    times.row(["a rank's computes".to_owned(), time(study.ideal)]);
    times.row(["all ranks".to_owned(), time(study.makespan), percent(study.bubble_rate())]);
    times.row([
        "the longest rank alone".to_owned(),
        time(study.longest_rank_span),
        percent(study.bubble_rate_longest_rank()),
    ]);
    let in_flight = study.peak_in_flight.iter().map(|&of| format!("{}", of as f64 / study.parts as f64));
    let in_flight = in_flight.collect::<Vec<_>>().join(", ");
    format!(
        "{times}\nmicro-batches in flight at most, by rank: {in_flight}\n\norder of work (F, I and W one column, B two):\n{drawn}"
    )
}
