//! The chain of units, and where it is cut: what lowering, dependencies and checks ask about a unit or an edge.

use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use crate::id::{PipelineRank, Stage, Unit};
use crate::instruction::Edge;
use crate::placement::Placement;
use crate::unit_facts::{Tying, UnitFacts, UnitSharding};

/// The units of the model in order, cut into stages, placed on ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    placement: Placement,
    units: Vec<UnitFacts>,
    // `first_units[s]..first_units[s + 1]` are the units of stage s.
    first_units: Vec<u32>,
    tied_pairs: Vec<(Unit, Unit)>,
    // The units before this one are frozen, and this one is not.
    first_trained: u32,
}

/// Why a list of units is not a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChainError {
    /// A unit's stage is neither that of the unit before it nor the next one.
    StageOutOfOrder {
        /// The unit.
        unit: Unit,
        /// Its stage.
        stage: Stage,
        /// The lowest stage that could stand here.
        expected: Stage,
    },
    /// There are units for fewer stages than the placement has.
    StageWithoutUnit(Stage),
    /// The two uses of the tied weight differ in what is sharded of it: it is one weight.
    TiedSharding {
        /// The embedding's use.
        embedding: Unit,
        /// The head's.
        head: Unit,
    },
    /// The frozen part of a unit's weights is larger than they are, or all of them.
    FrozenBytes {
        /// The unit.
        unit: Unit,
        /// Bytes of its gathered weights that are frozen.
        frozen_bytes: u64,
        /// Bytes of all of them.
        num_bytes: u64,
    },
    /// One of the two uses of the tied weight is frozen, the other trained: it is one weight.
    HalfFrozen {
        /// The embedding's use.
        embedding: Unit,
        /// The head's.
        head: Unit,
    },
    /// The tied weight has not as many heads as embeddings, one of each for every slice, or a head comes before an embedding.
    Tying {
        /// Units marked as the embedding.
        num_embeddings: usize,
        /// Units marked as the head.
        num_heads: usize,
    },
}

impl fmt::Display for ChainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StageOutOfOrder { unit, stage, expected } => write!(
                f,
                "unit {} lies on stage {}: units stand in chain order and stages ascend without gaps; \
                 expected stage {} here or the one after it",
                unit.0, stage.0, expected.0
            ),
            Self::StageWithoutUnit(stage) => write!(
                f,
                "stage {} has no unit: every stage has at least 1; use fewer stages or more units",
                stage.0
            ),
            Self::TiedSharding { embedding, head } => write!(
                f,
                "units {} and {} are two uses of one tied weight, but not both sharded, both persistent or both whole; mark them alike",
                embedding.0, head.0
            ),
            Self::FrozenBytes { unit, frozen_bytes, num_bytes } => write!(
                f,
                "unit {}: {frozen_bytes} of {num_bytes} gathered bytes are frozen, which leaves no trained ones beside them, or more than there are, or the \
                 unit is frozen already, or not gathered; write fewer, or mark the unit frozen without a number",
                unit.0
            ),
            Self::HalfFrozen { embedding, head } => write!(
                f,
                "units {} and {} are two uses of one tied weight, but one of them is frozen; freeze both or none",
                embedding.0, head.0
            ),
            Self::Tying { num_embeddings, num_heads } => write!(
                f,
                "{num_embeddings} units are marked as tied embedding and {num_heads} as tied head: each slice of a tied weight \
                 has one embedding and, behind all embeddings, one head; mark both or none"
            ),
        }
    }
}

impl core::error::Error for ChainError {}

