//! The grid of ranks: which world rank is which pipeline rank and data rank, and which ranks communicate with each other.

use std::ops::Range;

/// A DP x PP grid. Data ranks are innermost, so that gradient and gather traffic stays on near links:
/// `world rank = pipeline_rank * data_degree + data_rank`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// p: pipeline ranks.
    pub pipeline_degree: usize,
    /// d: data ranks.
    pub data_degree: usize,
}

impl Grid {
    /// p * d.
    pub fn world_size(self) -> usize {
        self.pipeline_degree * self.data_degree
    }

    /// The world rank of a place in the grid.
    pub fn rank(self, pipeline_rank: usize, data_rank: usize) -> usize {
        pipeline_rank * self.data_degree + data_rank
    }

    /// The place of a world rank along the pipeline axis.
    pub fn pipeline_rank(self, rank: usize) -> usize {
        rank / self.data_degree
    }

    /// The place of a world rank along the data axis.
    pub fn data_rank(self, rank: usize) -> usize {
        rank % self.data_degree
    }

    /// The world ranks that hold the same stages as `rank`: its data group, ascending.
    pub fn data_group(self, rank: usize) -> Range<usize> {
        let first = self.pipeline_rank(rank) * self.data_degree;
        first..first + self.data_degree
    }
}

#[cfg(test)]
mod tests {
    use super::Grid;

    #[test]
    fn places_and_ranks_are_inverse_and_data_groups_are_neighbours() {
        for pipeline_degree in 1..5 {
            for data_degree in 1..5 {
                let grid = Grid { pipeline_degree, data_degree };
                for rank in 0..grid.world_size() {
                    assert_eq!(grid.rank(grid.pipeline_rank(rank), grid.data_rank(rank)), rank);
                    let group = grid.data_group(rank);
                    assert_eq!(group.len(), data_degree);
                    assert!(group.contains(&rank));
                    assert!(group.clone().all(|peer| grid.pipeline_rank(peer) == grid.pipeline_rank(rank)));
                }
            }
        }
    }
}
