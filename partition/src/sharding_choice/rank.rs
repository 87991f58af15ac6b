//! What one rank needs and sends with some choice.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::costs::{GatherCosts, RankCosts, RankRow, WeightCosts};
use crate::role::UnitSharding;

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
        let all_persist = !kinds.is_empty() && kinds.iter().all(|&kind| kind == UnitSharding::Persistent);
        let stay_whole = self.costs.weights.iter().zip(kinds).filter(|(weight, _)| weight.stays_whole);
        (self.costs.may_all_persist || !all_persist)
            && stay_whole.into_iter().all(|(_, &kind)| kind == UnitSharding::Whole)
    }

    pub(super) fn cost(&self, kinds: &[UnitSharding]) -> Cost {
        let RankCosts { weights, fixed_peak_bytes, fixed_sent_bytes, .. } = self.costs;
        let of_kinds = |of: fn(&WeightCosts) -> &[u64; 3]| {
            let own = weights.iter().zip(kinds).map(|(weight, &kind)| of(weight)[kind as usize]);
            own.fold(0, u64::saturating_add)
        };
        let gathers = self.gathers(kinds);
        let gathered = gathers.sent_bytes.iter().copied().fold(0, u64::saturating_add);
        let buffers = gathers.buffer_bytes.saturating_add(self.gradient_buffer_bytes(kinds));
        let at_rest = of_kinds(|weight| &weight.at_rest_bytes);
        Cost {
            peak_bytes: fixed_peak_bytes.saturating_add(at_rest).saturating_add(buffers),
            sent_bytes: fixed_sent_bytes
                .saturating_add(of_kinds(|weight| &weight.sent_bytes))
                .saturating_add(gathered),
        }
    }

    /// The gathers of those sharded.
    pub(super) fn gathers(&self, kinds: &[UnitSharding]) -> Rc<GatherCosts> {
        let marks = kinds.iter().map(|&kind| kind == UnitSharding::Sharded).collect();
        let mut known = self.gathers.borrow_mut();
        let new = |marks: &Vec<bool>| Rc::new(self.costs.row.gathers(marks));
        Rc::clone(known.entry(marks).or_insert_with_key(new))
    }

    fn gradient_buffer_bytes(&self, kinds: &[UnitSharding]) -> u64 {
        let marks = kinds.iter().map(|&kind| kind != UnitSharding::Whole).collect();
        let mut known = self.gradients.borrow_mut();
        *known.entry(marks).or_insert_with_key(|marks| self.costs.row.gradient_buffer_bytes(marks))
    }
}
