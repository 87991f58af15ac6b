//! Prices from a costs file: units by what they consist of, messages by kind, ranks and size, and the run's own emulated
//! links beside them.

use pipezero_schedule::Unit;
use pipezero_schedule::simulate::{MessageCost, UnitCosts};

use super::assumption::Assumption;
use super::error::{PredictError, differences};
use super::file::{CostsFile, MessageTimes, PerElement, SizedTimes, UnitTimes, Workload};
use super::message_kind::MessageKind;
use super::messages::{Message, counted_elements, owned_elements};
use super::needs::UnitNeeds;
use super::prices::Prices;
use super::unit_key::{UnitKey, in_words};
use crate::Plan;

/// The costs of a plan by a file of its workload.
pub(super) struct Measured<'a> {
    plan: &'a Plan,
    file: &'a CostsFile,
    pub(super) assumptions: Vec<Assumption>,
}

impl<'a> Measured<'a> {
    /// # Errors
    /// [`PredictError::AnotherWorkload`].
    pub(super) fn new(plan: &'a Plan, file: &'a CostsFile) -> Result<Self, PredictError> {
        let as_json =
            |workload: &Workload| serde_json::to_value(workload).expect("numbers and names are JSON");
        let differences = differences(&as_json(&file.workload), &as_json(&Workload::of(plan.run())));
        if !differences.is_empty() {
            return Err(PredictError::AnotherWorkload { differences });
        }
        let mut found = Self { plan, file, assumptions: Vec::new() };
        let (measured, run) = (file.host.ranks, plan.grid().world_size() as u64);
        if measured != run {
            found.assume(Assumption::Ranks { measured, run, cores: file.host.cores });
        }
        Ok(found)
    }

    fn assume(&mut self, assumption: Assumption) {
        if !self.assumptions.contains(&assumption) {
            self.assumptions.push(assumption);
        }
    }

    /// Says so where a message has another size than any that was measured; once for all sizes of a message.
    fn assume_size(&mut self, times: &MessageTimes, bytes: u64) {
        let &MessageTimes { kind, ranks, ref sizes } = times;
        let measured_bytes = [0, sizes.len() - 1].map(|index| sizes[index].bytes);
        // Padding depends on the number of ranks: the bytes it adds do not count as another size.
        let [least, most, asked] = [measured_bytes[0], measured_bytes[1], bytes].map(u128::from);
        if (99 * least..=101 * most).contains(&(100 * asked)) {
            return;
        }
        let reported = self.assumptions.iter_mut().find_map(|assumption| match assumption {
            Assumption::Size { kind: of, ranks: among, run_bytes, .. } if (*of, *among) == (kind, ranks) => {
                Some(run_bytes)
            }
            _ => None,
        });
        match reported {
            Some([least, most]) => (*least, *most) = (bytes.min(*least), bytes.max(*most)),
            None => self.assume(Assumption::Size { kind, ranks, run_bytes: [bytes; 2], measured_bytes }),
        }
    }

    /// The entries that a unit is composed of.
    fn entries(&mut self, key: &UnitKey) -> Result<Vec<&'a UnitTimes>, PredictError> {
        let Some(entries) = key.composed_of(&self.file.units) else {
            let known = |entry: &UnitTimes| {
                let frozen = if entry.frozen { ", frozen" } else { "" };
                format!("{} with {} parameters{frozen}", in_words(&entry.layers), entry.parameters)
            };
            let known = self.file.units.iter().map(known).collect();
            return Err(PredictError::NoUnit { layers: key.layers(), parameters: key.parameters(), known });
        };
        if entries.len() > 1 {
            self.assume(Assumption::Composed { layers: key.layers(), num_entries: entries.len() });
        }
        Ok(entries)
    }

    /// The measured message that is most like one: of its kind before those that move as much, between as many ranks
    /// before the nearest number. A group of one moves nothing and stands for no other.
    fn like(&self, message: &Message) -> Option<&'a MessageTimes> {
        let ranks = message.num_ranks() as u64;
        let is_like = |times: &&MessageTimes| {
            relation(message.kind, times.kind).is_some() && (times.ranks > 1 || ranks == 1)
        };
        let distance =
            |times: &&MessageTimes| (relation(message.kind, times.kind), times.ranks.abs_diff(ranks));
        self.file.messages.iter().filter(is_like).min_by_key(distance)
    }
}

/// How near a kind is to another that it could stand for, 0 for itself.
fn relation(wanted: MessageKind, measured: MessageKind) -> Option<u8> {
    use MessageKind::{
        Activation, AddTied, AllReduce, GatherAfterStep, Gradient, Reduce, ReduceLast, Unshard,
    };
    match (wanted, measured) {
        _ if wanted == measured => Some(0),
        (Unshard | GatherAfterStep, Unshard | GatherAfterStep) => Some(1),
        (Activation | Gradient, Activation | Gradient) => Some(1),
        (Reduce | ReduceLast, Reduce | ReduceLast) | (AddTied, AllReduce) => Some(1),
        (Reduce | ReduceLast, AllReduce) | (AllReduce | AddTied, Reduce | ReduceLast) => Some(2),
        _ => None,
    }
}

