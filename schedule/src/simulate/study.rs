//! A schedule without a model: how long a step takes when all ranks are alike, and how long they idle.

use alloc::vec::Vec;

use super::costs::{Costs, CostsError, MessageCost, UnitCosts};
use super::simulate;
use super::steady::simulate_long;
use super::timeline::Timeline;
use crate::check::CheckedProgram;
use crate::id::Stage;
use crate::lower::lower;
use crate::options::LowerOptions;
use crate::order::ComputeOrder;
use crate::unit_facts::UnitFacts;

/// The times of a whole rank, all its stages together, and one micro-batch; in any unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankTimes {
    /// Forwards.
    pub forward: u64,
    /// Input gradients.
    pub backward_input: u64,
    /// Weight gradients.
    pub backward_weight: u64,
    /// A message from one rank to another; it occupies neither.
    pub latency: u64,
}

/// What a schedule costs. Times are in parts of the unit they were given in: `parts` of them make one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Study {
    /// Stages of a rank, v: a stage takes the v-th part of a rank's times, so that many parts keep times whole.
    pub parts: u64,
    /// From the first start to the last end, of all ranks. A step whose gradient norm is taken over all ranks takes this.
    pub makespan: u64,
    /// Of the rank that takes longest, from its first start to its last end: the zero-bubble papers' measure
    /// (arXiv:2401.10241).
    pub longest_rank_span: u64,
    /// What a rank computes: `m (T_F + T_I + T_W)`.
    pub ideal: u64,
    /// `[rank]`: the most activations from a forward's start to the end of its input gradient, each of one stage and
    /// micro-batch; divided by `parts`, in activations of a whole rank.
    pub peak_in_flight: Vec<u64>,
}

impl Study {
    /// The share of the makespan that a rank idles: `1 - ideal / makespan`; 0 for a step that takes no time.
    pub fn bubble_rate(&self) -> f64 {
        rate(self.ideal, self.makespan)
    }

    /// The share of its span that the longest rank idles: `1 - ideal / longest_rank_span`.
    pub fn bubble_rate_longest_rank(&self) -> f64 {
        rate(self.ideal, self.longest_rank_span)
    }
}

/// The share of a time that is not `busy`.
fn rate(busy: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { 1.0 - busy as f64 / of as f64 }
}

/// An order that was played, with all that a picture of it or its critical path needs.
#[derive(Clone, Debug)]
pub struct PlayedOrder {
    /// One unit in each stage, nothing sharded.
    pub program: CheckedProgram,
    /// What it costs, in [`Study::parts`]; the tail takes no time.
    pub costs: Costs,
    /// When.
    pub timeline: Timeline,
    /// The figures that follow.
    pub study: Study,
}

impl PlayedOrder {
    /// Plays an order with one unit in each stage, nothing sharded and a tail that takes no time.
    ///
    /// # Errors
    /// [`CostsError::TooLong`] if the step takes longer than a `u64` can hold.
    ///
    /// # Panics
    /// If the order is not one that a generator or [`ComputeOrder::from_csv`] makes.
    pub fn new(order: &ComputeOrder, times: RankTimes) -> Result<Self, CostsError> {
        let parts = Parts::of(order, times, order.num_micro_batches)?;
        let program = program(order);
        let costs = parts.costs(&program);
        let timeline = simulate(&program, &costs)?;
        let study = Study {
            parts: parts.num_parts,
            makespan: timeline.makespan(),
            longest_rank_span: timeline.longest_rank_span(&program),
            ideal: parts.ideal,
            peak_in_flight: peak_in_flight(order),
        };
        Ok(Self { program, costs, timeline, study })
    }
}

/// What an order costs: [`PlayedOrder::new`], without its timeline.
///
/// # Errors
/// As [`PlayedOrder::new`].
///
/// # Panics
/// As [`PlayedOrder::new`].
pub fn study(order: &ComputeOrder, times: RankTimes) -> Result<Study, CostsError> {
    PlayedOrder::new(order, times).map(|played| played.study)
}

/// The same for the generator of a schedule and a step of any length: where a steady state is found, at about
/// the cost of a step of a few times as many micro-batches as ranks ([`simulate_long`]).
///
/// `generate` gives the order of so many micro-batches, on as many ranks and stages whatever their number.
///
/// # Errors
/// What `generate` returns, and as [`study`].
///
/// # Panics
/// As [`study`].
pub fn study_long<E: From<CostsError>>(
    generate: impl Fn(u32) -> Result<ComputeOrder, E>,
    num_micro_batches: u32,
    times: RankTimes,
) -> Result<Study, E> {
    let shortest = generate(1)?;
    let parts = Parts::of(&shortest, times, num_micro_batches)?;
    let costs = parts.costs(&program(&shortest));
    let step = simulate_long(|of| generate(of).map(|order| program(&order)), &costs, num_micro_batches)?;
    let of_short = peak_in_flight(&generate(step.played.program.num_micro_batches())?);
    let peak_in_flight = match &step.steady {
        None => of_short,
        Some(steady) => {
            let of_next = peak_in_flight(&generate(step.played.program.num_micro_batches() + steady.period)?);
            let num_periods = u64::from(steady.num_periods);
            of_short.iter().zip(&of_next).map(|(short, next)| short + num_periods * (next - short)).collect()
        }
    };
    Ok(Study {
        parts: parts.num_parts,
        makespan: step.makespan(),
        longest_rank_span: step.longest_rank_span(),
        ideal: parts.ideal,
        peak_in_flight,
    })
}