impl Chain {
    /// Units in chain order on stages placed so.
    ///
    /// # Errors
    /// [`ChainError`] unless stages ascend, each with a unit, frozen bytes are a part of a unit's, and tied uses come as embeddings before as many heads, both of a
    /// slice sharded alike, and frozen or trained alike.
    pub fn new(placement: Placement, units: Vec<UnitFacts>) -> Result<Self, ChainError> {
        let mut first_units = Vec::with_capacity(placement.num_stages() + 1);
        for (index, facts) in units.iter().enumerate() {
            let unit = Unit(index as u32);
            let next = Stage(first_units.len() as u32);
            if facts.stage == next && next.index() < placement.num_stages() {
                first_units.push(unit.0);
            } else if facts.stage.0.checked_add(1) != Some(next.0) {
                let expected = Stage(next.0.saturating_sub(1));
                return Err(ChainError::StageOutOfOrder { unit, stage: facts.stage, expected });
            }
        }
        if first_units.len() < placement.num_stages() {
            return Err(ChainError::StageWithoutUnit(Stage(first_units.len() as u32)));
        }
        first_units.push(units.len() as u32);
        if let Some(index) = units.iter().position(|facts| facts.frozen_bytes > 0 && !is_part_frozen(facts)) {
            let UnitFacts { frozen_bytes, num_bytes, .. } = units[index];
            return Err(ChainError::FrozenBytes { unit: Unit(index as u32), frozen_bytes, num_bytes });
        }
        let tied_pairs = tied_pairs(&units)?;
        for &(embedding, head) in &tied_pairs {
            let of_both = [embedding, head].map(|unit| &units[unit.index()]);
            if of_both[0].sharding != of_both[1].sharding {
                return Err(ChainError::TiedSharding { embedding, head });
            }
            let frozen = of_both.map(|facts| (facts.is_frozen, facts.frozen_bytes));
            if frozen[0] != frozen[1] {
                return Err(ChainError::HalfFrozen { embedding, head });
            }
        }
        let first_trained = units.iter().take_while(|facts| facts.is_frozen).count() as u32;
        Ok(Self { placement, units, first_units, tied_pairs, first_trained })
    }

    /// Where the stages lie.
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    /// What is known of each unit, in chain order.
    pub fn units(&self) -> &[UnitFacts] {
        &self.units
    }

    /// Number of units of the whole model.
    pub fn num_units(&self) -> usize {
        self.units.len()
    }

    /// Number of stages.
    pub fn num_stages(&self) -> usize {
        self.placement.num_stages()
    }

    /// Number of pipeline ranks.
    pub fn num_ranks(&self) -> usize {
        self.placement.num_ranks()
    }

    /// Every pipeline rank, ascending.
    pub fn ranks(&self) -> impl DoubleEndedIterator<Item = PipelineRank> + use<> {
        self.placement.ranks()
    }

    /// Number of directed edges between neighbouring stages, those within a rank included: the length of a table by
    /// [`Edge::index`].
    pub fn num_edges(&self) -> usize {
        2 * (self.num_stages() - 1)
    }

    /// Every edge, ascending by [`Edge::index`]: of each pair of neighbouring stages up, then down.
    pub fn edges(&self) -> impl Iterator<Item = Edge> + use<> {
        (1..self.num_stages() as u32)
            .flat_map(|high| [Edge::Up(Stage(high - 1)), Edge::Down(Stage(high - 1))])
    }

    /// What is known of a unit.
    ///
    /// # Panics
    /// If there is no such unit; so do all methods that take a unit or stage.
    pub fn facts(&self, unit: Unit) -> &UnitFacts {
        &self.units[unit.index()]
    }

    /// The stage of a unit.
    pub fn stage(&self, unit: Unit) -> Stage {
        self.facts(unit).stage
    }

    /// The pipeline rank of a unit.
    pub fn rank(&self, unit: Unit) -> PipelineRank {
        self.placement.rank(self.stage(unit))
    }

    /// The units of a stage, ascending.
    pub fn units_of(&self, stage: Stage) -> Range<u32> {
        self.first_units[stage.index()]..self.first_units[stage.index() + 1]
    }

    /// The unit that takes the stage's input.
    pub fn first_unit(&self, stage: Stage) -> Unit {
        Unit(self.first_units[stage.index()])
    }

    /// The unit that makes the stage's output.
    pub fn last_unit(&self, stage: Stage) -> Unit {
        Unit(self.first_units[stage.index() + 1] - 1)
    }

    /// Whether a unit takes its stage's input.
    pub(crate) fn is_first(&self, unit: Unit) -> bool {
        unit == self.first_unit(self.stage(unit))
    }

    /// Whether a unit makes its stage's output.
    pub(crate) fn is_last(&self, unit: Unit) -> bool {
        unit == self.last_unit(self.stage(unit))
    }

