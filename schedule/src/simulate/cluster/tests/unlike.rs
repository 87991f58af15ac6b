//! Ranks that are not alike, crowded hosts and slowed computes, against what can be worked out by hand.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::vec::Vec;

use proptest::prelude::*;

use super::draw::Draw;
use crate::check::CheckedProgram;
use crate::generate::one_f_one_b;
use crate::id::{PipelineRank, Stage};
use crate::instruction::InstructionKind;
use crate::lower::lower;
use crate::options::{LowerOptions, Residency};
use crate::simulate::cluster::{self, Cluster, Computes, Cores, Duplex, Ratio, Sharing};
use crate::simulate::{Costs, MessageCost, Span, Timeline, UnitCosts, simulate};
use crate::testing::checked;
use crate::unit_facts::UnitFacts;

fn makespan(program: &CheckedProgram, costs: &Costs, cluster: &Cluster) -> u64 {
    cluster::simulate(program, costs, cluster).unwrap().makespan()
}

/// The last rank has no warm-up in which a slow rank could be hidden: the step takes its `m` micro-batches and one through all
/// others. For a slow rank before it that is an upper bound.
#[test]
fn a_straggler_sets_the_pace_of_its_pipeline() {
    for (p, m, straggler) in
        (1..=5).flat_map(|p| (p..=9).flat_map(move |m| (0..p).map(move |straggler| (p, m, straggler))))
    {
        let program = checked(&one_f_one_b(p, m).unwrap(), 1, &LowerOptions::ZERO_1);
        let costs = Costs::uniform(&program, UnitCosts::of_compute(30, 20, 20), MessageCost::default());
        for (numerator, denominator) in [(1, 1), (1, 2), (1, 3), (7, 10)] {
            let speeds = BTreeMap::from([(straggler, Ratio::new(numerator, denominator))]);
            let [forward, backward] = [30, 40].map(|ticks| (ticks * denominator + numerator / 2) / numerator);
            let own = u64::from(m * (forward + backward));
            let (before, others) = (u64::from(straggler * 70), u64::from((p - 1) * 70));
            let played = makespan(&program, &costs, &Cluster { speeds, ..Cluster::alike(1) });
            if straggler == p - 1 {
                assert_eq!(played, own + others, "p {p}, m {m}");
            }
            assert!(
                (own + before..=own + others).contains(&played),
                "rank {straggler} of {p}, m {m}: {played}"
            );
        }
    }
}

/// `[data rank]`: when the first pipeline rank's instructions of a kind ran.
fn spans(
    program: &CheckedProgram,
    costs: &Costs,
    cluster: &Cluster,
    kind: InstructionKind,
) -> Vec<Vec<Span>> {
    let played = cluster::simulate(program, costs, cluster).unwrap();
    let of_kind = |timeline: &Timeline| {
        let row = program.row(PipelineRank(0)).iter().zip(timeline.row(PipelineRank(0)));
        row.filter(|(of, _)| of.kind() == kind).map(|(_, &span)| span).collect()
    };
    played.by_data_rank().iter().map(of_kind).collect()
}

#[test]
fn data_ranks_wait_for_each_other_at_every_gather_or_only_at_the_norm() {
    // The second of two data ranks is slow.
    let slow = Cluster { speeds: BTreeMap::from([(1, Ratio::new(1, 2))]), ..Cluster::alike(2) };
    let last_ends = |program: &CheckedProgram, kind| -> Vec<u64> {
        let unit = UnitCosts { gather: MessageCost::of_link(1, 0), ..UnitCosts::of_compute(10, 10, 10) };
        let costs = Costs { gradient_norm: 5, ..Costs::uniform(program, unit, MessageCost::default()) };
        spans(program, &costs, &slow, kind).iter().map(|of| of.last().unwrap().end).collect()
    };
    // Without prefetch each of ZeRO-3's 8 forwards and 8 backwards begins with a gather, which waits for both.
    for (options, ends) in [
        (LowerOptions::ZERO_1, [4 * 2 * 30, 2 * 4 * 2 * 30]),
        (LowerOptions::zero_3(Residency::Strict, 0), [16 + 2 * 4 * 2 * 30 - 20, 16 + 2 * 4 * 2 * 30]),
    ] {
        let program = checked(&one_f_one_b(1, 4).unwrap(), 2, &options);
        assert_eq!(last_ends(&program, InstructionKind::Backward), ends);
        // Both go on together after the norm.
        assert_eq!(last_ends(&program, InstructionKind::GradientNorm), [ends[1] + 5; 2]);
    }
}

