//! A schedule by itself: how long a step takes when all ranks are alike, and how much of it they idle.

use alloc::vec::Vec;

use super::costs::{Costs, CostsError, Passage, UnitCosts};
use super::simulate;
use super::steady::simulate_long;
use super::timeline::Timeline;
use crate::check::CheckedProgram;
use crate::id::{PipelineRank, Stage};
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

fn rate(ideal: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { 1.0 - ideal as f64 / of as f64 }
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
    /// What came out.
    pub study: Study,
}

impl PlayedOrder {
    /// Plays an order with one unit in each stage, nothing sharded and a tail that takes no time.
    ///
    /// # Errors
    /// [`CostsError::TooLong`] if the step takes longer than a `u64` can say.
    ///
    /// # Panics
    /// If the order is none that a generator or [`ComputeOrder::from_csv`] makes.
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
/// As there.
///
/// # Panics
/// As there.
pub fn study(order: &ComputeOrder, times: RankTimes) -> Result<Study, CostsError> {
    PlayedOrder::new(order, times).map(|played| played.study)
}

/// The same for a schedule by its generator, of steps of any length: where a steady state is found, at about the cost of
/// a step of a few times as many micro-batches as ranks ([`simulate_long`]).
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

/// A rank's times in parts of their unit, so that a stage's share is whole.
struct Parts {
    num_parts: u64,
    unit: UnitCosts,
    hop: Passage,
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
        let hop = Passage::of_link(0, fits(latency)?);
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
    let ranks = (0..order.placement.num_ranks() as u32).map(PipelineRank);
    ranks.map(|rank| order.in_flight_until_input(rank) as u64).collect()
}
