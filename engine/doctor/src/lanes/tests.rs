//! What is wrong in a message is found, and where; and what is right is not.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use pipezero_comm::memory::TrackedBuffer;
use pipezero_comm::world::{ThreadWorld, World};
use pipezero_comm::{Channel, CommError, Communicator, Group, Operation, Pending, Started};
use pipezero_config::{Resources, RunFile};
use pipezero_models::Queue;
use pipezero_plan::Plan;
use pipezero_plan::costs::MessageKind;

use super::found::{LaneFacts, facts};
use super::lane::lanes;
use super::ranks::{Bounds, Measured, Stopped, rounds};
use super::rules::judge;
use crate::check::Verdict;

/// Which operations a rank spoils.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spoilt {
    Nothing,
    Gathers,
    Reductions,
    Receives,
    Words,
}

/// A communicator that changes one element, or one word, of what arrives.
#[derive(Debug)]
struct Spoiling(Box<dyn Communicator>, Spoilt);

#[derive(Debug)]
struct SpoiltPending(Box<dyn Pending>, Arc<dyn Queue>, Range<usize>);

impl Pending for SpoiltPending {
    fn wait(self: Box<Self>) -> Result<TrackedBuffer, CommError> {
        let mut buffer = self.0.wait()?;
        let mut words = vec![0; 1];
        let at = self.2;
        if buffer.element_type() == pipezero_models::ElementType::U32 {
            self.1.download(buffer.view().range(at.clone()), &mut words)?;
            self.1.upload(&[words[0] ^ 1], buffer.view_mut().range(at));
        } else {
            let mut floats = vec![0.0; 1];
            self.1.download_floats(buffer.view().range(at.clone()), &mut floats)?;
            // The next float: a sum that was taken in another order.
            self.1.upload_floats(&[f32::from_bits(floats[0].to_bits() + 1)], buffer.view_mut().range(at));
        }
        Ok(buffer)
    }
}

impl Communicator for Spoiling {
    fn rank(&self) -> usize {
        self.0.rank()
    }

    fn world_size(&self) -> usize {
        self.0.world_size()
    }

    fn queue(&self) -> &Arc<dyn Queue> {
        self.0.queue()
    }

    fn start(
        &mut self,
        members: &[usize],
        channel: Channel,
        operation: Operation,
        buffer: TrackedBuffer,
    ) -> Started {
        let is_spoilt = match (&operation, self.1) {
            (Operation::AllGather { .. }, Spoilt::Gathers) => true,
            (Operation::ReduceScatter { .. } | Operation::AllReduce { .. }, Spoilt::Reductions) => true,
            (Operation::Transfer { .. }, Spoilt::Receives) => {
                matches!(channel, Channel::Edge(_)) && members[1] == self.rank()
            }
            _ => false,
        };
        let position = members.iter().position(|&rank| rank == self.rank()).unwrap();
        let queue = Arc::clone(self.queue());
        // An element of the rank's own part.
        let at = position * (buffer.len() / members.len());
        let pending = self.0.start(members, channel, operation, buffer)?;
        Ok(if is_spoilt { Box::new(SpoiltPending(pending, queue, at..at + 1)) } else { pending })
    }

    fn finish(&mut self) -> Result<(), CommError> {
        self.0.finish()
    }

    fn all_reduce_words(&mut self, group: &Group, words: &mut [u64]) -> Result<(), CommError> {
        self.0.all_reduce_words(group, words)?;
        // The one word by which ranks go on together stays right.
        if self.1 == Spoilt::Words && words.len() > 1 {
            words[3] = words[3].wrapping_add(1);
        }
        Ok(())
    }
}

fn plan(sections: &str) -> Plan {
    let text = format!(
        r#"{{"model": {{"family": "gpt2", "num_layers": 4, "hidden_size": 16, "num_attention_heads": 2, "seq_length": 16}},
        "data": {{"text": "a.txt"}}, "steps": 1, "train_batch_size": 8, "gradient_accumulation_steps": 2,
        "parallel": {{"pipeline": 2, "data": 2}}, {sections}}}"#
    );
    let file = RunFile::parse("run.json", &text).unwrap();
    Plan::from_file(&file, Resources::this_host()).unwrap().0
}

const ZERO_3: &str = r#""zero_optimization": {"stage": 3}"#;

/// What is found where rank 3 spoils something.
fn found(plan: &Plan, spoilt: Spoilt) -> LaneFacts {
    let lanes = lanes(plan);
    let world = ThreadWorld::new(4, Duration::from_secs(60), None);
    let bounds = Bounds { time: Duration::from_secs(60), bytes_max: 1 << 20 };
    let of_rank = |rank: usize| {
        let spoilt = if rank == 3 { spoilt } else { Spoilt::Nothing };
        let mut comm = Spoiling(world.communicator(rank).unwrap(), spoilt);
        let measured: Vec<Measured> = rounds(&mut comm, &lanes, None, bounds).unwrap();
        Ok(measured)
    };
    let ranks = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|rank| scope.spawn(move || of_rank(rank))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    facts(&lanes, ranks)
}

