//! What one rank needs and sends with some choice.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::costs::{BufferBounds, GatherCosts, RankCosts, RankRow, WeightCosts};
use crate::role::UnitSharding;
use crate::zero::WeightElements;

/// What a choice costs a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cost {
    pub(super) peak_bytes: u64,
    pub(super) sent_bytes: u64,
}

/// A rank, with what its row has answered.
pub(super) struct Rank<'a, R> {
    pub(super) costs: &'a RankCosts<R>,
    gathers: RefCell<HashMap<Vec<bool>, Rc<GatherCosts>>>,
    gradients: RefCell<HashMap<Vec<bool>, u64>>,
}

impl<'a, R: RankRow> Rank<'a, R> {
    pub(super) fn new(costs: &'a RankCosts<R>) -> Self {
        Self { costs, gathers: RefCell::default(), gradients: RefCell::default() }
    }

    pub(super) fn num_weights(&self) -> usize {
        self.costs.weights.len()
    }

    /// The peak with everything whole.
    pub(super) fn whole_peak_bytes(&self) -> u64 {
        self.cost(&vec![UnitSharding::Whole; self.num_weights()]).peak_bytes
    }

    /// Whether the rank may have these kinds.
    pub(super) fn allows(&self, kinds: &[UnitSharding]) -> bool {
        self.costs.may_be_zero_2 || !self.elements(kinds).are_as_under_zero_2()
    }

    fn elements(&self, kinds: &[UnitSharding]) -> WeightElements {
        let mut sum = WeightElements::default();
        for (weight, &kind) in self.costs.weights.iter().zip(kinds) {
            let WeightCosts { num_elements, num_trained, .. } = *weight;
            let if_so = |holds: bool, elements: u64| if holds { elements } else { 0 };
            sum.num_all += num_elements;
            sum.num_trained += num_trained;
            sum.num_sharded += if_so(kind == UnitSharding::Sharded, num_elements);
            sum.num_reduced_often += if_so(kind != UnitSharding::Whole, num_trained);
        }
        sum
    }

    pub(super) fn cost(&self, kinds: &[UnitSharding]) -> Cost {
        let gathers = self.gathers(kinds);
        let gathered = gathers.sent_bytes.iter().copied().fold(0, u64::saturating_add);
        Cost {
            peak_bytes: self.ungathered_bytes(kinds).saturating_add(gathers.buffer_bytes),
            sent_bytes: self
                .costs
                .fixed_sent_bytes
                .saturating_add(self.sum(kinds, |weight| &weight.sent_bytes))
                .saturating_add(gathered),
        }
    }

    /// No less and no more than the peak with these kinds, without planning the row.
    pub(super) fn peak_bounds(&self, kinds: &[UnitSharding]) -> BufferBounds {
        let BufferBounds { least_bytes, most_bytes } = self.costs.row.buffer_bounds(&are_sharded(kinds));
        let ungathered = self.ungathered_bytes(kinds);
        let [least_bytes, most_bytes] =
            [least_bytes, most_bytes].map(|bytes| ungathered.saturating_add(bytes));
        BufferBounds { least_bytes, most_bytes }
    }

    /// The peak but for gather buffers.
    fn ungathered_bytes(&self, kinds: &[UnitSharding]) -> u64 {
        self.costs
            .fixed_peak_bytes
            .saturating_add(self.sum(kinds, |weight| &weight.at_rest_bytes))
            .saturating_add(self.gradient_buffer_bytes(kinds))
    }

    fn sum(&self, kinds: &[UnitSharding], of: fn(&WeightCosts) -> &[u64; 3]) -> u64 {
        let own = self.costs.weights.iter().zip(kinds).map(|(weight, &kind)| of(weight)[kind as usize]);
        own.fold(0, u64::saturating_add)
    }

    /// The gathers of those sharded.
    pub(super) fn gathers(&self, kinds: &[UnitSharding]) -> Rc<GatherCosts> {
        let mut known = self.gathers.borrow_mut();
        let new = |is_sharded: &Vec<bool>| Rc::new(self.costs.row.gathers(is_sharded));
        Rc::clone(known.entry(are_sharded(kinds)).or_insert_with_key(new))
    }

    fn gradient_buffer_bytes(&self, kinds: &[UnitSharding]) -> u64 {
        let is_reduced_often = kinds.iter().map(|&kind| kind != UnitSharding::Whole).collect();
        let mut known = self.gradients.borrow_mut();
        let new = |is_reduced_often: &Vec<bool>| self.costs.row.gradient_buffer_bytes(is_reduced_often);
        *known.entry(is_reduced_often).or_insert_with_key(new)
    }
}

fn are_sharded(kinds: &[UnitSharding]) -> Vec<bool> {
    kinds.iter().map(|&kind| kind == UnitSharding::Sharded).collect()
}