#[test]
fn ranks_that_outnumber_cores_take_turns() {
    for (data_degree, num_cores) in (1..=6).flat_map(|d| (1..=7).map(move |cores| (d, cores))) {
        let program = checked(&one_f_one_b(1, 3).unwrap(), 2, &LowerOptions::ZERO_1);
        let costs = Costs::uniform(&program, UnitCosts::of_compute(60, 60, 60), MessageCost::default());
        let alone = simulate(&program, &costs).unwrap().makespan();
        let cluster = |ranks_per_host, computes| Cluster {
            cores: Some(Cores { ranks_per_host, num_cores, computes }),
            ..Cluster::alike(data_degree)
        };
        // All on one host, at work all the time; every compute takes whole ticks.
        let crowded = alone * u64::from(data_degree.max(num_cores)) / u64::from(num_cores);
        assert_eq!(makespan(&program, &costs, &cluster(data_degree, Computes::OccupyCores)), crowded);
        assert_eq!(makespan(&program, &costs, &cluster(1, Computes::OccupyCores)), alone);
        assert_eq!(makespan(&program, &costs, &cluster(data_degree, Computes::Elsewhere)), alone);
        // A host beyond the cluster's last rank is no different.
        assert_eq!(makespan(&program, &costs, &cluster(u32::MAX, Computes::OccupyCores)), crowded);
    }
}

#[test]
fn computes_elsewhere_leave_the_cores_to_messages() {
    // Two ranks and one core: each issues for 6 ticks beside the other, completes for 4, and computes on its device.
    let program = checked(&one_f_one_b(1, 1).unwrap(), 1, &LowerOptions::zero_3(Residency::All, 0));
    let unit = UnitCosts {
        gather: MessageCost { issue: 6, occupied: 10, latency: 3, landing: 4 },
        ..UnitCosts::of_compute(100, 50, 50)
    };
    let costs = Costs::uniform(&program, unit, MessageCost::default());
    let cluster = |computes| Cluster {
        cores: Some(Cores { ranks_per_host: 2, num_cores: 1, computes }),
        ..Cluster::alike(2)
    };
    assert_eq!(makespan(&program, &costs, &cluster(Computes::Elsewhere)), 2 * 6 + 10 + 3 + 2 * 4 + 200);
    assert_eq!(makespan(&program, &costs, &cluster(Computes::OccupyCores)), 2 * 6 + 10 + 3 + 2 * 4 + 2 * 200);
}

#[test]
fn a_message_slows_the_computes_of_its_ranks_while_it_occupies_its_link() {
    // Two units, the second gathered while the first computes.
    let program = checked(&one_f_one_b(1, 1).unwrap(), 2, &LowerOptions::zero_3(Residency::All, 1));
    let unit = UnitCosts { gather: MessageCost::of_link(40, 9), ..UnitCosts::of_compute(100, 0, 0) };
    let costs = Costs::uniform(&program, unit, MessageCost::default());
    let slowed = |numerator, denominator| {
        let cluster = Cluster { slowdown: Ratio::new(numerator, denominator), ..Cluster::alike(1) };
        let spans = |kind| spans(&program, &costs, &cluster, kind).remove(0);
        let (forwards, gathers) = (spans(InstructionKind::Forward), spans(InstructionKind::Unshard));
        (forwards[0], gathers[1], makespan(&program, &costs, &cluster))
    };
    let (forward, gather, alone) = slowed(1, 1);
    // The second gather is sent when the first has left the link, so 9 ticks of it go before the first forward
    // starts.
    assert_eq!((forward.start, forward.end, gather.start, gather.end), (49, 149, 40, 89));
    // For 31 ticks the forward proceeds at 2/3: a third of that is lost, 10 1/3, and at half of its speed, 15 1/2.
    let (forward, _, longer) = slowed(3, 2);
    assert_eq!((forward.end, longer - alone), (149 + 11, 11));
    let (forward, _, longer) = slowed(2, 1);
    assert_eq!((forward.end, longer - alone), (149 + 16, 16));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    /// With links of their own, times are maxima of sums of what the costs say: nothing slower ever ends sooner.
    #[test]
    fn a_slower_rank_ends_nothing_sooner(seed in any::<u64>(), rank: u32, slowness in 1_u32..40) {
        let mut draw = Draw::new(seed);
        let program = draw.program();
        let costs = draw.costs(&program);
        let mut cluster = Cluster { sharing: Sharing::Own, cores: None, slowdown: Ratio::ONE, ..draw.cluster(&program) };
        let rank = rank % (cluster.data_degree * program.num_ranks() as u32);
        cluster.speeds.remove(&rank);
        let before = cluster::simulate(&program, &costs, &cluster).unwrap();
        cluster.speeds.insert(rank, Ratio::new(10, 10 + slowness));
        let after = cluster::simulate(&program, &costs, &cluster).unwrap();
        for (before, after) in before.by_data_rank().iter().zip(after.by_data_rank()) {
            for rank in program.ranks() {
                let later = before.row(rank).iter().zip(after.row(rank)).all(|(before, after)| before.end <= after.end);
                prop_assert!(later && before.end(rank) <= after.end(rank));
            }
        }
    }
}

