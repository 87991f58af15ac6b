//! Against every choice, tried one by one.

use super::*;
use crate::role::UnitSharding::{self, Sharded, Whole};

/// Buffers for the two largest of each mark; every sharded weight is gathered so often, the first and the last half as often.
struct Row {
    bytes: Vec<u64>,
    num_gathers: u64,
}

fn two_largest(bytes: &[u64], marks: &[bool]) -> u64 {
    let mut marked: Vec<u64> = bytes.iter().zip(marks).filter(|of| *of.1).map(|of| *of.0).collect();
    marked.sort_unstable();
    marked.iter().rev().take(2).sum()
}

impl RankRow for Row {
    fn buffer_bounds(&self, is_sharded: &[bool]) -> BufferBounds {
        let sharded = self.bytes.iter().zip(is_sharded).filter(|of| *of.1);
        let least_bytes = sharded.map(|of| *of.0).max().unwrap_or(0);
        BufferBounds { least_bytes, most_bytes: 2 * least_bytes }
    }

    fn gathers(&self, is_sharded: &[bool]) -> GatherCosts {
        let ends = [is_sharded.iter().position(|&of| of), is_sharded.iter().rposition(|&of| of)];
        let sent = |(weight, &bytes): (usize, &u64)| {
            let often = if ends.contains(&Some(weight)) { self.num_gathers / 2 } else { self.num_gathers };
            if is_sharded[weight] { often * bytes } else { 0 }
        };
        GatherCosts {
            buffer_bytes: two_largest(&self.bytes, is_sharded),
            sent_bytes: self.bytes.iter().enumerate().map(sent).collect(),
        }
    }

    fn gradient_buffer_bytes(&self, is_reduced_often: &[bool]) -> u64 {
        2 * two_largest(&self.bytes, is_reduced_often)
    }
}

/// Weights of so many bytes over so many data ranks, with 2-byte weights beside 4-byte gradients; some are tied to those of
/// another rank.
fn rank(
    bytes: &[u64],
    tied: &[usize],
    data: u64,
    num_micro_batches: u64,
    may_be_zero_2: bool,
) -> RankCosts<Row> {
    let weight = |(place, &bytes): (usize, &u64)| WeightCosts {
        num_elements: bytes,
        num_trained: bytes,
        gathered_bytes: bytes,
        at_rest_bytes: [2 * bytes / data, bytes + 2 * bytes / data, 3 * bytes],
        sent_bytes: [2 * num_micro_batches * bytes, bytes + 2 * num_micro_batches * bytes, 3 * bytes],
        must_be_whole: false,
        tied: tied.iter().position(|&tied| tied == place),
    };
    RankCosts {
        weights: bytes.iter().enumerate().map(weight).collect(),
        fixed_peak_bytes: 50,
        fixed_sent_bytes: 7,
        may_be_zero_2,
        row: Row { bytes: bytes.to_vec(), num_gathers: 2 * num_micro_batches },
    }
}

/// Peak and bytes sent of one rank, by the formula at the head of the module.
fn cost(rank: &RankCosts<Row>, kinds: &[UnitSharding]) -> (u64, u64) {
    let marks = |of: fn(UnitSharding) -> bool| kinds.iter().map(|&kind| of(kind)).collect::<Vec<_>>();
    let gathers = rank.row.gathers(&marks(|kind| kind == Sharded));
    let gradients = rank.row.gradient_buffer_bytes(&marks(|kind| kind != Whole));
    let sum = |of: fn(&WeightCosts) -> [u64; 3]| {
        rank.weights.iter().zip(kinds).map(|(weight, &kind)| of(weight)[kind as usize]).sum::<u64>()
    };
    (
        rank.fixed_peak_bytes + sum(|weight| weight.at_rest_bytes) + gathers.buffer_bytes + gradients,
        7 + sum(|weight| weight.sent_bytes) + gathers.sent_bytes.iter().sum::<u64>(),
    )
}

/// More than 95% of the weights stay gathered, and more than half of the gradients are reduced after every micro-batch.
fn is_zero_2(rank: &RankCosts<Row>, kinds: &[UnitSharding]) -> bool {
    let part = |of: fn(UnitSharding) -> bool| {
        let weights = rank.row.bytes.iter().zip(kinds).filter(|(_, kind)| of(**kind));
        weights.map(|(&bytes, _)| bytes as f64).sum::<f64>() / rank.row.bytes.iter().sum::<u64>() as f64
    };
    part(|kind| kind != Sharded) > 0.95 && part(|kind| kind != Whole) > 0.5
}

