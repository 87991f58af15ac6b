//! How ranks are connected: the communicators of a rank are made, and sent through once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use pipezero_config::ReductionOrder;
use pipezero_models::queue::{Cuda, Joining, NcclCommunicator, NcclId, NoNccl};
use pipezero_models::{Device, ElementType};

use super::communicator::NcclRank;
use super::lane::Lane;
use super::lanes::Lanes;
use super::reduction::Reduction;
use super::stop::Stop;
use super::words::Words;
use crate::communicator::{Communicator, IsStopped};
use crate::error::CommError;
use crate::finish::finish;
use crate::group::Channel;

/// How long a rank waits before it asks again whether the others have come: communicators are made once.
const BETWEEN_QUESTIONS: Duration = Duration::from_micros(200);

/// The GPU is too small for all operations that may be under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a rank of this run uses {num_lanes} lanes, each of which may hold a multiprocessor while it waits for others, and half of the smallest GPU's \
     {num_multiprocessors} are for that: use fewer `parallel.virtual_stages`"
)]
pub struct TooManyLanes {
    /// Lanes of the rank that has most.
    pub num_lanes: usize,
    /// Of the smallest GPU.
    pub num_multiprocessors: usize,
}

/// What connects the ranks of a plan that have a GPU each.
#[derive(Clone, Debug)]
pub(crate) struct Nccl {
    id: NcclId,
    lanes: Lanes,
    order: ReductionOrder,
    timeout: Duration,
    num_ctas: usize,
}

impl Nccl {
    /// Ranks that find each other by this id. `num_multiprocessors` is the least of their GPUs.
    ///
    /// # Errors
    /// When their operations do not fit there all at once.
    pub(crate) fn new(
        id: NcclId,
        lanes: Lanes,
        order: ReductionOrder,
        timeout: Duration,
        num_multiprocessors: usize,
    ) -> Result<Self, TooManyLanes> {
        let num_lanes = lanes.num_at_once();
        let num_ctas = num_ctas(num_multiprocessors, num_lanes)
            .ok_or(TooManyLanes { num_lanes, num_multiprocessors })?;
        tracing::info!(
            num_lanes,
            num_ctas,
            num_multiprocessors,
            "operations of NCCL fit on a GPU all at once"
        );
        Ok(Self { id, lanes, order, timeout, num_ctas })
    }

    /// The communicator of a rank, which computes on this GPU. All ranks call it, each in its own thread.
    ///
    /// # Errors
    /// When not all ranks come within the time-out, or the library refuses.
    pub(crate) fn communicator(
        &self,
        rank: usize,
        device: &Cuda,
        is_stopped: IsStopped,
    ) -> Result<Box<dyn Communicator>, CommError> {
        let queue = device.queue()?;
        let size = self.lanes.world_size;
        let joining = device.join_nccl(&self.id, [rank, size], self.num_ctas).map_err(refused)?;
        let world = self.made(joining, &is_stopped)?.ok_or_else(|| no_communicator("the world"))?;
        let mut lanes = BTreeMap::new();
        for channel in self.lanes.channels() {
            let place = self.lanes.place(channel, rank);
            let rank_and_size = place.as_ref().map_or([0, 1], |place| [place.position, place.members.len()]);
            let color = place.as_ref().map(|place| place.color);
            let joining = world.split(color, rank_and_size, self.num_ctas).map_err(refused)?;
            if let (Some(connection), Some(place)) = (self.made(joining, &is_stopped)?, place) {
                lanes.insert(channel, self.lane(connection, channel, place.members)?);
            }
        }
        let all = (0..size).collect();
        lanes.insert(Channel::Collect, self.lane(world, Channel::Collect, all)?);
        let connections = lanes.values().map(|lane| Arc::clone(&lane.connection)).collect();
        let stop = Arc::new(Stop::new(is_stopped, connections));
        let words = Words::new(&*queue)?;
        let mut made = NcclRank { rank, world_size: size, queue, lanes, words, stop, timeout: self.timeout };
        self.send_once(&mut made)?;
        Ok(Box::new(made))
    }

