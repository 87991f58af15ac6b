//! What every operation does when all members join.

use std::sync::Arc;

use pipezero_comm::memory::{Category, Ledger};
use pipezero_comm::{Channel, Communicator, Counting, Group};
use pipezero_models::ElementType;
use pipezero_plan::{Traffic, Volume};

use super::backend::{
    Backend, ELEMENT_TYPES, LONG, barrier, bits, buffer, buffer_of, charged, marks, on_every_world,
    sum_in_rank_order, values, widened, world,
};

/// Elements of a part: fewer and more than a backend would handle at a time.
const PART_LENS: [usize; 3] = [1, 6, 1500];

/// Elements of the buffer before the range; there are as many behind it.
const MARGIN: usize = 3;

/// A rank's buffer with margins, and the ranks' sum over the whole of it.
fn with_margins(group: &Group, rank: usize, part_len: usize) -> (Vec<f32>, Vec<f32>, std::ops::Range<usize>) {
    let end = MARGIN + part_len * group.size();
    let len = end + MARGIN;
    (values(rank, len), sum_in_rank_order(group.ranks(), len), MARGIN..end)
}

/// What the member at `position` owns.
fn part(position: usize, part_len: usize) -> std::ops::Range<usize> {
    MARGIN + position * part_len..MARGIN + (position + 1) * part_len
}

pub(super) fn an_all_gather_fills_the_other_parts_and_touches_nothing_else<B: Backend>() {
    on_every_world::<B>(|mut comm| {
        let (group, rank) = (world(&*comm), comm.rank());
        for part_len in PART_LENS {
            let (mine, _, range) = with_margins(&group, rank, part_len);
            let gathered = comm.start_all_gather(&group, buffer(&mine), range).unwrap().wait().unwrap();
            let mut expected = mine.clone();
            for owner in 0..group.size() {
                let part = part(owner, part_len);
                expected[part.clone()].copy_from_slice(&values(owner, mine.len())[part]);
            }
            assert_eq!(bits(gathered.host()), bits(&expected));
        }
    });
}

pub(super) fn elements_of_every_type_are_gathered_and_sent<B: Backend>() {
    on_every_world::<B>(|mut comm| {
        let (group, rank) = (world(&*comm), comm.rank());
        let size = group.size();
        for (element_type, part_len) in
            ELEMENT_TYPES.into_iter().flat_map(|of| PART_LENS.map(|len| (of, len)))
        {
            let end = MARGIN + part_len * size;
            let len = end + MARGIN;
            let mut expected = marks(rank, len);
            for owner in 0..size {
                let part = part(owner, part_len);
                expected[part.clone()].copy_from_slice(&marks(owner, len)[part]);
            }
            let mine = buffer_of(element_type, &marks(rank, len));
            let gathered = comm.start_all_gather(&group, mine, MARGIN..end).unwrap().wait().unwrap();
            assert_eq!((gathered.element_type(), widened(&gathered)), (element_type, expected));
            if size > 1 {
                let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
                let mine = buffer_of(element_type, &marks(rank, part_len));
                let empty = buffer_of(element_type, &vec![0.0; part_len]);
                let sent = comm.start_send(next, rank as u32, mine).unwrap();
                let received = comm.start_receive(previous, previous as u32, empty).unwrap().wait().unwrap();
                assert_eq!(received.element_type(), element_type);
                assert_eq!(widened(&received), marks(previous, part_len));
                sent.wait().unwrap();
                // The first elements alone, of buffers that are longer, on one end by one more.
                let mine = buffer_of(element_type, &marks(rank, part_len + 2));
                let longer = buffer_of(element_type, &vec![0.0; part_len + 2 + rank % 2]);
                let sent = comm.start_send_first(next, rank as u32, mine, part_len).unwrap();
                let received = comm.start_receive_first(previous, previous as u32, longer, part_len).unwrap();
                let received = widened(&received.wait().unwrap());
                assert_eq!(received[..part_len], marks(previous, part_len + 2)[..part_len]);
                sent.wait().unwrap();
            }
        }
    });
}

pub(super) fn a_reduce_scatter_adds_in_rank_order<B: Backend>() {
    on_every_world::<B>(|mut comm| {
        let (group, rank) = (world(&*comm), comm.rank());
        for part_len in PART_LENS {
            let (mine, sums, range) = with_margins(&group, rank, part_len);
            let reduced =
                comm.start_reduce_scatter(&group, buffer(&mine), range.clone()).unwrap().wait().unwrap();
            let own = part(rank, part_len);
            assert_eq!(bits(&reduced.host()[own.clone()]), bits(&sums[own]));
            assert_eq!(bits(&reduced.host()[..range.start]), bits(&mine[..range.start]));
            assert_eq!(bits(&reduced.host()[range.end..]), bits(&mine[range.end..]));
        }
    });
}