/// Every choice for the ranks: peaks and the bytes that all send.
fn every(ranks: &[RankCosts<Row>]) -> Vec<(Vec<u64>, u64)> {
    let of_rank = |rank: &RankCosts<Row>| {
        let num_weights = rank.weights.len() as u32;
        let all = (0..3usize.pow(num_weights)).map(|number| {
            let kind = |weight| UnitSharding::ALL[number / 3usize.pow(weight) % 3];
            (0..num_weights).map(kind).collect::<Vec<UnitSharding>>()
        });
        let tied = |kinds: &[UnitSharding]| {
            let mut tied: Vec<(usize, UnitSharding)> =
                rank.weights.iter().zip(kinds).filter_map(|(of, &kind)| Some((of.tied?, kind))).collect();
            tied.sort_unstable();
            tied
        };
        let allowed = all.filter(|kinds| {
            let mut must_be_whole = rank.weights.iter().zip(kinds).filter(|of| of.0.must_be_whole);
            must_be_whole.all(|of| *of.1 == Whole) && (rank.may_be_zero_2 || !is_zero_2(rank, kinds))
        });
        allowed.map(|kinds| (tied(&kinds), cost(rank, &kinds))).collect::<Vec<_>>()
    };
    let mut together: Vec<_> =
        of_rank(&ranks[0]).into_iter().map(|(tied, (peak, sent))| (tied, vec![peak], sent)).collect();
    for rank in &ranks[1..] {
        let own = of_rank(rank);
        let with_own = |(tied, peaks, sent): &(Vec<(usize, UnitSharding)>, Vec<u64>, u64)| {
            let alike = own.iter().filter(|of| of.0 == *tied);
            let with =
                alike.map(|(_, (peak, own))| (tied.clone(), [&peaks[..], &[*peak]].concat(), sent + own));
            with.collect::<Vec<_>>()
        };
        together = together.iter().flat_map(with_own).collect();
    }
    together.into_iter().map(|(_, peaks, sent)| (peaks, sent)).collect()
}

/// What [`choose`] promises, from all choices: the bytes sent, and the peaks of a choice that keeps the promise.
fn best(ranks: &[RankCosts<Row>], memory_bytes: Option<u64>) -> (u64, Vec<u64>) {
    let whole: Vec<u64> = ranks.iter().map(|rank| cost(rank, &vec![Whole; rank.weights.len()]).0).collect();
    let below_whole = |peaks: &[u64]| peaks.iter().zip(&whole).all(|(peak, whole)| peak <= whole);
    let choices: Vec<_> = every(ranks).into_iter().filter(|(peaks, _)| below_whole(peaks)).collect();
    let fullest = |peaks: &[u64]| *peaks.iter().max().expect("a rank");
    let (lowest, lowest_sent) = choices
        .iter()
        .min_by_key(|(peaks, sent)| (fullest(peaks), peaks.iter().sum::<u64>(), *sent))
        .expect("everything whole");
    let cheapest = |fits: &dyn Fn(&[u64]) -> bool| {
        let fitting = choices.iter().filter(|(peaks, _)| fits(peaks));
        let best = fitting.min_by_key(|(peaks, sent)| (*sent, fullest(peaks), peaks.iter().sum::<u64>()));
        best.map(|(peaks, sent)| (*sent, peaks.clone()))
    };
    let lowest_of_all = (*lowest_sent, lowest.clone());
    match memory_bytes {
        Some(limit) => cheapest(&|peaks| fullest(peaks) <= limit).unwrap_or(lowest_of_all),
        None => {
            let near = |peaks: &[u64]| peaks.iter().zip(lowest).all(|(peak, low)| *peak <= low + low / 100);
            cheapest(&near).filter(|(sent, _)| 10 * sent <= 9 * lowest_sent).unwrap_or(lowest_of_all)
        }
    }
}

fn found(ranks: &[RankCosts<Row>], memory_bytes: Option<u64>) -> (u64, Vec<u64>) {
    let chosen = choose(ranks, memory_bytes);
    let least: Vec<u64> = chosen.iter().map(|rank| rank.least_peak_bytes).collect();
    assert_eq!(least, best(ranks, Some(0)).1, "the lowest peaks");
    let kinds: Vec<Vec<UnitSharding>> = chosen.into_iter().map(|rank| rank.kinds).collect();
    let costs: Vec<(u64, u64)> = ranks.iter().zip(&kinds).map(|(rank, kinds)| cost(rank, kinds)).collect();
    let of_tied = |number| {
        let uses = ranks.iter().zip(&kinds).flat_map(|(rank, kinds)| rank.weights.iter().zip(kinds));
        uses.filter(move |(weight, _)| weight.tied == Some(number)).map(|(_, &kind)| kind).collect::<Vec<_>>()
    };
    assert!((0..9).all(|number| of_tied(number).windows(2).all(|two| two[0] == two[1])), "{kinds:?}");
    (costs.iter().map(|cost| cost.1).sum(), costs.iter().map(|cost| cost.0).collect())
}