fn kinds(facts: &LaneFacts) -> Vec<(&str, usize, usize)> {
    facts.rows.iter().map(|row| (row.kind.as_str(), row.num_lanes, row.num_ranks)).collect()
}

#[test]
fn every_group_and_lane_of_the_plan_is_used_and_what_is_right_is_not_blamed() {
    let facts = found(&plan(ZERO_3), Spoilt::Nothing);
    let expected = [
        ("unshard", 2, 2),
        ("reduce", 2, 2),
        ("activation", 2, 2),
        ("gradient", 2, 2),
        ("add_tied", 2, 2),
        ("gradient_norm", 1, 4),
    ];
    assert_eq!(kinds(&facts), expected);
    assert_eq!((facts.faults.len(), facts.stopped.len()), (0, 0), "{facts:?}");
    assert!(facts.num_compared > 20);
    let verdicts: Vec<Verdict> = judge(&facts).iter().map(|check| check.verdict).collect();
    // Whether a lane is slow depends on what else the machine does.
    assert_eq!(verdicts[..2], [Verdict::Ok; 2]);
    let facts = found(&plan(r#""zero_optimization": {"stage": 1}"#), Spoilt::Nothing);
    assert_eq!(kinds(&facts)[..2], [("gather_after_step", 2, 2), ("reduce_last", 2, 2)]);
}

#[test]
fn what_a_rank_spoils_is_found_at_that_rank_and_its_kind() {
    let plan = plan(ZERO_3);
    for (spoilt, kinds, what) in [
        (Spoilt::Gathers, vec!["unshard"], "element "),
        (Spoilt::Reductions, vec!["reduce", "add_tied"], "element "),
        (Spoilt::Receives, vec!["activation"], "element "),
        (Spoilt::Words, vec!["gradient_norm"], "element 3 is "),
    ] {
        let facts = found(&plan, spoilt);
        assert!(!facts.faults.is_empty(), "{spoilt:?} was not found");
        for fault in &facts.faults {
            let is_named = kinds.iter().any(|kind| fault.starts_with(&format!("rank 3, {kind} of ranks ")));
            // What was spoilt may come back to its sender.
            let is_of_transfer = spoilt == Spoilt::Receives && fault.contains(", activation of ranks ");
            assert!((is_named || is_of_transfer) && fault.contains(what), "{fault}");
        }
        let contents = &judge(&facts)[1];
        assert_eq!((contents.what.as_str(), contents.verdict), ("contents", Verdict::Failed));
        assert!(contents.repair.is_some());
    }
}

#[test]
fn a_rank_that_stops_is_named_before_those_that_stopped_because_of_it() {
    let lanes = lanes(&plan(ZERO_3));
    let stopped = |rank, is_stop| Err(Stopped { rank, is_stop, error: format!("is_stop {is_stop}") });
    let facts = facts(&lanes, vec![stopped(0, true), Ok(Vec::new()), stopped(2, false), stopped(3, true)]);
    assert_eq!(facts.stopped, ["rank 2: is_stop false", "rank 0: is_stop true", "rank 3: is_stop true"]);
    let check = &judge(&facts)[0];
    assert_eq!((check.what.as_str(), check.verdict), ("messages", Verdict::Failed));
    assert_eq!(check.value, "rank 2: is_stop false");
}

#[test]
fn a_lane_that_is_slower_than_its_like_is_named() {
    let lanes = lanes(&plan(ZERO_3));
    let activations: Vec<usize> =
        (0..lanes.len()).filter(|&index| lanes[index].kind == MessageKind::Activation).collect();
    let measured = |first_ms: u64, second_ms: u64| {
        let of_lane = |(index, ms): (usize, u64)| {
            let median = Some(Duration::from_millis(ms));
            let members = lanes[index].members.iter();
            members
                .map(move |&rank| Measured { lane: index, rank, bytes: 1024, fault: None, median })
                .collect::<Vec<_>>()
        };
        let of_lanes = activations.iter().copied().zip([first_ms, second_ms]).flat_map(of_lane);
        facts(&lanes, vec![Ok(of_lanes.collect())])
    };
    assert_eq!(measured(5, 20).slow, [""; 0]);
    let facts = measured(5, 21);
    let row = &facts.rows[0];
    assert_eq!((row.latency_ns, &row.slowest[..]), ([5_000_000, 21_000_000], &[1, 3][..]));
    let check = &judge(&facts)[2];
    assert_eq!((check.what.as_str(), check.verdict), ("speed", Verdict::Warning));
    assert!(
        check.value.starts_with("activation of ranks [1, 3] takes 21.0ms for 1024 bytes"),
        "{}",
        check.value
    );
}
