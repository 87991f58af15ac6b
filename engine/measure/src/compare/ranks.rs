//! Rank by rank: what it computed, why it did not, what it held.

use pipezero_schedule::Lane;
use pipezero_schedule::simulate::{Bubble, IdleCause};
use serde::{Serialize, Serializer};

use super::compared::Compared;
use super::prediction::Prediction;
use crate::recording::{Place, Recording, Shape};

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

/// The time in which a rank does not compute, by cause: see [`Bubble`]. In the order of [`IdleCause::ALL`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ComparedBubble(pub [Compared; IdleCause::ALL.len()]);

impl ComparedBubble {
    fn new(predicted: Bubble, measured: Bubble) -> Self {
        Self(IdleCause::ALL.map(|cause| Compared::new(predicted.of(cause), measured.of(cause))))
    }
}

/// As `simulate --json` calls the causes.
impl Serialize for ComparedBubble {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(IdleCause::ALL.map(IdleCause::key).into_iter().zip(&self.0))
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

/// What the data ranks of a pipeline rank took in the mean, and held at most: they run the same row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ComparedGroup {
    /// The place along the pipeline axis.
    pub pipeline_rank: usize,
    /// How long a rank computed, and then why it did not, in the order of [`IdleCause::ALL`].
    pub times: [Compared; 7],
    /// What a rank held at most.
    pub peak: ComparedBytes,
}

impl ComparedGroup {
    /// The groups of ranks in the order of a comparison.
    pub fn of_ranks(ranks: &[ComparedRank]) -> Vec<Self> {
        let groups = ranks.chunk_by(|one, next| one.pipeline_rank == next.pipeline_rank);
        let group = |group: &[ComparedRank]| {
            let mean = |index: usize, of: fn(&Compared) -> u64| {
                let times = group.iter().map(|rank| match index.checked_sub(1) {
                    None => of(&rank.busy),
                    Some(cause) => of(&rank.bubble.0[cause]),
                });
                times.sum::<u64>() / group.len() as u64
            };
            let most =
                |of: fn(&ComparedBytes) -> u64| group.iter().map(|rank| of(&rank.peak)).max().unwrap_or(0);
            Self {
                pipeline_rank: group[0].pipeline_rank,
                times: std::array::from_fn(|index| {
                    Compared::new(mean(index, |of| of.predicted_ns), mean(index, |of| of.measured_ns))
                }),
                peak: ComparedBytes {
                    predicted_bytes: most(|of| of.predicted_bytes),
                    measured_bytes: most(|of| of.measured_bytes),
                },
            }
        };
        groups.map(group).collect()
    }
}

pub(super) fn compare(
    recording: &Recording<'_>,
    prediction: &Prediction,
    measured_peak_bytes: &[u64],
) -> Vec<ComparedRank> {
    let (plan, program, timeline) = (recording.plan(), recording.program(), &prediction.timeline);
    let compared = plan.forecast().into_iter().zip(measured_peak_bytes).map(|(planned, &measured_bytes)| {
        let pipeline_rank = recording.pipeline_rank(planned.rank);
        let (busy_ns, bubble) = measured(recording, planned.rank);
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

/// How long a world rank computed, and why it did not: by the rules of [`Timeline::bubble`], but each wait is charged to the very
/// message that was waited for, which is known here.
///
/// [`Timeline::bubble`]: pipezero_schedule::simulate::Timeline::bubble
fn measured(recording: &Recording<'_>, rank: usize) -> (u64, Bubble) {
    let last_work = recording.row(rank).iter().rposition(|of| of.is_micro_batch_compute());
    let work_ends_ns = last_work.map_or(0, |index| recording.row_times(rank)[index].ended_ns);
    let (mut busy_ns, mut bubble, mut noted_ns) = (0, Bubble::default(), 0);
    for place in recording.places_of(rank) {
        let times = recording.times(place);
        let is_of_work = times.ended_ns <= work_ends_ns;
        match recording.shape(place) {
            Shape::Compute => {
                busy_ns += times.duration_ns();
                noted_ns += if is_of_work { times.duration_ns() } else { 0 };
            }
            Shape::Message if is_of_work => {
                noted_ns += times.exposed_ns();
                add_wait(recording, place, &mut bubble);
            }
            // Joined or completed after the last micro-batch.
            Shape::Joint | Shape::Message => {}
        }
    }
    // Whatever else the rank did between its computes: issue messages, complete them, go from one thing to the next.
    bubble.handling = work_ends_ns - noted_ns;
    let known_ns = busy_ns + bubble.total();
    bubble.tail = recording.makespan_ns() - known_ns;
    (busy_ns, bubble)
}

/// Charges a wait to its cause: for a stage's message, its maker or its way.
fn add_wait(recording: &Recording<'_>, place: Place, bubble: &mut Bubble) {
    let times = recording.times(place);
    let waited_ns = times.exposed_ns();
    match place.instruction.lane() {
        Lane::Gather => bubble.gather += waited_ns,
        Lane::Reduce => bubble.reduce += waited_ns,
        Lane::Edge(_) => {
            let sets_out_ns =
                if place.is_send() { recording.ready_ns(place) } else { made_ns(recording, place) };
            let on_its_way_ns = times.arrived_ns.saturating_sub(sets_out_ns).min(waited_ns);
            bubble.dependency += waited_ns - on_its_way_ns;
            bubble.transfer += on_its_way_ns;
        }
        Lane::Compute => unreachable!("messages have lanes of their own"),
    }
}

/// When the message of a receive was made.
fn made_ns(recording: &Recording<'_>, receive: Place) -> u64 {
    let send = recording.members(receive)[1];
    let waits = recording.program().waits(recording.pipeline_rank(send.rank).at(send.index)).iter();
    waits.map(|&wait| recording.row_times(send.rank)[wait].ended_ns).max().unwrap_or(0)
}
