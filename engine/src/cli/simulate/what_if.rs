//! "What if": arguments that make ranks differ, or share links and cores.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use clap::{Args, ValueEnum};
use pipezero_schedule::simulate::cluster::{Cluster, Computes, Cores, Duplex, Jitter, Ratio, Sharing};
use serde_json::{Value, json};

use super::SimulateError;
use super::factor::{Factor, Slowdown, SpeedOf};
use crate::cli::units::counted;
use crate::cli::whole::whole;

/// What the step is played with instead of ranks that are alike and share nothing.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "What if")]
pub(super) struct WhatIf {
    /// A world rank at so many times its speed, as `5=0.8`; repeatable.
    #[arg(long, value_name = "RANK=FACTOR")]
    speed: Vec<SpeedOf>,
    /// Each compute takes a random share longer, up to this one: 0.1 for 5 % on average.
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true)]
    jitter: Option<Factor>,
    /// Another seed, another jitter; 0 by default.
    #[arg(long, value_name = "N", requires = "jitter", value_parser = whole::<u64>, allow_negative_numbers = true)]
    jitter_seed: Option<u64>,
    /// Computes take so many times as long while a message of their rank occupies a link.
    #[arg(long, value_name = "FACTOR", allow_negative_numbers = true)]
    slowdown: Option<Slowdown>,
    /// Which messages slow each other down.
    #[arg(long, value_enum, value_name = "WHICH")]
    sharing: Option<SharedPorts>,
    /// What is sent and what is received share a port too.
    #[arg(long, requires = "sharing")]
    half_duplex: bool,
    /// Cores of a host, which its ranks share where more of them are at work.
    #[arg(long, value_name = "N", value_parser = whole::<u32>, allow_negative_numbers = true)]
    cores: Option<u32>,
    /// Ranks of a host; by default those of a node.
    #[arg(long, value_name = "K", requires = "cores", value_parser = whole::<u32>, allow_negative_numbers = true)]
    ranks_per_host: Option<u32>,
}

/// Which messages share ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SharedPorts {
    /// None: a link for each lane, the default.
    Own,
    /// All of a rank within its node, and all of a rank to other nodes.
    RankPort,
    /// All of a node to other nodes.
    NodePort,
}

impl WhatIf {
    /// An argument that was given; none where the step is to be played as it is.
    pub(super) fn first(&self) -> Option<&'static str> {
        let given = [
            ("--speed", !self.speed.is_empty()),
            ("--jitter", self.jitter.is_some()),
            ("--slowdown", self.slowdown.is_some()),
            ("--sharing", self.sharing.is_some()),
            ("--cores", self.cores.is_some()),
        ];
        given.into_iter().find_map(|(flag, is_given)| is_given.then_some(flag))
    }

    /// Whether hosts have so many cores and no more.
    pub(super) fn shares_cores(&self) -> bool {
        self.cores.is_some()
    }

    /// What remains to be said once there is a world of ranks that are alike.
    pub(super) fn change(
        &self,
        alike: Cluster,
        world_size: usize,
        computes: Computes,
    ) -> Result<Cluster, SimulateError> {
        let mut speeds = BTreeMap::new();
        for &SpeedOf { rank, speed } in &self.speed {
            if speeds.insert(rank, speed).is_some() {
                return Err(SimulateError::SpeedTwice { rank });
            }
        }
        let all_ranks = u32::try_from(world_size).unwrap_or(u32::MAX);
        let ranks_per_node = alike.ranks_per_node.map_or(all_ranks, NonZeroU32::get);
        let duplex = if self.half_duplex { Duplex::Half } else { Duplex::Full };
        let sharing = match self.sharing {
            None | Some(SharedPorts::Own) if self.half_duplex => return Err(SimulateError::HalfDuplex),
            None | Some(SharedPorts::Own) => Sharing::Own,
            Some(SharedPorts::RankPort) => Sharing::RankPort(duplex),
            Some(SharedPorts::NodePort) if ranks_per_node >= all_ranks => {
                return Err(SimulateError::OneNode { world_size });
            }
            Some(SharedPorts::NodePort) => Sharing::NodePort(duplex),
        };
        let cores = self.cores.map(|num_cores| Cores {
            ranks_per_host: self.ranks_per_host.unwrap_or(ranks_per_node),
            num_cores,
            computes,
        });
        let seed = self.jitter_seed.unwrap_or(0);
        let jitter = self.jitter.map(|Factor(share)| Jitter { seed, share });
        let slowdown = self.slowdown.map_or(Ratio::ONE, |Slowdown(ratio)| ratio);
        Ok(Cluster { sharing, slowdown, speeds, jitter, cores, ..alike })
    }
}

/// What makes a world other than its ranks alone would be, for people.
pub(super) fn describe(world: &Cluster) -> String {
    let speeds =
        world.speeds.iter().map(|(rank, &speed)| format!("rank {rank} at {} of its speed", decimal(speed)));
    let mut parts: Vec<String> = speeds.collect();
    if let Some(Jitter { seed, share }) = world.jitter {
        parts.push(format!("computes up to {} of their time longer (seed {seed})", decimal(share)));
    }
    if world.slowdown != Ratio::ONE {
        parts.push(format!("computes {} times as long beside messages", decimal(world.slowdown)));
    }
    let ports = |of: &str, duplex: Duplex| match duplex {
        Duplex::Full => format!("messages share {of} ports"),
        Duplex::Half => format!("messages share {of} ports, both ways at once"),
    };
    match world.sharing {
        Sharing::RankPort(duplex) => parts.push(ports("their ranks'", duplex)),
        Sharing::NodePort(duplex) => parts.push(ports("their nodes'", duplex)),
        Sharing::Own => {}
    }
    if let Some(Cores { ranks_per_host, num_cores, computes }) = world.cores {
        let what = match computes {
            Computes::OccupyCores => "",
            Computes::Elsewhere => ", for messages alone",
        };
        let cores = counted(num_cores as usize, "core");
        parts.push(format!("{cores} for each {}{what}", counted(ranks_per_host as usize, "rank")));
    }
    if parts.is_empty() { "nothing".to_owned() } else { parts.join("; ") }
}

/// The same for programs.
pub(super) fn as_json(world: &Cluster) -> Value {
    let speeds = world.speeds.iter().map(|(rank, &speed)| json!({ "rank": rank, "factor": decimal(speed) }));
    let (sharing, half_duplex) = match world.sharing {
        Sharing::Own => ("own", false),
        Sharing::RankPort(duplex) => ("rank-port", duplex == Duplex::Half),
        Sharing::NodePort(duplex) => ("node-port", duplex == Duplex::Half),
    };
    let jitter = world.jitter.map(|Jitter { seed, share }| json!({ "share": decimal(share), "seed": seed }));
    let cores = world.cores.map(|Cores { ranks_per_host, num_cores, computes }| {
        json!({
            "num_cores": num_cores,
            "ranks_per_host": ranks_per_host,
            "computes_occupy_cores": computes == Computes::OccupyCores,
        })
    });
    json!({
        "speeds": speeds.collect::<Vec<_>>(),
        "jitter": jitter,
        "slowdown": decimal(world.slowdown),
        "sharing": sharing,
        "half_duplex": half_duplex,
        "cores": cores,
    })
}

/// What was typed: the shortest decimal that is nearest to the quotient.
fn decimal(of: Ratio) -> f64 {
    f64::from(of.numerator) / f64::from(of.denominator)
}
