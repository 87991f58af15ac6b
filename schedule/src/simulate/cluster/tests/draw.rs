//! Random costs and clusters, small enough for ties to be common.

use std::num::NonZeroU32;
use std::vec::Vec;

use crate::check::CheckedProgram;
use crate::generate::{eager_1f1b, gpipe, interleaved, one_f_one_b, zb_h1, zb_v};
use crate::lower::lower;
use crate::order::ComputeOrder;
use crate::simulate::cluster::{Cluster, Computes, Cores, Duplex, Jitter, Ratio, Sharing};
use crate::simulate::{Costs, Links, MessageCost, UnitCosts};
use crate::testing::{Random, all_options, mixed_units, units};

pub(super) struct Draw(Random);

impl Draw {
    pub(super) fn new(seed: u64) -> Self {
        Self(Random(seed))
    }

    pub(super) fn below(&mut self, bound: usize) -> u64 {
        self.0.below(bound) as u64
    }

    /// One of these.
    pub(super) fn one_of<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.0.below(of.len())].clone()
    }

    /// Below a bound; 0 for a third of the draws and more.
    fn cost(&mut self, bound: u64) -> u64 {
        (self.below(bound as usize * 3 / 2) + 1).saturating_sub(bound / 2)
    }

    pub(super) fn message(&mut self) -> MessageCost {
        MessageCost {
            issue: self.cost(4),
            occupied: self.cost(9),
            latency: self.cost(6),
            landing: self.cost(4),
        }
    }

    fn unit(&mut self) -> UnitCosts {
        UnitCosts {
            forward: self.cost(9),
            backward: self.cost(12),
            backward_input: self.cost(8),
            backward_weight: self.cost(6),
            recompute: self.cost(9),
            gradient_norm: self.cost(4),
            optimizer_step: self.cost(5),
            gather: self.message(),
            reduce: self.message(),
            reduce_last: self.message(),
            gather_after_step: self.message(),
        }
    }

    /// Costs of which no two need be equal.
    pub(super) fn costs(&mut self, program: &CheckedProgram) -> Costs {
        Costs {
            edges: self.message_costs(program),
            units: program.units().iter().map(|_| self.unit()).collect(),
            add_tied: self.cost(7),
            gradient_norm: self.cost(5),
            links: self.one_of(&[Links::Own, Links::SharedByCollectives]),
        }
    }

    /// One for each edge.
    pub(super) fn message_costs(&mut self, program: &CheckedProgram) -> Vec<MessageCost> {
        (0..program.chain().num_edges()).map(|_| self.message()).collect()
    }

    /// A program of up to three ranks.
    pub(super) fn program(&mut self) -> CheckedProgram {
        let (p, m, per_stage) =
            (1 + self.below(3) as u32, 1 + self.below(4) as u32, 1 + self.below(2) as u32);
        let split: [fn(u32, u32) -> _; 2] = [zb_h1, zb_v];
        let fused: [fn(u32, u32) -> _; 3] = [one_f_one_b, eager_1f1b, gpipe];
        let which = self.below(4);
        let order: ComputeOrder = match which {
            0 => interleaved(p, 2, m, p),
            1 => self.one_of(&split)(p, m),
            _ => self.one_of(&fused)(p, m),
        }
        .unwrap();
        let num_stages = order.placement.num_stages() as u32;
        // Split backwards cannot recompute.
        let units = if which == 1 {
            units(num_stages, per_stage, num_stages * per_stage > 1)
        } else {
            mixed_units(num_stages, per_stage)
        };
        let options = self.one_of(&all_options(p));
        CheckedProgram::new(lower(&order, &units, &options).unwrap()).unwrap()
    }

    /// A cluster of a program in which any of its rules may hold.
    pub(super) fn cluster(&mut self, program: &CheckedProgram) -> Cluster {
        let data_degree = 1 + self.below(3) as u32;
        let world_size = data_degree * program.num_ranks() as u32;
        let duplex = self.one_of(&[Duplex::Full, Duplex::Half]);
        let sharing = self.one_of(&[Sharing::Own, Sharing::RankPort(duplex), Sharing::NodePort(duplex)]);
        let speeds = [(1, 2), (3, 4), (2, 1), (5, 3)].map(|(n, d)| Ratio::new(n, d));
        let computes = [Computes::OccupyCores, Computes::Elsewhere];
        Cluster {
            data_degree,
            ranks_per_node: NonZeroU32::new(self.below(4) as u32),
            far_edges: (self.below(2) == 0).then(|| self.message_costs(program)),
            sharing,
            slowdown: self.one_of(&[Ratio::ONE, Ratio::new(3, 2), Ratio::new(23, 20), Ratio::new(2, 1)]),
            speeds: (0..self.below(3))
                .map(|_| (self.below(world_size as usize) as u32, self.one_of(&speeds)))
                .collect(),
            jitter: self.one_of(&[None, None, Some(Jitter { seed: 3, share: Ratio::new(1, 2) })]),
            cores: (self.below(2) == 0).then(|| Cores {
                ranks_per_host: 1 + self.below(5) as u32,
                num_cores: 1 + self.below(3) as u32,
                computes: self.one_of(&computes),
            }),
        }
    }
}
