//! Invalid clusters, each broken in one way, and their errors.

use std::collections::BTreeMap;
use std::string::ToString;

use expect_test::{Expect, expect};

use crate::check::CheckedProgram;
use crate::generate::one_f_one_b;
use crate::options::LowerOptions;
use crate::simulate::cluster::{self, Cluster, ClusterError, Computes, Cores, Jitter, Ratio};
use crate::simulate::{Costs, CostsError, MessageCost, UnitCosts};
use crate::testing::checked;

fn program() -> CheckedProgram {
    let order = one_f_one_b(2, 2).unwrap();
    checked(&order, 1, &LowerOptions::ZERO_1)
}

fn costs() -> Costs {
    Costs::uniform(&program(), UnitCosts::of_compute(3, 2, 2), MessageCost::of_link(1, 1))
}

/// Plays a cluster of two data ranks that was changed.
fn error(change: impl FnOnce(&mut Cluster)) -> ClusterError {
    let mut cluster = Cluster::alike(2);
    assert!(cluster::simulate(&program(), &costs(), &cluster).is_ok());
    change(&mut cluster);
    cluster::simulate(&program(), &costs(), &cluster).unwrap_err()
}

fn check(error: &ClusterError, text: Expect) {
    text.assert_eq(&error.to_string());
}

#[test]
fn broken_clusters_say_value_rule_and_repair() {
    check(
        &error(|cluster| cluster.data_degree = 0),
        expect!["0 data ranks: every pipeline rank has at least one; give 1 or more"],
    );
    check(
        &error(|cluster| cluster.data_degree = u32::MAX),
        expect![
            "103079215080 instructions of all ranks: at most 268435456 are played; give fewer data ranks or micro-batches"
        ],
    );
    check(
        &error(|cluster| cluster.far_edges = Some([].into())),
        expect![
            "far costs of 0 edges for a program of 2: give two for each pair of neighbouring stages, up and down"
        ],
    );
    check(
        &error(|cluster| cluster.slowdown = Ratio::new(19, 20)),
        expect!["a slowdown of 19/20: computes take at least as long beside a message; give 1/1 or more"],
    );
    assert_eq!(
        error(|cluster| cluster.slowdown = Ratio::new(1, 0)),
        ClusterError::Slowdown(Ratio::new(1, 0))
    );
    check(
        &error(|cluster| cluster.speeds = BTreeMap::from([(3, Ratio::new(0, 5))])),
        expect!["rank 3 has a speed of 0/5: it would never end; give a positive quotient"],
    );
    let speed = Ratio::new(5, 0);
    assert_eq!(
        error(|cluster| cluster.speeds = BTreeMap::from([(3, speed)])),
        ClusterError::Speed { rank: 3, speed }
    );
    check(
        &error(|cluster| cluster.speeds = BTreeMap::from([(3, Ratio::ONE), (4, Ratio::ONE)])),
        expect![
            "a speed for rank 4 in a cluster of 4 ranks: ranks count from 0, data ranks innermost; name one below 4"
        ],
    );
    check(
        &error(|cluster| cluster.jitter = Some(Jitter { seed: 0, share: Ratio::new(1, 0) })),
        expect!["a jitter of 1/0: nothing is a share of 0 parts; give a quotient, 0/1 for none"],
    );
    for (ranks_per_host, num_cores) in [(0, 4), (4, 0)] {
        let cores = Cores { ranks_per_host, num_cores, computes: Computes::OccupyCores };
        let expected = ClusterError::EmptyHost { ranks_per_host, num_cores };
        assert_eq!(error(|cluster| cluster.cores = Some(cores)), expected);
    }
    check(
        &ClusterError::EmptyHost { ranks_per_host: 4, num_cores: 0 },
        expect![
            "hosts of 4 ranks and 0 cores: a host has at least one of each; give both, or leave cores out"
        ],
    );
}

#[test]
fn times_that_could_overflow_are_refused() {
    let costs =
        |forward| Costs::uniform(&program(), UnitCosts::of_compute(forward, 0, 0), MessageCost::default());
    let play = |forward, cluster: &Cluster| cluster::simulate(&program(), &costs(forward), cluster);
    let slow = Cluster { speeds: BTreeMap::from([(1, Ratio::new(1, 1000))]), ..Cluster::alike(2) };
    let long = u64::MAX / 8;
    assert!(play(long, &Cluster::alike(2)).is_ok());
    let refused = play(long, &slow).unwrap_err();
    assert!(matches!(refused, ClusterError::TooLong { .. }), "{refused}");
    let crowded = Cores { ranks_per_host: 4, num_cores: 1, computes: Computes::OccupyCores };
    assert!(matches!(
        play(long, &Cluster { cores: Some(crowded), ..Cluster::alike(2) }),
        Err(ClusterError::TooLong { .. })
    ));
    // Just below, everything fits: four forwards a pipeline, the slowest a thousand times as long.
    let fits = u64::MAX / 8 / 1000;
    assert!(play(fits, &slow).unwrap().makespan() > u64::MAX / 8);
    assert_eq!(
        cluster::simulate(&program(), &Costs::default(), &Cluster::alike(2)),
        Err(ClusterError::Costs(CostsError::NumUnits { num_units: 0, expected: 2 }))
    );
}
