//! Arguments that make nothing to simulate.

use std::path::PathBuf;

use pipezero_schedule::generate::SizeError;

use super::program_size::MostPlayed;
use super::schedule::MAX_SHOWN;
use crate::plan::costs::Device;

/// Arguments that do not go together, or make no schedule.
#[derive(Debug, thiserror::Error)]
pub(in crate::cli) enum SimulateError {
    /// Neither a run file nor a schedule.
    #[error(
        "nothing to simulate: name a run file, or a schedule by --schedule, --forward, --backward-input and \
         --backward-weight, and where it is no file also by --ranks and --micro-batches"
    )]
    Nothing,
    /// A run file and something that it says itself.
    #[error(
        "{flag} is of a schedule by itself, and RUN.json is a whole run: leave one of them out (a key is changed with --set)"
    )]
    BothForms {
        /// The argument.
        flag: &'static str,
    },
    /// A schedule and something that only a run file has.
    #[error("{flag} is of a run, and --schedule is a schedule by itself: name a run file in its place")]
    OnlyOfRun {
        /// The argument.
        flag: &'static str,
    },
    /// An order and something that it says itself.
    #[error("{flag} is what an order of one's own says itself: leave it out, or name one of the schedules")]
    SaidByFile {
        /// The argument.
        flag: &'static str,
    },
    /// A file that is no schedule.
    #[error(transparent)]
    OrderFile(#[from] super::order_file::OrderFileError),
    /// A trace needs a clock.
    #[error(
        "--format chrome is of a run: times of a schedule by itself have no unit, and a trace's have; use --format svg, or \
         name a run file of timed layers"
    )]
    NoUnit,
    /// A step too long to be drawn or explained.
    #[error(
        "the step has {num_forwards} forwards over all stages, and at most {MAX_SHOWN} are drawn or explained; use fewer \
         micro-batches, of which a schedule makes the same again and again, or ask for figures alone"
    )]
    TooLongToShow {
        /// Forwards of all stages.
        num_forwards: u128,
    },
    /// A schedule by itself needs all its sizes and times.
    #[error(
        "{flag} is missing: a schedule by itself {}; add it, or name a run file",
        if *is_file { "needs times, which its file does not say" } else { "has ranks, micro-batches and times" }
    )]
    Missing {
        /// The argument.
        flag: &'static str,
        /// Whether a file says the sizes.
        is_file: bool,
    },
    /// Work that takes no time.
    #[error(
        "{flag} 0: a rank's work takes time; give it more than 0 (--latency may be 0, and so may one half of a backward that \
         runs whole)"
    )]
    NoTime {
        /// The argument.
        flag: &'static str,
    },
    /// Both halves of a backward take no time.
    #[error(
        "--backward-input 0 and --backward-weight 0: a backward takes the time of both, which is above 0; give it to either"
    )]
    NoBackward,
    /// A picture has no place for words.
    #[error("--explain is told in text and JSON: leave it out, or use --format text or json")]
    Unexplained,
    /// Two speeds of one rank.
    #[error("--speed is there twice for rank {rank}: a rank has one speed; leave one of them out")]
    SpeedTwice {
        /// The world rank.
        rank: u32,
    },
    /// Both ways of a port that is not there.
    #[error("--half-duplex is of ports that messages share: add --sharing rank-port or node-port")]
    HalfDuplex,
    /// Ports to other nodes, and there are none.
    #[error(
        "--sharing node-port: all {world_size} ranks are on one node, and it is messages to other nodes that share a \
         port; set comm.links.ranks_per_node to fewer, name a device with smaller nodes, or use rank-port"
    )]
    OneNode {
        /// Ranks of the run.
        world_size: usize,
    },
    /// A world that is none of this run.
    #[error("{0}")]
    World(#[from] pipezero_schedule::simulate::cluster::ClusterError),
    /// A device that nobody knows.
    #[error("--device {name}: known are {}; measure any other with `pipezero profile` and use --costs", Device::NAMES.join(", "))]
    Device {
        /// What was asked for.
        name: String,
    },
    /// A size that the schedule does not have.
    #[error("{0}")]
    Size(#[from] SizeError),
    /// A time that is too long.
    #[error("{0}; or use a coarser unit of time, with fewer digits behind the point")]
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
    /// A pipeline that would take too long.
    #[error(
        "--ranks {num_ranks} of {stages_per_rank} stages make a pipeline of {num_stages}: at most {} are played; use fewer ranks \
         or --virtual-stages", MostPlayed::HERE.num_stages
    )]
    TooManyStages {
        /// Ranks.
        num_ranks: u32,
        /// Stages of each.
        stages_per_rank: u32,
        /// Stages of all.
        num_stages: u128,
    },
    /// A program that would not fit.
    #[error(
        "--micro-batches {micro_batches}: the step has {num_instructions} instructions over all ranks, and at most \
         {} are played, in two gigabytes of memory; with so many ranks and stages, use {fitting} or fewer",
        MostPlayed::HERE.num_instructions
    )]
    TooLarge {
        /// Micro-batches that were asked for.
        micro_batches: u32,
        /// Instructions that the step would have.
        num_instructions: u128,
        /// Micro-batches that fit.
        fitting: u128,
    },
    /// A file whose name says that it holds something else.
    #[error(
        "--out {}: a file of this name holds {expected}, and {found} would be in it; use {repair}, or name another file",
        path.display()
    )]
    OtherFormat {
        /// The file.
        path: PathBuf,
        /// What its name says.
        expected: &'static str,
        /// What was asked for.
        found: &'static str,
        /// The format that belongs into it.
        repair: &'static str,
    },
    /// Groups where there are none.
    #[error("--group-size {0}: only `interleaved` runs micro-batches in groups; leave it out")]
    GroupSize(u32),
}
