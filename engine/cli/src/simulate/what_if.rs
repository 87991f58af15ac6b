//! The what-if arguments: ranks that differ, or share ports and cores.

use std::collections::BTreeMap;

use clap::{Args, ValueEnum};
use pipezero_plan::what_if::{HostCores, WhatIf};
use pipezero_schedule::simulate::cluster::{Duplex, Jitter, Ratio, Sharing};

use super::error::SimulateError;
use super::factor::{Factor, Slowdown, SpeedOf};
use crate::whole::whole;

/// How the cluster differs from one whose ranks are alike and share nothing.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "What if")]
pub(super) struct WhatIfArgs {
    /// The speed of a world rank as a multiple of its normal speed, as `5=0.8`; repeatable.
    #[arg(long, value_name = "RANK=FACTOR")]
    speed: Vec<SpeedOf>,
    /// Each compute takes a random share longer, up to this share: 0.1 is 5 % on average.
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true)]
    jitter: Option<Factor>,
    /// The seed of the jitter, 0 by default.
    #[arg(long, value_name = "N", requires = "jitter", value_parser = whole::<u64>, allow_negative_numbers = true)]
    jitter_seed: Option<u64>,
    /// How many times as long computes take while a message of their rank occupies a link.
    #[arg(long, value_name = "FACTOR", allow_negative_numbers = true)]
    slowdown: Option<Slowdown>,
    /// Which messages share a port, and so slow each other down.
    #[arg(long, value_enum, value_name = "WHICH")]
    sharing: Option<SharedPorts>,
    /// Sent and received messages share a port too.
    #[arg(long, requires = "sharing")]
    half_duplex: bool,
    /// Cores of a host, which its ranks share when more of them are busy.
    #[arg(long, value_name = "N", value_parser = whole::<u32>, allow_negative_numbers = true)]
    cores: Option<u32>,
    /// Ranks of a host; by default those of a node.
    #[arg(long, value_name = "K", requires = "cores", value_parser = whole::<u32>, allow_negative_numbers = true)]
    ranks_per_host: Option<u32>,
}

/// Which messages share ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SharedPorts {
    /// None: each lane has its own link; the default.
    Own,
    /// All of a rank within its node share one, and all of it to other nodes share another.
    RankPort,
    /// All of a node to other nodes share one.
    NodePort,
}

impl WhatIfArgs {
    /// The first of the arguments that is given.
    pub(super) fn first(&self) -> Option<&'static str> {
        first_given([
            ("--speed", !self.speed.is_empty()),
            ("--jitter", self.jitter.is_some()),
            ("--slowdown", self.slowdown.is_some()),
            ("--sharing", self.sharing.is_some()),
            ("--cores", self.cores.is_some()),
        ])
    }

    /// How the cluster differs; `None` if none of the arguments is given.
    pub(super) fn changes(&self) -> Result<Option<WhatIf>, SimulateError> {
        if self.first().is_none() {
            return Ok(None);
        }
        let mut speeds = BTreeMap::new();
        for &SpeedOf { rank, speed } in &self.speed {
            if speeds.insert(rank, speed).is_some() {
                return Err(SimulateError::SpeedTwice { rank });
            }
        }
        let duplex = if self.half_duplex { Duplex::Half } else { Duplex::Full };
        let sharing = match self.sharing {
            None | Some(SharedPorts::Own) if self.half_duplex => return Err(SimulateError::HalfDuplex),
            None | Some(SharedPorts::Own) => Sharing::Own,
            Some(SharedPorts::RankPort) => Sharing::RankPort(duplex),
            Some(SharedPorts::NodePort) => Sharing::NodePort(duplex),
        };
        let seed = self.jitter_seed.unwrap_or(0);
        Ok(Some(WhatIf {
            speeds,
            jitter: self.jitter.map(|Factor(share)| Jitter { seed, share }),
            slowdown: self.slowdown.map_or(Ratio::ONE, |Slowdown(ratio)| ratio),
            sharing,
            cores: self.cores.map(|num_cores| HostCores { num_cores, ranks_per_host: self.ranks_per_host }),
        }))
    }
}

/// The first argument of a list that is given.
pub(super) fn first_given(arguments: impl IntoIterator<Item = (&'static str, bool)>) -> Option<&'static str> {
    arguments.into_iter().find_map(|(flag, is_given)| is_given.then_some(flag))
}