pub(super) fn an_all_reduce_is_a_reduce_scatter_and_an_all_gather<B: Backend>() {
    on_every_world::<B>(|mut comm| {
        let (group, rank) = (world(&*comm), comm.rank());
        for part_len in PART_LENS {
            let (mine, sums, range) = with_margins(&group, rank, part_len);
            let at_once = comm.start_all_reduce(&group, Channel::Reduce, buffer(&mine), range.clone());
            let at_once = at_once.unwrap().wait().unwrap();
            let reduced = comm.start_reduce_scatter(&group, buffer(&mine), range.clone()).unwrap();
            let in_two = comm.start_all_gather(&group, reduced.wait().unwrap(), range.clone()).unwrap();
            assert_eq!(bits(at_once.host()), bits(in_two.wait().unwrap().host()));
            let mut expected = mine;
            expected[range.clone()].copy_from_slice(&sums[range]);
            assert_eq!(bits(at_once.host()), bits(&expected));
        }
    });
}

pub(super) fn words_are_added_wrapping<B: Backend>() {
    on_every_world::<B>(|mut comm| {
        let group = world(&*comm);
        for round in 0..3 {
            let word = |rank: usize| u64::MAX / 2 + (rank * 31 + round) as u64;
            let mut words = [word(comm.rank()), 1, 0];
            comm.all_reduce_words(&group, &mut words).unwrap();
            let sum = group.ranks().iter().fold(0_u64, |sum, &rank| sum.wrapping_add(word(rank)));
            assert_eq!(words, [sum, group.size() as u64, 0]);
        }
    });
}

pub(super) fn every_pair_exchanges_at_once<B: Backend>() {
    on_every_world::<B>(|mut comm| {
        let (rank, world_size) = (comm.rank(), comm.world_size());
        let peers: Vec<usize> = (0..world_size).filter(|&peer| peer != rank).collect();
        let edge = |from: usize, to: usize| (from * world_size + to) as u32;
        let len = |from: usize, to: usize| 1 + 700 * from + 90 * to;
        let message = |from: usize, to: usize, turn: usize| values(from + 10 * turn, len(from, to));
        let mut in_flight = Vec::new();
        for turn in 0..2 {
            // Both directions cross, and every rank starts its sends first: no rank may wait inside a start.
            for &to in &peers {
                let sent = comm.start_send(to, edge(rank, to), buffer(&message(rank, to, turn))).unwrap();
                in_flight.push((sent, len(rank, to), None));
            }
            for &from in &peers {
                let empty = buffer(&vec![0.0; len(from, rank)]);
                let received = comm.start_receive(from, edge(from, rank), empty).unwrap();
                in_flight.push((received, len(from, rank), Some(message(from, rank, turn))));
            }
        }
        // The latest first: what is waited for need not be what was started first.
        for (pending, len, expected) in in_flight.into_iter().rev() {
            let returned = pending.wait().unwrap();
            assert_eq!(returned.len(), len);
            if let Some(expected) = expected {
                assert_eq!(bits(returned.host()), bits(&expected));
            }
        }
    });
}

pub(super) fn many_operations_are_in_flight_on_every_channel<B: Backend>() {
    on_every_world::<B>(|mut comm| {
        let (group, rank) = (world(&*comm), comm.rank());
        let len = 4 * group.size();
        let mine = |turn: usize| values(rank + 100 * turn, len);
        let sums = |turn: usize| {
            let ranks: Vec<usize> = group.ranks().iter().map(|rank| rank + 100 * turn).collect();
            sum_in_rank_order(&ranks, len)
        };
        let mut in_flight = Vec::new();
        for turn in 0..8 {
            let gathered = comm.start_all_gather(&group, buffer(&mine(turn)), 0..len).unwrap();
            let gathered_values = group
                .ranks()
                .iter()
                .flat_map(|&owner| values(owner + 100 * turn, len)[owner * 4..owner * 4 + 4].to_vec());
            in_flight.push((gathered, gathered_values.collect::<Vec<_>>()));
            for channel in [Channel::Reduce, Channel::Tied] {
                let sum = comm.start_all_reduce(&group, channel, buffer(&mine(turn)), 0..len).unwrap();
                in_flight.push((sum, sums(turn)));
            }
        }
        // Every rank waits in another order.
        while !in_flight.is_empty() {
            let (pending, expected) = in_flight.swap_remove((7 * rank + 3) % in_flight.len());
            assert_eq!(bits(pending.wait().unwrap().host()), bits(&expected));
        }
    });
}

pub(super) fn groups_that_share_members_do_not_mix<B: Backend>() {
    B::run(5, LONG, |mut comm, _| {
        let rank = comm.rank();
        let groups =
            [&[0, 1][..], &[2, 3], &[0, 2], &[1, 3], &[0, 1, 2, 3, 4], &[0, 4]].map(|ranks| ranks.to_vec());
        let mut in_flight = Vec::new();
        for ranks in groups.iter().filter(|ranks| ranks.contains(&rank)) {
            let (group, len) = (Group::new(ranks.iter().copied()), 2 * ranks.len());
            let sum =
                comm.start_all_reduce(&group, Channel::Reduce, buffer(&values(rank, len)), 0..len).unwrap();
            in_flight.push((sum, sum_in_rank_order(ranks, len)));
        }
        for (pending, expected) in in_flight.into_iter().rev() {
            assert_eq!(bits(pending.wait().unwrap().host()), bits(&expected));
        }
    });
}