/// Where messages share ports, a slower rank can send at a better time: the step ends sooner, and no rounding is at
/// work, for it does so in any unit of time. (Graham's anomalies, SIAM J. Appl. Math. 17(2), 1969, have the same
/// cause.)
#[test]
fn sharing_has_anomalies() {
    let program = checked(&one_f_one_b(3, 4).unwrap(), 1, &LowerOptions::ZERO_1);
    for unit in [1, 1000, 1_000_000] {
        let times = UnitCosts::of_compute(unit, unit, 0);
        let costs = Costs::uniform(&program, times, MessageCost::of_link(4 * unit, 0));
        let mut cluster = Cluster { sharing: Sharing::RankPort(Duplex::Full), ..Cluster::alike(1) };
        assert_eq!(makespan(&program, &costs, &cluster), 52 * unit);
        cluster.speeds.insert(1, Ratio::new(1, 2));
        assert_eq!(makespan(&program, &costs, &cluster), 50 * unit);
    }
}

/// Two pipeline ranks, each with all its data ranks on a node of its own: what one of them sends, all send, so every
/// message takes as many times as long as there are data ranks. Activations and gradients go in opposite directions.
#[test]
fn data_ranks_of_a_node_share_its_port_evenly() {
    let mut num_longer = 0;
    for (seed, (data_degree, m)) in (1..=6).flat_map(|d| (1..=6).map(move |m| (d, m))).enumerate() {
        for options in crate::testing::all_options(2) {
            let program = checked(&one_f_one_b(2, m).unwrap(), 2, &options);
            let costs = Draw::new(seed as u64).costs(&program);
            let cluster = Cluster {
                ranks_per_node: NonZeroU32::new(data_degree),
                sharing: Sharing::NodePort(Duplex::Full),
                ..Cluster::alike(data_degree)
            };
            let mut slower = costs.clone();
            slower.edges.iter_mut().for_each(|edge| edge.occupied *= u64::from(data_degree));
            let expected = simulate(&program, &slower).unwrap();
            let played = cluster::simulate(&program, &costs, &cluster).unwrap();
            assert!(
                played.by_data_rank().iter().all(|timeline| timeline == &expected),
                "{cluster:?}, {costs:?}"
            );
            num_longer += usize::from(expected != simulate(&program, &costs).unwrap());
        }
    }
    assert!(num_longer > 100, "{num_longer}");
}

/// Both data ranks' gathers go over both nodes' ports: two pipeline ranks at once take twice as long.
#[test]
fn groups_that_span_nodes_share_their_ports() {
    let order = one_f_one_b(2, 1).unwrap();
    let units: Vec<UnitFacts> = (0..2).map(|stage| UnitFacts::new(Stage(stage), 64)).collect();
    let options = LowerOptions::zero_3(Residency::All, 0);
    let program = CheckedProgram::new(lower(&order, &units, &options).unwrap()).unwrap();
    let unit = UnitCosts { gather: MessageCost::of_link(50, 0), ..UnitCosts::of_compute(10, 5, 5) };
    let costs = Costs::uniform(&program, unit, MessageCost::default());
    let first_forward = |ranks_per_node: u32| {
        let sharing = Sharing::NodePort(Duplex::Full);
        let ranks_per_node = NonZeroU32::new(ranks_per_node);
        let cluster = Cluster { sharing, ranks_per_node, ..Cluster::alike(4) };
        spans(&program, &costs, &cluster, InstructionKind::Forward)[3][0].start
    };
    // Nodes of all eight ranks, of one data group each, and of three: the second node then has ranks of both groups.
    assert_eq!([8, 4, 3].map(first_forward), [50, 50, 100]);
}
