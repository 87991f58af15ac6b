//! The results of a variant: its plan, and a simulated step.

use std::error::Error;

use pipezero::plan::Plan;
use pipezero::plan::costs::{Source, Step, for_plan};
use pipezero::plan::{RankMemory, Traffic};
use pipezero::schedule::simulate::IdleCause;

use crate::case::Placed;
use crate::variant::Variant;

/// What a rank holds and sends, which does not depend on the placement of ranks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Needs {
    /// Memory of the fullest rank.
    pub(crate) memory: RankMemory,
    /// Traffic of the rank that sends most.
    pub(crate) sent: Traffic,
}

/// A step's time, and shares of it, mean over the ranks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    pub(crate) step_s: f64,
    pub(crate) tokens_per_s: f64,
    pub(crate) busy: f64,
    /// Shares of the step in which ranks wait, by cause.
    pub(crate) idle: [f64; IdleCause::ALL.len()],
}

impl Timing {
    /// The share in which ranks wait for transfers, gathers and reductions, before the end of the step.
    pub(crate) fn exposed(&self) -> f64 {
        let [_, transfer, gather, reduce, ..] = self.idle;
        transfer + gather + reduce
    }
}

/// The plan of a variant. It allocates nothing of the model.
pub(crate) fn plan(variant: &Variant, data: usize) -> Result<Plan, Box<dyn Error>> {
    Ok(Plan::new(variant.run(data))?)
}

pub(crate) fn needs(plan: &Plan) -> Needs {
    let ranks = plan.forecast();
    let memory = ranks.iter().map(|rank| rank.memory);
    let sent = ranks.iter().map(|rank| rank.traffic);
    let bytes = |sent: &Traffic| sent.all_gather.bytes + sent.reduce_scatter.bytes + sent.send.bytes;
    Needs {
        memory: memory.max_by_key(|memory| memory.peak).expect("a grid has ranks"),
        sent: sent.max_by_key(bytes).expect("a grid has ranks"),
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
        idle: IdleCause::ALL.map(share),
    }
}
