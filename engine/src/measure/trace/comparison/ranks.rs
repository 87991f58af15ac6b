//! Rank by rank: what it computed, why it did not, what it held.

use pipezero_schedule::simulate::{Bubble, IdleCause};
use pipezero_schedule::{CheckedProgram, InstructionKind, Lane, PipelineRank};
use serde::Serialize;

use super::super::members::Site;
use super::super::moments::{MessageMoments, Moments};
use super::super::recorded::Recorded;
use super::{Compared, Prediction};
use crate::plan::Plan;

/// A rank's step.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedRank {
    /// The world rank.
    pub rank: usize,
    /// Its place along the pipeline axis.
    pub pipeline_rank: usize,
    /// Its place along the data axis.
    pub data_rank: usize,
    /// How long it computed.
    pub busy: Compared,
    /// Why it did not; with `busy`, the parts are the program's time.
    pub bubble: ComparedBubble,
    /// What it held at most.
    pub peak: ComparedBytes,
}

/// The time in which a rank does not compute, by cause: see [`Bubble`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ComparedBubble {
    /// A message was not made yet, or there was no room for it.
    pub dependency: Compared,
    /// A message was on its way.
    pub transfer: Compared,
    /// Weights were not gathered yet.
    pub gather: Compared,
    /// A gradient buffer was not reduced yet.
    pub reduce: Compared,
    /// Messages were issued and taken in.
    pub handling: Compared,
    /// After the rank's last micro-batch.
    pub tail: Compared,
}

impl ComparedBubble {
    fn new(predicted: Bubble, measured: Bubble) -> Self {
        let of = |cause: IdleCause| Compared::new(predicted.of(cause), measured.of(cause));
        Self {
            dependency: of(IdleCause::Dependency),
            transfer: of(IdleCause::Transfer),
            gather: of(IdleCause::Gather),
            reduce: of(IdleCause::Reduce),
            handling: of(IdleCause::Handling),
            tail: of(IdleCause::Tail),
        }
    }

    /// What each cause took, in the order of [`IdleCause::ALL`].
    pub fn causes(&self) -> [Compared; 6] {
        [self.dependency, self.transfer, self.gather, self.reduce, self.handling, self.tail]
    }
}

/// Memory as it was predicted and as it was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ComparedBytes {
    /// What the plan said.
    pub predicted_bytes: u64,
    /// What the run held.
    pub measured_bytes: u64,
}

pub(super) fn compare(
    plan: &Plan,
    recorded: &Recorded,
    prediction: &Prediction,
    measured_peak_bytes: &[u64],
) -> Vec<ComparedRank> {
    let (program, timeline) = (plan.training(), &prediction.timeline);
    let compared = plan.forecast().into_iter().zip(measured_peak_bytes).map(|(planned, &measured_bytes)| {
        let pipeline_rank = PipelineRank(planned.pipeline_rank as u32);
        let (busy_ns, bubble) = measured(program, recorded, planned.rank);
        ComparedRank {
            rank: planned.rank,
            pipeline_rank: planned.pipeline_rank,
            data_rank: planned.data_rank,
            busy: Compared::new(timeline.busy(program, pipeline_rank), busy_ns),
            bubble: ComparedBubble::new(timeline.bubble(program, pipeline_rank), bubble),
            peak: ComparedBytes { predicted_bytes: planned.memory.peak, measured_bytes },
        }
    });
    compared.collect()
}

/// How long a world rank computed, and why it did not: by the rules of [`Timeline::bubble`], but each wait is laid to the very
/// message that was waited for, which is known here.
///
/// [`Timeline::bubble`]: pipezero_schedule::simulate::Timeline::bubble
fn measured(program: &CheckedProgram, recorded: &Recorded, rank: usize) -> (u64, Bubble) {
    let row = recorded.row(rank);
    let first = Site::new(recorded.grid(), rank, 0);
    let is_work = |index: usize| first.at(index).instruction(program).is_micro_batch_compute();
    let last_work = row.iter().enumerate().rev().find(|&(index, _)| is_work(index));
    let work_ends_ns = last_work.map_or(0, |(_, moments)| moments.ended_ns());
    let (mut busy_ns, mut bubble, mut noted_ns) = (0, Bubble::default(), 0);
    for (index, moments) in row.iter().enumerate() {
        match moments {
            Moments::Compute { started_ns, ended_ns } => {
                busy_ns += ended_ns - started_ns;
                noted_ns += if *ended_ns <= work_ends_ns { ended_ns - started_ns } else { 0 };
            }
            Moments::Message(message) if message.ended_ns <= work_ends_ns => {
                noted_ns += message.exposed_ns();
                add_wait(program, recorded, first.at(index), *message, &mut bubble);
            }
            // Met or taken in after the last micro-batch.
            Moments::Meeting { .. } | Moments::Message(_) => {}
        }
    }
    // Whatever else the rank did between its computes: issue messages, take them in, go from one thing to the next.
    bubble.handling = work_ends_ns - noted_ns;
    let known_ns = busy_ns + bubble.total();
    bubble.tail = recorded.makespan_ns() - known_ns;
    (busy_ns, bubble)
}

/// Lays a wait to its cause: for a stage's message, its maker or its way.
fn add_wait(
    program: &CheckedProgram,
    recorded: &Recorded,
    site: Site,
    message: MessageMoments,
    bubble: &mut Bubble,
) {
    let waited_ns = message.exposed_ns();
    let instruction = site.instruction(program);
    match instruction.lane() {
        Lane::Gather => bubble.gather += waited_ns,
        Lane::Reduce => bubble.reduce += waited_ns,
        Lane::Edge(_) => {
            let sets_out_ns = match instruction.kind() {
                InstructionKind::Receive => made_ns(program, recorded, site),
                _ => recorded.sets_out(program, site).1,
            };
            let on_its_way_ns = message.arrived_ns.saturating_sub(sets_out_ns).min(waited_ns);
            bubble.dependency += waited_ns - on_its_way_ns;
            bubble.transfer += on_its_way_ns;
        }
        Lane::Compute => unreachable!("messages have lanes of their own"),
    }
}

/// When the message of a receive was made.
fn made_ns(program: &CheckedProgram, recorded: &Recorded, receive: Site) -> u64 {
    let grid = recorded.grid();
    let send = program.peer(receive.pipeline_rank.at(receive.index)).expect("a checked receive has its send");
    let rank = grid.rank(send.rank.index(), grid.data_rank(receive.rank));
    let waits = program.waits(send).iter();
    waits.map(|&wait| recorded.row(rank)[wait].ended_ns()).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{Bubble, ComparedBubble, IdleCause};

    /// As `simulate --json` calls them, and in the order of its table.
    #[test]
    fn causes_have_one_name_and_one_order_everywhere() {
        let predicted = Bubble { dependency: 1, transfer: 2, gather: 3, reduce: 4, handling: 5, tail: 6 };
        let compared = ComparedBubble::new(predicted, Bubble::default());
        let json = serde_json::to_value(compared).unwrap();
        assert_eq!(json.as_object().unwrap().len(), IdleCause::ALL.len());
        for (cause, of) in IdleCause::ALL.into_iter().zip(compared.causes()) {
            assert_eq!(of.predicted_ns, predicted.of(cause));
            assert_eq!(json[cause.key()]["predicted_ns"], predicted.of(cause));
        }
    }
}
