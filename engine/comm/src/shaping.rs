//! Emulated links: calculates when a message would arrive over the links of other hardware.
//!
//! Ranks that are threads exchange buffers at the speed of memory. With [`Links`] every message is delayed by the time
//! that a link of its class would take, and a rank that waits for it sleeps meanwhile, so that the overlap of computes
//! and messages can be studied on a machine with few cores. No thread keeps the time: the arrival follows from when the
//! last member joined and when the link was free, so the last member to join calculates it once for all members, and it
//! does not depend on who waits or when. Rejected: a thread that delivers messages (it would compete with the computes
//! that it should not disturb), and sleeping in the start (then nothing overlaps).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pipezero_config::{Link, Links};

use super::group::{Channel, ChannelKey};
use crate::sync::{Instant, Mutex, PoisonError};

/// The channel whose link the operations of a channel occupy.
fn link_key(links: &Links, (members, channel): &ChannelKey) -> ChannelKey {
    let channel = match channel {
        Channel::Reduce if links.shared => Channel::Gather,
        &own => own,
    };
    (members.clone(), channel)
}

/// When a message has left its link and when it arrives, in nanoseconds since the world was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DeliveryTimes {
    /// The link is free again.
    frees_ns: u64,
    /// The message has arrived.
    arrives_ns: u64,
}

/// The delivery of a message that its members have joined at `joined_ns`, over a link that is free from `free_ns` on:
/// it starts when both are past, occupies the link for its bytes, to the nearest nanosecond, and arrives a latency later.
fn delivery(link: Link, joined_ns: u64, free_ns: u64, num_bytes: u64) -> DeliveryTimes {
    let frees_ns = joined_ns.max(free_ns).saturating_add(link.occupied_ns(num_bytes));
    DeliveryTimes { frees_ns, arrives_ns: frees_ns.saturating_add(link.latency_ns()) }
}

/// All links of a world, each made when it is first used.
#[derive(Debug)]
pub(super) struct LinkStates {
    links: Links,
    /// When the world was made.
    epoch: Instant,
    states: Mutex<BTreeMap<ChannelKey, Arc<LinkState>>>,
}

impl LinkStates {
    pub(super) fn new(links: Links) -> Self {
        Self { links, epoch: Instant::now(), states: Mutex::default() }
    }

    /// The link of a channel; none within a rank.
    pub(super) fn link(&self, key: &ChannelKey) -> Option<Arc<LinkState>> {
        let members = &key.0;
        if members.len() < 2 {
            return None;
        }
        let link =
            || LinkState { shape: self.links.between(members), epoch: self.epoch, free_ns: Mutex::default() };
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        Some(Arc::clone(states.entry(link_key(&self.links, key)).or_insert_with(|| Arc::new(link()))))
    }
}

/// One link, which messages occupy one after the other.
#[derive(Debug)]
pub(super) struct LinkState {
    shape: Link,
    epoch: Instant,
    free_ns: Mutex<u64>,
}

impl LinkState {
    /// Sends a message whose last member has just joined.
    pub(super) fn deliver(&self, num_bytes: u64) -> Delivery {
        let mut free_ns = self.free_ns.lock().unwrap_or_else(PoisonError::into_inner);
        // Read with the lock held, so that messages occupy the link in the order in which they were sent.
        let joined_ns = u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let times = delivery(self.shape, joined_ns, *free_ns, num_bytes);
        *free_ns = times.frees_ns;
        Delivery { epoch: self.epoch, times }
    }
}

/// A message that was sent over a link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delivery {
    epoch: Instant,
    times: DeliveryTimes,
}

impl Delivery {
    /// Time from `now` until the message arrives; zero once it has.
    pub(super) fn until_arrival(self, now: Instant) -> Duration {
        self.until(self.times.arrives_ns, now)
    }

    /// Time from `now` until the message has left its sender, whose buffer is then free: a sender does not wait for the
    /// latency.
    pub(super) fn until_sent(self, now: Instant) -> Duration {
        self.until(self.times.frees_ns, now)
    }