    /// The units of a rank, ascending.
    pub fn units_on(&self, rank: PipelineRank) -> impl Iterator<Item = Unit> + '_ {
        self.placement.stages(rank).flat_map(|stage| self.units_of(stage)).map(Unit)
    }

    /// The two uses of each slice of the tied weight, embedding first; one pair where it is not cut, none where no weight is
    /// tied.
    pub fn tied_pairs(&self) -> &[(Unit, Unit)] {
        &self.tied_pairs
    }

    /// The embedding's use of the weight that a unit uses as a head, if it is one of a tied weight.
    pub fn tied_embedding(&self, head: Unit) -> Option<Unit> {
        self.tied_pairs.iter().find(|pair| pair.1 == head).map(|&(embedding, _)| embedding)
    }

    /// The embeddings and heads whose gradients are added to one sum: all tied pairs but frozen ones.
    pub(crate) fn summed_pairs(&self) -> impl Iterator<Item = (Unit, Unit)> + '_ {
        self.tied_pairs.iter().copied().filter(|&(embedding, _)| !self.facts(embedding).is_frozen)
    }

    /// Whether the backward of a unit has anything to do: something is trained in it, or in a unit before it.
    pub fn has_backward(&self, unit: Unit) -> bool {
        unit.0 >= self.first_trained
    }

    /// Whether a stage's activations of a micro-batch are needed no longer once its output is sent: it has no backward, and its output goes to another
    /// rank.
    pub(crate) fn ends_with_send(&self, stage: Stage) -> bool {
        self.last_forward(stage) == Some(stage)
    }

    /// The stage whose forward is the last to need a stage's activations, if no backward does: the stage itself, or, where the next ones lie on the
    /// same rank and read them there, the last of these.
    pub(crate) fn last_forward(&self, stage: Stage) -> Option<Stage> {
        let mut without_backward = (stage.0..self.num_stages() as u32)
            .map(Stage)
            .take_while(|&stage| !self.has_backward(self.last_unit(stage)));
        without_backward.find(|&stage| self.crosses_ranks(Edge::Up(stage)))
    }

    /// Whether a training step sends messages over the edge: it joins different ranks, and, if it is for gradients, the stage that would receive
    /// them has a backward. An evaluation has no gradients at all.
    pub fn is_sent_over(&self, edge: Edge) -> bool {
        let is_read = match edge {
            Edge::Up(_) => true,
            Edge::Down(stage) => {
                stage.index() < self.num_stages() && self.has_backward(self.last_unit(stage))
            }
        };
        is_read && self.crosses_ranks(edge)
    }

    /// Whether the edge exists and joins different ranks; within a rank nothing is sent.
    pub fn crosses_ranks(&self, edge: Edge) -> bool {
        let num_stages = self.num_stages();
        // Compared this way round so that no stage number of a hand-written program overflows.
        let (Edge::Up(low) | Edge::Down(low)) = edge;
        low.index() < num_stages.saturating_sub(1)
            && self.placement.rank(edge.sender()) != self.placement.rank(edge.receiver())
    }

    /// The edge that a forward of this unit waits for: into the first unit of a stage.
    pub fn forward_input(&self, unit: Unit) -> Option<Edge> {
        let edge = Edge::Up(Stage(self.stage(unit).0.checked_sub(1)?));
        (self.is_first(unit) && self.crosses_ranks(edge)).then_some(edge)
    }

    /// The edge that a forward of this unit feeds: out of the last unit of a stage.
    pub fn forward_output(&self, unit: Unit) -> Option<Edge> {
        let edge = Edge::Up(self.stage(unit));
        (self.is_last(unit) && self.crosses_ranks(edge)).then_some(edge)
    }

    /// The edge that an input gradient of this unit waits for: into the last unit of a stage, if something is trained in it or before it.
    pub fn backward_input(&self, unit: Unit) -> Option<Edge> {
        let edge = Edge::Down(self.stage(unit));
        (self.is_last(unit) && self.is_sent_over(edge)).then_some(edge)
    }

    /// The edge that an input gradient of this unit feeds: out of the first unit of a stage, if something is trained before it.
    pub fn backward_output(&self, unit: Unit) -> Option<Edge> {
        let edge = Edge::Down(Stage(self.stage(unit).0.checked_sub(1)?));
        (self.is_first(unit) && self.is_sent_over(edge)).then_some(edge)
    }

    /// The unit whose forward fills the edge, or whose input gradient does.
    pub fn producer(&self, edge: Edge) -> Unit {
        match edge {
            Edge::Up(stage) => self.last_unit(stage),
            Edge::Down(stage) => self.first_unit(Stage(stage.0 + 1)),
        }
    }

    /// The unit whose forward reads what comes over the edge, or whose input gradient does.
    pub fn consumer(&self, edge: Edge) -> Unit {
        match edge {
            Edge::Up(stage) => self.first_unit(Stage(stage.0 + 1)),
            Edge::Down(stage) => self.last_unit(stage),
        }
    }
}

