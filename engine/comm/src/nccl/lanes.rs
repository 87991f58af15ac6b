//! Which communicators the ranks of an engine need, in the order in which they are made.

use crate::group::Channel;

/// The channels of an engine that have members on more than one rank.
#[derive(Clone, Debug)]
pub struct Lanes {
    /// Number of ranks, data ranks innermost.
    pub world_size: usize,
    /// Data ranks.
    pub data_degree: usize,
    /// Pipeline ranks of the uses of a tied weight.
    pub tied: Option<[usize; 2]>,
    /// Of each directed stage edge between ranks its number and the pipeline ranks that send and receive.
    pub edges: Vec<(u32, [usize; 2])>,
    /// Elements of the largest unit.
    pub largest_unit: usize,
}

/// A channel as one rank sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The world ranks that it connects, in their order in the communicator.
    pub(super) members: Vec<usize>,
    /// Tells apart the groups that have this channel, each for itself.
    pub(super) color: usize,
    /// This rank's place among them.
    pub(super) position: usize,
}

impl Lanes {
    /// All channels, in the order in which every rank makes them.
    pub(super) fn channels(&self) -> Vec<Channel> {
        let mut channels = Vec::new();
        if self.data_degree > 1 {
            channels.extend([Channel::Gather, Channel::Reduce]);
        }
        channels.extend(self.tied.map(|_| Channel::Tied));
        channels.extend(self.edges.iter().map(|&(edge, _)| Channel::Edge(edge)));
        channels
    }

    /// A rank's place in a channel's communicator; `None` if it takes no part.
    pub(super) fn place(&self, channel: Channel, rank: usize) -> Option<Place> {
        let (pipeline_rank, data_rank) = (rank / self.data_degree, rank % self.data_degree);
        let members: Vec<usize> = match channel {
            Channel::Gather | Channel::Reduce => {
                let first = rank - data_rank;
                (first..first + self.data_degree).collect()
            }
            Channel::Tied => self.across(self.tied?, data_rank),
            Channel::Edge(edge) => {
                let (_, ends) = self.edges.iter().find(|&&(number, _)| number == edge)?;
                self.across(*ends, data_rank)
            }
            Channel::Words | Channel::Collect => return None,
        };
        let position = members.iter().position(|&member| member == rank)?;
        let color = match channel {
            Channel::Gather | Channel::Reduce => pipeline_rank,
            _ => data_rank,
        };
        Some(Place { members, color, position })
    }

    fn across(&self, pipeline_ranks: [usize; 2], data_rank: usize) -> Vec<usize> {
        pipeline_ranks.map(|pipeline_rank| pipeline_rank * self.data_degree + data_rank).into()
    }

    /// The most lanes that a rank has, that of the world included.
    pub(crate) fn num_at_once(&self) -> usize {
        let channels = self.channels();
        let num_lanes =
            |rank| channels.iter().filter(|&&channel| self.place(channel, rank).is_some()).count();
        1 + (0..self.world_size).step_by(self.data_degree).map(num_lanes).max().unwrap_or(0)
    }
}