/// The share of a step that a rank idles on average where a forward, an input and a weight gradient of a stage take alike,
/// and messages no time: for orders without a closed form.
///
/// # Panics
/// As [`study`].
pub fn idle_share(order: &ComputeOrder) -> f64 {
    let alike = RankTimes { forward: 1, backward_input: 1, backward_weight: 1, latency: 0 };
    let PlayedOrder { program, timeline, .. } =
        PlayedOrder::new(order, alike).expect("no more ticks than two for each action");
    let busy = program.ranks().map(|rank| timeline.busy(&program, rank)).sum();
    rate(busy, program.num_ranks() as u64 * timeline.makespan())
}

/// A rank's times in parts of their unit, so that a stage's share is whole.
struct Parts {
    num_parts: u64,
    unit: UnitCosts,
    hop: MessageCost,
    ideal: u64,
}

impl Parts {
    fn of(order: &ComputeOrder, times: RankTimes, num_micro_batches: u32) -> Result<Self, CostsError> {
        let num_parts = (order.placement.num_stages() as u64).div_ceil(order.placement.num_ranks() as u64);
        let backward = u128::from(times.backward_input) + u128::from(times.backward_weight);
        let latency = u128::from(times.latency) * u128::from(num_parts);
        let ideal = u128::from(num_micro_batches)
            .saturating_mul(u128::from(num_parts))
            .saturating_mul(u128::from(times.forward) + backward);
        let fits = |of: u128| u64::try_from(of).map_err(|_| CostsError::TooLong { total: of });
        fits(backward)?;
        let unit = UnitCosts::of_compute(times.forward, times.backward_input, times.backward_weight);
        let hop = MessageCost::of_link(0, fits(latency)?);
        Ok(Self { num_parts, unit, hop, ideal: fits(ideal)? })
    }

    fn costs(&self, program: &CheckedProgram) -> Costs {
        Costs::uniform(program, self.unit, self.hop)
    }
}

/// One unit in each stage, nothing sharded.
fn program(order: &ComputeOrder) -> CheckedProgram {
    let num_stages = order.placement.num_stages() as u32;
    let units: Vec<UnitFacts> = (0..num_stages).map(|stage| UnitFacts::new(Stage(stage), 0)).collect();
    let program =
        lower(order, &units, &LowerOptions::ZERO_0).expect("a complete order with a unit in each stage");
    CheckedProgram::new(program).expect("a complete order that can run")
}

fn peak_in_flight(order: &ComputeOrder) -> Vec<u64> {
    let ranks = order.placement.ranks();
    ranks.map(|rank| order.in_flight_until_input(rank) as u64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::closed_form::{bubble_share, looped_bubble_share};
    use crate::generate::{bfs, gpipe, one_f_one_b};
    use crate::id::MicroBatch;
    use crate::order::{ComputeKind, StageAction};
    use crate::placement::Placement;
    use std::vec;

    #[test]
    fn orders_with_a_closed_form_idle_as_it_says() {
        for p in 1..5 {
            for m in 1..7 {
                for order in [gpipe(p, m).unwrap(), one_f_one_b(p, m).unwrap()] {
                    assert!((idle_share(&order) - bubble_share(p, m)).abs() < 1e-12, "p = {p}, m = {m}");
                }
                if p > 1 {
                    let expected = looped_bubble_share(p, 2, m);
                    assert!(
                        (idle_share(&bfs(p, 2, m).unwrap()) - expected).abs() < 1e-12,
                        "p = {p}, m = {m}"
                    );
                }
            }
        }
    }

    /// Three stages on two ranks: of 9 ticks, the one computes 6 and the other 3.
    #[test]
    fn ranks_of_unlike_work_idle_by_their_mean() {
        let placement = Placement::new([0, 1, 0].map(crate::PipelineRank).to_vec()).unwrap();
        let action = |kind, stage| StageAction { kind, stage: Stage(stage), micro_batch: MicroBatch(0) };
        let (forward, backward) = (ComputeKind::Forward, ComputeKind::Backward);
        let outer = [(forward, 0), (forward, 2), (backward, 2), (backward, 0)];
        let rows = vec![
            outer.map(|(kind, stage)| action(kind, stage)).to_vec(),
            [forward, backward].map(|kind| action(kind, 1)).to_vec(),
        ];
        let order = ComputeOrder { placement, num_micro_batches: 1, rows };
        assert_eq!(idle_share(&order), 0.5);
    }
}