/// Whether the frozen bytes of a unit are a part of what is gathered of it, beside weights that are trained.
fn is_part_frozen(facts: &UnitFacts) -> bool {
    let is_gathered = matches!(facts.sharding, UnitSharding::Sharded | UnitSharding::Mixed { .. });
    is_gathered && !facts.is_frozen && facts.frozen_bytes <= facts.num_bytes && facts.trained_bytes() > 0
}

fn tied_pairs(units: &[UnitFacts]) -> Result<Vec<(Unit, Unit)>, ChainError> {
    let positions = |tying| {
        let of_kind =
            move |(index, facts): (usize, &UnitFacts)| (facts.tying == tying).then_some(Unit(index as u32));
        units.iter().enumerate().filter_map(of_kind).collect::<Vec<_>>()
    };
    let (embeddings, heads) = (positions(Tying::Embedding), positions(Tying::Head));
    if embeddings.len() != heads.len() || embeddings.last() > heads.first() {
        return Err(ChainError::Tying { num_embeddings: embeddings.len(), num_heads: heads.len() });
    }
    Ok(embeddings.into_iter().zip(heads).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(stage: u32, tying: Tying) -> UnitFacts {
        UnitFacts { tying, ..UnitFacts::new(Stage(stage), 1) }
    }

    fn chain(num_ranks: u32, units: &[(u32, Tying)]) -> Result<Chain, ChainError> {
        let units = units.iter().map(|&(stage, tying)| unit(stage, tying)).collect();
        Chain::new(Placement::linear(num_ranks).unwrap(), units)
    }

    #[test]
    fn stages_ascend_without_gaps() {
        use Tying::Untied;
        let out_of_order = |unit, stage, expected| ChainError::StageOutOfOrder {
            unit: Unit(unit),
            stage: Stage(stage),
            expected: Stage(expected),
        };
        assert_eq!(chain(2, &[(1, Untied)]), Err(out_of_order(0, 1, 0)));
        assert_eq!(chain(2, &[(0, Untied), (1, Untied), (0, Untied)]), Err(out_of_order(2, 0, 1)));
        assert_eq!(chain(2, &[(0, Untied), (1, Untied), (2, Untied)]), Err(out_of_order(2, 2, 1)));
        assert_eq!(chain(2, &[(0, Untied)]), Err(ChainError::StageWithoutUnit(Stage(1))));
        let units = chain(2, &[(0, Untied), (0, Untied), (1, Untied)]).unwrap();
        assert_eq!((units.units_of(Stage(0)), units.units_of(Stage(1))), (0..2, 2..3));
    }

    #[test]
    fn a_tied_weight_has_an_embedding_before_a_head_for_each_slice() {
        use Tying::{Embedding, Head, Untied};
        let tied = |units: &[(u32, Tying)]| chain(1, units).unwrap().tied_pairs().to_vec();
        assert_eq!(tied(&[(0, Embedding), (0, Untied), (0, Head)]), [(Unit(0), Unit(2))]);
        let slices = [(0, Embedding), (0, Embedding), (0, Untied), (0, Head), (0, Head)];
        assert_eq!(tied(&slices), [(Unit(0), Unit(3)), (Unit(1), Unit(4))]);
        for wrong in [
            &[(0, Embedding)][..],
            &[(0, Head)],
            &[(0, Head), (0, Embedding)],
            &[(0, Head), (0, Head)],
            &[(0, Embedding), (0, Head), (0, Embedding), (0, Head)],
            &[(0, Embedding), (0, Embedding), (0, Head)],
        ] {
            assert!(matches!(chain(1, wrong), Err(ChainError::Tying { .. })), "{wrong:?}");
        }
    }

    #[test]
    fn a_tied_weight_is_sharded_alike_in_both_uses() {
        use UnitSharding::{Mixed, Persistent, Sharded, Whole};
        let tied = |sharding: [UnitSharding; 2]| {
            let uses = [(Tying::Embedding, sharding[0]), (Tying::Head, sharding[1])];
            let units = uses.map(|(tying, sharding)| UnitFacts { sharding, ..unit(0, tying) });
            Chain::new(Placement::linear(1).unwrap(), units.to_vec()).map(|_| ())
        };
        let all = [Sharded, Persistent, Whole, Mixed { persistent_bytes: 32, whole_bytes: 8 }];
        for uses in all.into_iter().flat_map(|embedding| all.map(|head| [embedding, head])) {
            let refused = ChainError::TiedSharding { embedding: Unit(0), head: Unit(1) };
            assert_eq!(tied(uses), if uses[0] == uses[1] { Ok(()) } else { Err(refused) });
        }
    }

    #[test]
    fn frozen_bytes_are_a_part_of_a_trained_unit() {
        let chain = |facts: UnitFacts| Chain::new(Placement::linear(1).unwrap(), vec![facts]).map(|_| ());
        let mixed = UnitSharding::Mixed { persistent_bytes: 8, whole_bytes: 0 };
        for (frozen_bytes, sharding, is_frozen, is_accepted) in [
            (0, UnitSharding::Sharded, true, true),
            (7, UnitSharding::Sharded, false, true),
            (8, UnitSharding::Sharded, false, false),
            (9, UnitSharding::Sharded, false, false),
            (7, UnitSharding::Sharded, true, false),
            (8, mixed, false, true),
            (8, UnitSharding::Mixed { persistent_bytes: 0, whole_bytes: 0 }, false, false),
            (4, UnitSharding::Whole, false, false),
            (9, mixed, false, false),
        ] {
            let facts = UnitFacts { frozen_bytes, sharding, is_frozen, ..UnitFacts::new(Stage(0), 8) };
            let refused = ChainError::FrozenBytes { unit: Unit(0), frozen_bytes, num_bytes: 8 };
            assert_eq!(chain(facts), if is_accepted { Ok(()) } else { Err(refused) }, "{facts:?}");
        }
    }

    #[test]
    fn edges_and_ranks_are_listed_by_their_numbers() {
        for num_stages in 1..6 {
            let units = (0..num_stages).map(|stage| (stage, Tying::Untied)).collect::<Vec<_>>();
            let chain = chain(num_stages, &units).unwrap();
            let numbers = chain.edges().map(Edge::index).collect::<Vec<_>>();
            assert_eq!(numbers, (0..chain.num_edges()).collect::<Vec<_>>());
            assert_eq!(numbers.len() as u32, 2 * (num_stages - 1));
            assert!(chain.edges().all(|edge| chain.crosses_ranks(edge)));
            assert!(chain.ranks().map(PipelineRank::index).eq(0..chain.num_ranks()));
        }
    }

    #[test]
    fn edges_within_a_rank_do_not_count() {
        let placement = Placement::new([0, 1, 1, 0].map(PipelineRank).to_vec()).unwrap();
        let units = (0..4).map(|stage| unit(stage, Tying::Untied)).collect::<Vec<_>>();
        let chain = Chain::new(placement, units).unwrap();
        assert_eq!(chain.forward_output(Unit(0)), Some(Edge::Up(Stage(0))));
        assert_eq!(chain.forward_output(Unit(1)), None);
        assert_eq!(chain.backward_input(Unit(2)), Some(Edge::Down(Stage(2))));
        assert_eq!(chain.backward_output(Unit(0)), None);
        assert!(!chain.crosses_ranks(Edge::Up(Stage(u32::MAX))));
        assert_eq!(chain.units_on(PipelineRank(0)).collect::<Vec<_>>(), vec![Unit(0), Unit(3)]);
    }
}
