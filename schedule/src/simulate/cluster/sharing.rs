//! Ports: what messages under way at once share.
//!
//! Every lane occupies some ports while one of its messages is under way. `n` messages at a port proceed at `1/n`
//! each, and a message proceeds as fast as its slowest port allows. What it cannot use of its share of another port
//! is left unused: max-min fair division, which gives that to other messages, needs all rates of the cluster for each
//! of them, and differs only where a message has two crowded ports. Norm and tied additions share nothing:
//! they run when all else is done.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::num::NonZeroU32;

use super::grid::{ClusterLane, Grid};

/// Whether what is sent and what is received disturb each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplex {
    /// No: a port has two directions. Collectives use both.
    Full,
    /// Yes: a port has one.
    Half,
}

/// Which messages share ports. Whether gathers and reductions take turns is a separate choice ([`Links`]); both can
/// hold.
///
/// [`Links`]: crate::simulate::Links
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// None: a link for each lane.
    Own,
    /// Each rank has a port to its node and one to others. All that it sends and receives near goes over the one, all
    /// far over the other.
    RankPort(Duplex),
    /// Each node has one port to the others, the network interface that its ranks share; near lanes have their own
    /// links.
    NodePort(Duplex),
}

/// The lanes of each port, and the ports of each lane.
pub(super) struct Ports {
    /// `[port]`
    pub(super) lanes: Vec<Vec<u32>>,
    /// `[lane]`
    pub(super) of_lane: Vec<Vec<u32>>,
}

impl Ports {
    pub(super) fn new(grid: Grid<'_>, sharing: Sharing, ranks_per_node: Option<NonZeroU32>) -> Self {
        Self::by(grid, |lane| {
            let is_far = is_far(&grid.members(lane), ranks_per_node);
            let ports = |duplex, owner: fn(usize, Option<NonZeroU32>) -> usize| {
                // The rank or node, and which of its ports.
                let port = |(rank, way)| (owner(rank, ranks_per_node), is_far, way);
                ways(grid, lane, duplex).map(port).collect()
            };
            match sharing {
                Sharing::Own => BTreeSet::new(),
                Sharing::RankPort(duplex) => ports(duplex, |rank, _| rank),
                Sharing::NodePort(_) if !is_far => BTreeSet::new(),
                // A far message passes each node's port once, however many of its ranks are on the node: a ring enters
                // and leaves it once.
                Sharing::NodePort(duplex) => ports(duplex, node),
            }
        })
    }

    /// The ports that a rule gives each lane; any ordered type serves as a port's key.
    pub(super) fn by<P: Ord>(grid: Grid<'_>, ports_of: impl Fn(ClusterLane) -> BTreeSet<P>) -> Self {
        let mut by_port: BTreeMap<P, Vec<u32>> = BTreeMap::new();
        for lane in grid.lanes() {
            for port in ports_of(lane) {
                by_port.entry(port).or_default().push(grid.lane_index(lane) as u32);
            }
        }
        // A port with one lane is never shared.
        let lanes: Vec<Vec<u32>> = by_port.into_values().filter(|lanes| lanes.len() > 1).collect();
        let mut of_lane = alloc::vec![Vec::new(); grid.num_lanes()];
        for (port, of_port) in lanes.iter().enumerate() {
            of_port.iter().for_each(|&lane| of_lane[lane as usize].push(port as u32));
        }
        Self { lanes, of_lane }
    }

    /// The most lanes that a port has.
    pub(super) fn max_lanes(&self) -> usize {
        self.lanes.iter().map(Vec::len).max().unwrap_or(1)
    }
}

/// Whether the ranks of a message are on more than one node.
pub(super) fn is_far(ranks: &[usize], ranks_per_node: Option<NonZeroU32>) -> bool {
    ranks.iter().any(|&rank| node(rank, ranks_per_node) != node(ranks[0], ranks_per_node))
}

fn node(rank: usize, ranks_per_node: Option<NonZeroU32>) -> usize {
    ranks_per_node.map_or(0, |num_ranks| rank / num_ranks.get() as usize)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Out,
    In,
}

/// Which ways a lane's messages go at each of its ranks.
fn ways(grid: Grid<'_>, lane: ClusterLane, duplex: Duplex) -> impl Iterator<Item = (usize, Way)> {
    let members = grid.members(lane).into_iter().enumerate();
    members.flat_map(move |(number, rank)| {
        let (out, back) = match lane {
            ClusterLane::Gather(_) | ClusterLane::Reduce(_) => (true, true),
            // The sender stands first.
            ClusterLane::Edge { .. } => (number == 0, number == 1),
        };
        let ways = match duplex {
            Duplex::Full => [out.then_some(Way::Out), back.then_some(Way::In)],
            Duplex::Half => [Some(Way::Out), None],
        };
        ways.into_iter().flatten().map(move |way| (rank, way))
    })
}