/// The limits that are tried: none, and some around the peaks of a rank.
fn limits(rank: &RankCosts<Row>) -> Vec<Option<u64>> {
    let whole = cost(rank, &vec![Whole; rank.weights.len()]).0;
    [None].into_iter().chain([1, 3, 5, 6, 7, 8, 9, 10, 12].map(|tenths| Some(whole * tenths / 10))).collect()
}

const SIZES: [&[u64]; 9] = [
    &[100],
    &[100, 100],
    &[400, 100, 100],
    &[100, 100, 100, 100, 100],
    &[60, 60, 100, 200, 100, 200],
    &[31, 7, 53, 3, 19],
    &[1000, 10, 10, 10, 10, 1],
    &[500, 400, 300, 200, 100, 50],
    &[100, 110, 120, 130, 90, 100],
];

#[test]
fn a_rank_with_few_weights_has_the_best_of_all_choices() {
    for sizes in SIZES {
        for (data, micro_batches) in [(2, 1), (2, 8), (8, 4), (64, 1)] {
            for may_be_zero_2 in [true, false] {
                let ranks = [rank(sizes, &[], data, micro_batches, may_be_zero_2)];
                for limit in limits(&ranks[0]) {
                    assert_eq!(found(&ranks, limit), best(&ranks, limit), "{sizes:?} {data} {limit:?}");
                }
            }
        }
    }
}

#[test]
fn ranks_that_share_a_tied_weight_have_the_best_of_all_choices_together() {
    for sizes in SIZES.iter().filter(|sizes| sizes.len() > 1 && sizes.len() < 6) {
        let mut reversed = sizes.to_vec();
        reversed.reverse();
        let last = sizes.len() - 1;
        for (tied, of_other) in [(vec![0], vec![last]), (vec![0, 1], vec![last, last - 1])] {
            for data in [2, 8] {
                let mut ranks =
                    [rank(sizes, &tied, data, 4, false), rank(&reversed, &of_other, data, 4, true)];
                // One is far fuller than the other, in every second case.
                ranks[tied.len() - 1].fixed_peak_bytes = if data == 8 { 50_000 } else { 50 };
                for limit in limits(&ranks[0]) {
                    assert_eq!(found(&ranks, limit), best(&ranks, limit), "{sizes:?} {data} {limit:?}");
                }
            }
        }
    }
}

/// Of nine and ten weights not all choices are tried. The lowest peak is found all the same; bytes sent within a limit come near.
#[test]
fn a_rank_with_many_weights_has_the_lowest_peak_and_nearly_the_fewest_bytes() {
    let (mut num_limits, mut num_best, mut worst) = (0, 0, 1.0);
    for sizes in [
        vec![100; 10],
        vec![400, 100, 100, 100, 100, 100, 100, 100, 100],
        vec![60, 60, 60, 60, 60, 100, 100, 100, 60, 60],
        vec![50, 100, 200, 100, 200, 100, 200, 100, 200],
        vec![31, 37, 41, 43, 47, 53, 59, 61, 67],
    ] {
        for (data, micro_batches) in [(2, 2), (8, 8)] {
            let ranks = [rank(&sizes, &[], data, micro_batches, true)];
            let too_low = Some(0);
            assert_eq!(found(&ranks, too_low), best(&ranks, too_low), "{sizes:?} {data}");
            for limit in limits(&ranks[0]) {
                let ((sent, peaks), (fewest, lowest)) = (found(&ranks, limit), best(&ranks, limit));
                let fits = |peaks: &[u64]| limit.is_none_or(|limit| peaks[0] <= limit);
                assert_eq!(fits(&peaks), fits(&lowest), "{sizes:?} {data} {limit:?}");
                num_limits += 1;
                num_best += usize::from(sent == fewest);
                worst = f64::max(worst, sent as f64 / fewest as f64);
            }
        }
    }
    println!("{num_best} of {num_limits} send the fewest bytes, the others up to {worst:.3} times as many");
    assert!(num_best * 2 > num_limits && worst < 1.25, "{num_best} of {num_limits}, {worst}");
}

/// The smallest of 5 or 10 weights, or the largest, must be whole.
#[test]
fn what_must_be_whole_is_whole_and_the_others_are_chosen_as_well_as_without_it() {
    for (sizes, place) in [
        (vec![100, 100, 100, 100, 10], 4),
        (vec![300, 100, 100, 100, 100], 0),
        (vec![10, 100, 100, 100, 100, 100, 100, 100, 100, 100], 0),
        (vec![300, 100, 100, 100, 100, 100, 100, 100, 100, 100], 0),
    ] {
        let mut ranks = [rank(&sizes, &[], 8, 4, false)];
        ranks[0].weights[place].must_be_whole = true;
        assert_eq!(choose(&ranks, None)[0].kinds[place], Whole);
        for limit in [None, Some(0)] {
            assert_eq!(found(&ranks, limit), best(&ranks, limit), "{sizes:?} {limit:?}");
        }
    }
}
