//! The results of a variant: its plan, and a simulated step.

use std::error::Error;

use pipezero::plan::Plan;
use pipezero::plan::RankMemory;
use pipezero::plan::costs::{Source, Step, for_plan};
use pipezero::schedule::simulate::IdleCause;

use crate::case::Placed;
use crate::variant::Variant;

/// What a rank holds and sends, which does not depend on the placement of ranks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Needs {
    /// Memory of the fullest rank.
    pub(crate) memory: RankMemory,
    /// Traffic of the rank that sends most.
    pub(crate) sent: Sent,
}

/// Bytes that a rank sends in a step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) num_gathers: u64,
    pub(crate) gathered_bytes: u64,
    pub(crate) num_reductions: u64,
    pub(crate) reduced_bytes: u64,
    pub(crate) transferred_bytes: u64,
}

impl Sent {
    pub(crate) fn total_bytes(&self) -> u64 {
        self.gathered_bytes + self.reduced_bytes + self.transferred_bytes
    }
}

/// A step's time, and shares of it, mean over the ranks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    pub(crate) step_s: f64,
    pub(crate) tokens_per_s: f64,
    pub(crate) busy: f64,
    pub(crate) dependency: f64,
    pub(crate) transfer: f64,
    pub(crate) gather: f64,
    pub(crate) reduce: f64,
    pub(crate) handling: f64,
    pub(crate) tail: f64,
}

impl Timing {
    /// The share in which ranks wait for transfers, gathers and reductions, before the end of the step.
    pub(crate) fn exposed(&self) -> f64 {
        self.transfer + self.gather + self.reduce
    }
}

/// The plan of a variant. It allocates nothing of the model.
pub(crate) fn plan(variant: &Variant, data: usize) -> Result<Plan, Box<dyn Error>> {
    Ok(Plan::new(variant.run(data))?)
}

pub(crate) fn needs(plan: &Plan) -> Needs {
    let ranks = plan.forecast();
    let sent = ranks.iter().map(|rank| Sent {
        num_gathers: rank.traffic.all_gather.count,
        gathered_bytes: rank.traffic.all_gather.bytes,
        num_reductions: rank.traffic.reduce_scatter.count,
        reduced_bytes: rank.traffic.reduce_scatter.bytes,
        transferred_bytes: rank.traffic.send.bytes,
    });
    let memory = ranks.iter().map(|rank| rank.memory);
    Needs {
        memory: memory.max_by_key(|memory| memory.peak).expect("a grid has ranks"),
        sent: sent.max_by_key(Sent::total_bytes).expect("a grid has ranks"),
    }
}

/// A simulated step of a plan, on H100s so placed.
pub(crate) fn step(plan: &Plan, placed: Placed) -> Result<Step, Box<dyn Error>> {
    let device = placed.device();
    let predicted = for_plan(plan, Source::Analytic(&device))?;
    Ok(Step::new(plan, &predicted)?)
}

pub(crate) fn timing(step: &Step) -> Timing {
    let all = step.makespan_ns as f64 * step.ranks.len() as f64;
    let share =
        |cause: IdleCause| step.ranks.iter().map(|rank| rank.bubble.of(cause)).sum::<u64>() as f64 / all;
    Timing {
        step_s: step.step_s(),
        tokens_per_s: step.tokens_per_s(),
        busy: 1.0 - step.bubble_rate(),
        dependency: share(IdleCause::Dependency),
        transfer: share(IdleCause::Transfer),
        gather: share(IdleCause::Gather),
        reduce: share(IdleCause::Reduce),
        handling: share(IdleCause::Handling),
        tail: share(IdleCause::Tail),
    }
}