    fn lane(
        &self,
        connection: NcclCommunicator,
        channel: Channel,
        members: Vec<usize>,
    ) -> Result<Lane, CommError> {
        let queue = connection.queue();
        let reduction = match channel {
            Channel::Reduce | Channel::Tied => {
                Reduction::new(self.order, members.len(), self.lanes.largest_unit)
            }
            _ => Reduction::None,
        };
        Ok(Lane { members, connection: Arc::new(connection), queue, reduction })
    }

    /// Waits until a communicator is there.
    fn made(&self, joining: Joining, is_stopped: &IsStopped) -> Result<Option<NcclCommunicator>, CommError> {
        let start = Instant::now();
        while !joining.poll().map_err(refused)? {
            if is_stopped() {
                return Err(CommError::Stopped);
            }
            if start.elapsed() > self.timeout {
                return Err(no_communicator("all ranks to make a communicator of NCCL"));
            }
            thread::sleep(BETWEEN_QUESTIONS);
        }
        joining.finish(self.timeout).map_err(refused)
    }

    /// Sends a little through every lane, in the order in which they were made: NCCL connects members when they first send, in which they
    /// wait for each other, and ranks that did so in different orders would wait for ever.
    fn send_once(&self, rank: &mut NcclRank) -> Result<(), CommError> {
        let channels = self.lanes.channels().into_iter().chain([Channel::Collect]);
        for channel in channels {
            let Some(lane) = rank.lanes.get_mut(&channel) else { continue };
            let (own, size) = (lane.connection.rank(), lane.members.len());
            let from = lane.queue.zeros(size, ElementType::F32)?;
            let mut to = lane.queue.zeros(2 * size, ElementType::F32)?;
            // Memory is allocated before anything is under way, for which the driver may wait.
            let mut word = lane.queue.zeros(2, ElementType::U32)?;
            let (mut each, all) = to.view_mut().split_at(size);
            match channel {
                Channel::Edge(_) if own == 0 => lane.connection.send(1, from.view()),
                Channel::Edge(_) => lane.connection.receive(0, each),
                Channel::Gather => lane.connection.all_gather(&all),
                _ => {
                    let (mut sends, mut receives) = (Vec::new(), Vec::new());
                    for member in (0..size).filter(|&member| member != own) {
                        sends.push((member, from.view().range(member..member + 1)));
                        let (one, others) = each.split_at(1);
                        receives.push((member, one));
                        each = others;
                    }
                    lane.connection.exchange(&sends, &receives);
                    if let Reduction::Library = lane.reduction {
                        lane.connection.reduce_scatter(&all);
                    }
                    if channel == Channel::Tied {
                        lane.connection.all_gather(&all);
                    }
                    if channel == Channel::Collect {
                        lane.connection.add_words(&word.view_mut());
                    }
                }
            }
            let check = || rank.stop.check_connections();
            rank.stop.or_abort(finish(&*lane.queue, self.timeout, size, check))?;
        }
        Ok(())
    }
}

/// Multiprocessors that one operation may take: all lanes of a rank fit at once into half of its GPU, and one does not profit from more than 16. `None`
/// where they do not fit: an operation stays on its GPU until all members have come, and would keep out the one that they wait for.
fn num_ctas(num_multiprocessors: usize, num_lanes: usize) -> Option<usize> {
    Some((num_multiprocessors / 2 / num_lanes).min(16)).filter(|&num_ctas| num_ctas > 0)
}

fn refused(error: NoNccl) -> CommError {
    CommError::Device { reason: format!("NCCL, {error}") }
}

fn no_communicator(what: &str) -> CommError {
    CommError::Device { reason: format!("waited for {what} in vain") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lanes_fit_into_half_of_a_gpu_or_there_are_too_many() {
        for (num_multiprocessors, num_lanes, expected) in [
            (132, 4, Some(16)),
            (132, 7, Some(9)),
            (132, 66, Some(1)),
            (132, 67, None),
            (14, 7, Some(1)),
            (14, 8, None),
        ] {
            let found = num_ctas(num_multiprocessors, num_lanes);
            assert_eq!(found, expected, "{num_lanes} lanes on {num_multiprocessors} multiprocessors");
            assert!(found.is_none_or(|num_ctas| num_ctas * num_lanes <= num_multiprocessors / 2));
        }
    }
}