impl Prices for Measured<'_> {
    fn computes(&mut self, unit: Unit, needs: UnitNeeds) -> Result<UnitCosts, PredictError> {
        let planned = self.plan.unit(unit);
        let key = UnitKey::of(planned);
        let entries = self.entries(&key)?;
        let (is_frozen, has_backward) = (planned.is_frozen, planned.has_backward);
        // Of a wholly trained unit's weight gradient the share of what is trained.
        let is_share =
            key.frozen_parameters() > 0 && entries.iter().all(|entry| entry.frozen_parameters == 0);
        let share = planned.trained_share();
        let trained = |ns: u64| if is_share { share.of(ns.into()) as u64 } else { ns };
        let mut costs = UnitCosts::default();
        for entry in &entries {
            costs.forward += entry.forward_ns;
            if !has_backward {
                continue;
            }
            let (input, weight) = match is_frozen {
                true => (entry.input_gradient_ns(), 0),
                false => entry.halves_ns(),
            };
            let saved = weight - trained(weight);
            costs.backward += if is_frozen { input } else { entry.whole_backward_ns().saturating_sub(saved) };
            costs.backward_input += input;
            costs.backward_weight += weight - saved;
            // Parts without a transformer block are not recomputed.
            costs.recompute += entry.recompute_ns.unwrap_or(0);
        }
        if needs.recompute && has_backward && entries.iter().all(|entry| entry.recompute_ns.is_none()) {
            let layers = entries.iter().flat_map(|entry| entry.layers.iter().cloned()).collect();
            return Err(PredictError::NotMeasured { layers, key: "recompute_ns" });
        }
        // Of a trained entry a frozen unit is given the input gradient, also where it is run as a whole.
        let needs_halves = |entry: &&&UnitTimes| {
            has_backward && if is_frozen { !entry.frozen } else { needs.halves || is_share }
        };
        if entries.iter().filter(needs_halves).any(|entry| !entry.has_halves()) {
            self.assume(Assumption::Halves);
        }
        let time = |part: fn(&UnitTimes) -> PerElement, elements: u64| {
            let of_unit = PerElement::sum(entries.iter().map(|entry| part(entry)));
            of_unit.for_elements(elements, PerElement::sum(self.file.units.iter().map(part)))
        };
        costs.gradient_norm = time(|entry| entry.gradient_norm, counted_elements(self.plan, unit));
        costs.optimizer_step = time(|entry| entry.optimizer_step, owned_elements(self.plan, unit));
        Ok(costs)
    }

    fn message(&mut self, message: &Message) -> Result<MessageCost, PredictError> {
        let ranks = message.num_ranks() as u64;
        let Some(times) = self.like(message) else {
            return Err(PredictError::NoMessage { kind: message.kind, ranks });
        };
        if (times.kind, times.ranks) != (message.kind, ranks) {
            let (measured, measured_ranks) = (times.kind, times.ranks);
            self.assume(Assumption::Message { kind: message.kind, ranks, measured, measured_ranks });
        }
        self.assume_size(times, message.bytes);
        let SizedTimes { issue_ns: issue, occupied_ns, latency_ns, landing_ns: landing, .. } =
            times.at(message.bytes);
        if ranks == 1 {
            return Ok(MessageCost { issue, occupied: 0, latency: 0, landing });
        }
        let emulated = self.plan.run().comm.links.map_or([0, 0], |links| message.over(&links));
        Ok(MessageCost {
            issue,
            occupied: occupied_ns.saturating_add(emulated[0]),
            latency: latency_ns.saturating_add(emulated[1]),
            landing,
        })
    }
}

impl UnitTimes {
    fn has_halves(&self) -> bool {
        self.backward_input_ns.is_some() && self.backward_weight_ns.is_some()
    }

    /// `B`: measured, or both halves, which a full backward is.
    fn whole_backward_ns(&self) -> u64 {
        let halves = self.backward_input_ns.unwrap_or(0) + self.backward_weight_ns.unwrap_or(0);
        self.backward_ns.unwrap_or(halves)
    }

    /// The backward of a frozen unit: what was measured of one, or the input gradient of a trained one.
    fn input_gradient_ns(&self) -> u64 {
        match self.backward_ns {
            Some(whole) if self.frozen => whole,
            _ => self.halves_ns().0,
        }
    }

    /// `I` and `W`: measured, or half of a backward each.
    fn halves_ns(&self) -> (u64, u64) {
        let whole = self.whole_backward_ns();
        match (self.backward_input_ns, self.backward_weight_ns) {
            (Some(input), Some(weight)) => (input, weight),
            // A file has both or none.
            _ => (whole / 2, whole.div_ceil(2)),
        }
    }
}

impl PerElement {
    fn sum(parts: impl Iterator<Item = Self>) -> Self {
        parts.fold(Self::default(), |sum, part| Self {
            elements: sum.elements.saturating_add(part.elements),
            ns: sum.ns.saturating_add(part.ns),
        })
    }

    /// What so many elements take, at this rate or, where no elements were measured, at another.
    fn for_elements(self, elements: u64, otherwise: Self) -> u64 {
        let Self { elements: measured, ns } = if self.elements > 0 { self } else { otherwise };
        if measured == 0 {
            return 0;
        }
        // To the nearest.
        let product = u128::from(ns) * u128::from(elements) + u128::from(measured / 2);
        u64::try_from(product / u128::from(measured)).unwrap_or(u64::MAX)
    }
}
