//! What a rank was recorded to do with its weights: indices in the order of its events, no clock.

use std::collections::{BTreeMap, VecDeque};

use pipezero_run::engine::{Engine, StepReport};
use pipezero_run::executor::{EventKind, RecordedEvent};
use pipezero_schedule::{Instruction, MicroBatch, PipelineRank, Unit};

/// A compute that read a unit's weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeightUse {
    /// The unit.
    pub unit: Unit,
    /// The micro-batch that it ran on.
    pub micro_batch: MicroBatch,
    /// When it began.
    pub started: usize,
    /// When it had ended.
    pub ended: usize,
}

/// A gathered copy of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatheredCopy {
    /// The unit.
    pub unit: Unit,
    /// When its all-gather was issued.
    pub issued: usize,
    /// When the rank had completed it.
    pub collected: usize,
    /// Its uses, as positions in [`WeightOrder::uses`].
    pub uses: Vec<usize>,
    /// When it was resharded.
    pub freed: usize,
}

/// The uses of weights on one rank in one step, and the copies that they read, both in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WeightOrder {
    /// Every compute that read weights.
    pub uses: Vec<WeightUse>,
    /// Every copy that was gathered.
    pub copies: Vec<GatheredCopy>,
}

impl WeightOrder {
    /// The order on each rank in a recorded step, by world rank.
    pub fn of_ranks(engine: &Engine, report: &StepReport) -> Vec<Self> {
        (0..engine.plan().grid().world_size()).map(|rank| Self::of(engine, report, rank)).collect()
    }

    /// The order on `rank`, from the events of a recorded step.
    ///
    /// # Panics
    /// If a use found no gathered copy, or a copy was never resharded.
    pub fn of(engine: &Engine, report: &StepReport, rank: usize) -> Self {
        let plan = engine.plan();
        let pipeline_rank = PipelineRank(plan.grid().pipeline_rank(rank) as u32);
        let (row, events) = (plan.training().row(pipeline_rank), report.events(rank));
        let mut order = Self::default();
        let mut held: BTreeMap<Unit, VecDeque<usize>> = BTreeMap::new();
        let starts = events.iter().enumerate().filter(|(_, event)| event.kind == EventKind::Started);
        for (started, event) in starts {
            let ended = end_of(events, event.index);
            match row[event.index] {
                Instruction::Unshard { unit } => {
                    held.entry(unit).or_default().push_back(order.copies.len());
                    let (uses, freed) = (Vec::new(), usize::MAX);
                    order.copies.push(GatheredCopy { unit, issued: started, collected: ended, uses, freed });
                }
                Instruction::Reshard { unit } => {
                    let oldest = held.get_mut(&unit).and_then(VecDeque::pop_front);
                    order.copies[oldest.expect("what is resharded was gathered")].freed = ended;
                }
                Instruction::Forward { unit, micro_batch }
                | Instruction::Recompute { unit, micro_batch }
                | Instruction::Backward { unit, micro_batch } => {
                    let planned = plan.unit(unit);
                    let is_backward = matches!(row[event.index], Instruction::Backward { .. });
                    let reads = !is_backward || plan.training().chain().facts(unit).backward_reads_weights;
                    if reads && planned.is_sharded() {
                        let oldest = held.get(&unit).and_then(VecDeque::front);
                        let copy = &mut order.copies[*oldest.expect("a use has gathered weights")];
                        copy.uses.push(order.uses.len());
                        order.uses.push(WeightUse { unit, micro_batch, started, ended });
                    }
                }
                _ => {}
            }
        }
        assert!(order.copies.iter().all(|copy| copy.freed < events.len()), "a copy outlives the step");
        order
    }

    /// Most copies that existed at once.
    pub fn num_held_max(&self) -> usize {
        self.held().map(|copies| copies.len()).max().unwrap_or(0)
    }

    /// The units of the copies that existed when each of them was gathered, that one included.
    pub fn held(&self) -> impl Iterator<Item = Vec<Unit>> {
        self.copies.iter().map(|gathered| {
            let at = gathered.issued;
            let held = self.copies.iter().filter(|copy| copy.issued <= at && at < copy.freed);
            held.map(|copy| copy.unit).collect()
        })
    }

    /// Number of copies whose first use was on `micro_batch`.
    pub fn num_gathered_for(&self, micro_batch: MicroBatch) -> usize {
        self.copies.iter().filter(|copy| self.uses[copy.uses[0]].micro_batch == micro_batch).count()
    }
}

fn end_of(events: &[RecordedEvent], index: usize) -> usize {
    let is_end = |event: &RecordedEvent| (event.index, event.kind) == (index, EventKind::Ended);
    events.iter().position(is_end).expect("every instruction of a step ends")
}