    fn until(self, at_ns: u64, now: Instant) -> Duration {
        Duration::from_nanos(at_ns).saturating_sub(now.duration_since(self.epoch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEVER: u64 = u64::MAX;

    fn link(latency_ns: u64, bytes_per_s: f64) -> Link {
        Link { latency: Duration::from_nanos(latency_ns), bytes_per_s }
    }

    #[test]
    fn a_message_starts_when_it_is_joined_and_the_link_is_free() {
        // 4 bytes a nanosecond.
        let link = link(100, 4e9);
        for (joined_ns, free_ns, num_bytes, frees_ns, arrives_ns) in [
            (0, 0, 0, 0, 100),
            (0, 0, 4000, 1000, 1100),
            (50, 0, 4000, 1050, 1150),
            (50, 50, 4000, 1050, 1150),
            (50, 700, 4000, 1700, 1800),
            (50, 700, 0, 700, 800),
            (50, 700, 5, 701, 801),
            (50, 700, 7, 702, 802),
        ] {
            let times = delivery(link, joined_ns, free_ns, num_bytes);
            assert_eq!(times, DeliveryTimes { frees_ns, arrives_ns });
        }
    }

    /// Against the quotient of integers, to the nearest.
    #[test]
    fn the_occupation_is_exact_to_the_nanosecond() {
        for bytes_per_s in [1_u64, 3, 1000, 12_345_678, 999_999_937, 25_000_000_000] {
            for num_bytes in [1_u64, 2, 3, 1023, 4096, 1_000_003, 8_388_608] {
                let (numerator, denominator) =
                    (u128::from(num_bytes) * 1_000_000_000, u128::from(bytes_per_s));
                let expected = (numerator + denominator / 2) / denominator;
                let times = delivery(link(0, bytes_per_s as f64), 7, 5, num_bytes);
                assert_eq!(u128::from(times.frees_ns), 7 + expected, "{num_bytes} B at {bytes_per_s} B/s");
            }
        }
    }

    #[test]
    fn back_to_back_messages_pay_the_latency_once() {
        let link = link(1_000_000, 1e9);
        let mut free_ns = 0;
        let arrivals: Vec<u64> = [500, 0, 20, 1]
            .map(|num_bytes| {
                let times = delivery(link, 10, free_ns, num_bytes);
                free_ns = times.frees_ns;
                times.arrives_ns
            })
            .into();
        assert_eq!(arrivals, [1_000_510, 1_000_510, 1_000_530, 1_000_531]);
    }

    #[test]
    fn a_link_of_no_bandwidth_delivers_nothing_and_one_of_infinite_bandwidth_costs_the_latency() {
        for bytes_per_s in [0.0, -1.0, f64::NAN] {
            let times = delivery(link(5, bytes_per_s), 3, 0, 1);
            assert_eq!(times, DeliveryTimes { frees_ns: NEVER, arrives_ns: NEVER });
            // Later messages on the link never arrive either.
            assert_eq!(delivery(link(5, bytes_per_s), 3, NEVER, 0).arrives_ns, NEVER);
            assert_eq!(delivery(link(5, bytes_per_s), 3, 0, 0).arrives_ns, 8);
        }
        assert_eq!(delivery(link(5, f64::INFINITY), 3, 0, u64::MAX).arrives_ns, 8);
        assert_eq!(delivery(Link { latency: Duration::MAX, bytes_per_s: 1.0 }, 3, 0, 1).arrives_ns, NEVER);
    }

    #[test]
    fn gathers_and_reductions_of_the_same_ranks_alone_share_a_link() {
        let channels = [
            Channel::Gather,
            Channel::Reduce,
            Channel::Tied,
            Channel::Words,
            Channel::Collect,
            Channel::Edge(0),
            Channel::Edge(1),
        ];
        let keys: Vec<ChannelKey> = [vec![0, 1], vec![0, 2]]
            .iter()
            .flat_map(|ranks| channels.map(|channel| (ranks.clone(), channel)))
            .collect();
        for shared in [false, true] {
            let links =
                LinkStates::new(Links { ranks_per_node: 2, near: link(1, 1.0), far: link(2, 2.0), shared });
            let of = |key: &ChannelKey| links.link(key).expect("two ranks have a link");
            for one in &keys {
                for other in &keys {
                    let both_bulk = [one, other]
                        .iter()
                        .all(|(_, channel)| matches!(channel, Channel::Gather | Channel::Reduce));
                    let expected = one == other || shared && one.0 == other.0 && both_bulk;
                    assert_eq!(Arc::ptr_eq(&of(one), &of(other)), expected, "{one:?} and {other:?}");
                }
            }
            assert!(links.link(&(vec![3], Channel::Gather)).is_none());
        }
    }
}