pub(super) fn a_group_of_one_leaves_buffers_unchanged<B: Backend>() {
    B::run(2, LONG, |comm, _| {
        let mut comm = Counting::new(comm);
        let mine = values(comm.rank(), 5);
        let alone = Group::new([comm.rank()]);
        let gathered = comm.start_all_gather(&alone, buffer(&mine), 1..4).unwrap();
        let reduced = comm.start_reduce_scatter(&alone, buffer(&mine), 1..4).unwrap();
        let sum = comm.start_all_reduce(&alone, Channel::Tied, buffer(&mine), 1..4).unwrap();
        for pending in [gathered, reduced, sum] {
            assert_eq!(bits(pending.wait().unwrap().host()), bits(&mine));
        }
        let mut words = [7];
        comm.all_reduce_words(&alone, &mut words).unwrap();
        assert_eq!((words, comm.take_traffic()), ([7], Traffic::default()));
    });
}

pub(super) fn an_abandoned_operation_still_serves_its_peers<B: Backend>() {
    B::run(2, LONG, |mut comm, _| {
        let (rank, ledger) = (comm.rank(), Arc::<Ledger>::default());
        for turn in 0..4 {
            let message = values(turn, 100);
            if rank == 0 {
                drop(comm.start_send(1, 0, charged(&message, &ledger)).unwrap());
            } else {
                let received = comm.start_receive(0, 0, charged(&[0.0; 100], &ledger)).unwrap();
                assert_eq!(bits(received.wait().unwrap().host()), bits(&message));
            }
            barrier(&mut *comm);
        }
        // The abandoned buffers are freed, not kept for a wait that never happens.
        assert_eq!(ledger.peak_bytes(Category::Communication), 400);
    });
}

pub(super) fn counts_are_those_of_the_direct_exchange<B: Backend>() {
    on_every_world::<B>(|comm| {
        let mut comm = Counting::new(comm);
        let (group, rank) = (world(&comm), comm.rank());
        let size = group.size();
        let (shard, len) = (24_usize, 24 * size);
        let next = (rank + 1) % size;
        let previous = (rank + size - 1) % size;
        for _ in 0..2 {
            let gathered = comm.start_all_gather(&group, buffer(&vec![0.0; len]), 0..len).unwrap();
            let reduced = comm.start_reduce_scatter(&group, buffer(&vec![0.0; len]), 0..len).unwrap();
            let sum = comm.start_all_reduce(&group, Channel::Tied, buffer(&vec![0.0; len]), 0..len).unwrap();
            let mut in_flight = vec![gathered, reduced, sum];
            if size > 1 {
                in_flight.push(comm.start_send(next, rank as u32, buffer(&[0.0; 11])).unwrap());
                in_flight.push(comm.start_receive(previous, previous as u32, buffer(&[0.0; 11])).unwrap());
            }
            in_flight.into_iter().for_each(|pending| drop(pending.wait().unwrap()));
        }
        let mut words = vec![0; 4 * size];
        comm.all_reduce_words(&group, &mut words).unwrap();
        // Refused, so not counted.
        assert!(comm.start_all_gather(&group, buffer(&[0.0; 1]), 0..len).is_err());

        // Each rank sends its 24 elements of 4 bytes to every other.
        let part_bytes = (4 * shard * (size - 1)) as u64;
        let word_bytes = (2 * 8 * 4 * (size - 1)) as u64;
        let expected = Traffic {
            all_gather: Volume { count: 2, bytes: 2 * part_bytes },
            reduce_scatter: Volume { count: 2, bytes: 2 * part_bytes },
            all_reduce: Volume { count: 3, bytes: 2 * 2 * part_bytes + word_bytes },
            send: Volume { count: 2, bytes: 2 * 44 },
        };
        let expected = if size > 1 { expected } else { Traffic::default() };
        assert_eq!(comm.take_traffic(), expected);
        assert_eq!(comm.take_traffic(), Traffic::default());
    });
}

pub(super) fn narrow_elements_are_half_the_bytes<B: Backend>() {
    B::run(2, LONG, |comm, _| {
        let mut comm = Counting::new(comm);
        let rank = comm.rank();
        for (element_type, element_bytes) in
            [(ElementType::F32, 4), (ElementType::Bf16, 2), (ElementType::F16, 2)]
        {
            let elements = || buffer_of(element_type, &[0.0; 10]);
            let gathered = comm.start_all_gather(&world(&comm), elements(), 2..10).unwrap();
            let moved = match rank {
                0 => comm.start_send(1, 0, elements()).unwrap(),
                _ => comm.start_receive(0, 0, elements()).unwrap(),
            };
            [gathered, moved].into_iter().for_each(|pending| drop(pending.wait().unwrap()));
            let sent = Volume { count: 1, bytes: 10 * element_bytes };
            let expected = Traffic {
                all_gather: Volume { count: 1, bytes: 4 * element_bytes },
                send: if rank == 0 { sent } else { Volume::default() },
                ..Traffic::default()
            };
            assert_eq!(comm.take_traffic(), expected);
        }
    });
}
