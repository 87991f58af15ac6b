//! What carries messages of one size, and so at one price.

use pipezero_schedule::simulate::Links;
use pipezero_schedule::{Edge, Instruction, Lane, Unit};

use crate::plan::Plan;

/// The messages of a unit, or of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::measure::trace) enum Carrier {
    Gather(Unit),
    Reduce(Unit),
    GatherAfterStep(Unit),
    Edge(Edge),
}

impl Carrier {
    /// Of a message; none of what the compute lane does.
    pub(in crate::measure::trace) fn of(instruction: Instruction) -> Option<Self> {
        match instruction {
            Instruction::Unshard { unit } => Some(Self::Gather(unit)),
            Instruction::Reduce { unit, .. }
            | Instruction::ReduceLast { unit }
            | Instruction::AllReduce { unit } => Some(Self::Reduce(unit)),
            Instruction::GatherAfterStep { unit } => Some(Self::GatherAfterStep(unit)),
            Instruction::Send { edge, .. } | Instruction::Receive { edge, .. } => Some(Self::Edge(edge)),
            Instruction::Forward { .. }
            | Instruction::Backward { .. }
            | Instruction::BackwardInput { .. }
            | Instruction::BackwardWeight { .. }
            | Instruction::Recompute { .. }
            | Instruction::Reshard { .. }
            | Instruction::AddTied { .. }
            | Instruction::GradientNorm
            | Instruction::OptimizerStep { .. } => None,
        }
    }

    /// The lane whose link it occupies: gathers and reductions have one link or two.
    pub(super) fn link(self, plan: &Plan) -> Lane {
        match self {
            Self::Gather(_) | Self::GatherAfterStep(_) => Lane::Gather,
            Self::Reduce(_) if plan.links() == Some(Links::SharedByCollectives) => Lane::Gather,
            Self::Reduce(_) => Lane::Reduce,
            Self::Edge(edge) => Lane::Edge(edge),
        }
    }

    /// The part of a message's way that does not occupy its link, where the run imitates links: the longest of all data ranks,
    /// since a prediction has one for all. Elsewhere nobody can tell the two apart, and all of the way counts as occupied.
    pub(super) fn latency_ns(self, plan: &Plan) -> u64 {
        let Some(links) = plan.run().comm.links else { return 0 };
        let (chain, grid) = (plan.training().chain(), plan.grid());
        match self {
            Self::Gather(unit) | Self::Reduce(unit) | Self::GatherAfterStep(unit) => {
                let members = grid.data_group(grid.rank(chain.rank(unit).index(), 0));
                links.between(&members.collect::<Vec<_>>()).latency_ns()
            }
            Self::Edge(edge) => {
                let ends = |data_rank| {
                    [edge.sender(), edge.receiver()]
                        .map(|stage| grid.rank(plan.pipeline_rank_of(stage).index(), data_rank))
                };
                let latency_ns = |data_rank| links.between(&ends(data_rank)).latency_ns();
                (0..grid.data_degree).map(latency_ns).max().unwrap_or(0)
            }
        }
    }
}
