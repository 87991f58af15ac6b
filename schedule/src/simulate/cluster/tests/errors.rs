//! Invalid clusters, each broken in one way, and their errors.

use std::collections::BTreeMap;
use std::string::{String, ToString};

use expect_test::expect;

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

/// The error of a cluster of two data ranks with one change.
fn error(change: fn(&mut Cluster)) -> String {
    let costs = Costs::uniform(&program(), UnitCosts::of_compute(3, 2, 2), MessageCost::of_link(1, 1));
    let mut cluster = Cluster::alike(2);
    assert!(cluster::simulate(&program(), &costs, &cluster).is_ok());
    change(&mut cluster);
    cluster::simulate(&program(), &costs, &cluster).unwrap_err().to_string()
}

fn cores(ranks_per_host: u32, num_cores: u32) -> Option<Cores> {
    Some(Cores { ranks_per_host, num_cores, computes: Computes::OccupyCores })
}

#[test]
fn broken_clusters_say_value_rule_and_repair() {
    let changes: [fn(&mut Cluster); 11] = [
        |of| of.data_degree = 0,
        |of| of.data_degree = u32::MAX,
        |of| of.far_edges = Some([].into()),
        |of| of.slowdown = Ratio::new(19, 20),
        |of| of.slowdown = Ratio::new(1, 0),
        |of| of.speeds = BTreeMap::from([(3, Ratio::new(0, 5))]),
        |of| of.speeds = BTreeMap::from([(3, Ratio::new(5, 0))]),
        |of| of.speeds = BTreeMap::from([(3, Ratio::ONE), (4, Ratio::ONE)]),
        |of| of.jitter = Some(Jitter { seed: 0, share: Ratio::new(1, 0) }),
        |of| of.cores = cores(0, 4),
        |of| of.cores = cores(4, 0),
    ];
    expect![[r#"
        0 data ranks: every pipeline rank has at least one; give 1 or more
        103079215080 instructions of all ranks: at most 268435456 are played; give fewer data ranks or micro-batches
        far costs of 0 edges for a program of 2: give two for each pair of neighbouring stages, up and down
        a slowdown of 19/20: computes take at least as long beside a message; give 1/1 or more
        a slowdown of 1/0: computes take at least as long beside a message; give 1/1 or more
        rank 3 has a speed of 0/5: it would never end; give a positive quotient
        rank 3 has a speed of 5/0: it would never end; give a positive quotient
        a speed for rank 4 in a cluster of 4 ranks: ranks count from 0, data ranks innermost; name one below 4
        a jitter of 1/0: a quotient cannot divide by 0; give 0/1 for none
        hosts of 0 ranks and 4 cores: a host has at least one of each; give both, or leave cores out
        hosts of 4 ranks and 0 cores: a host has at least one of each; give both, or leave cores out"#]]
    .assert_eq(&changes.map(error).join("\n"));
}

#[test]
fn times_that_could_overflow_are_refused() {
    let costs =
        |forward| Costs::uniform(&program(), UnitCosts::of_compute(forward, 0, 0), MessageCost::default());
    let play = |forward, cluster: &Cluster| cluster::simulate(&program(), &costs(forward), cluster);
    let slow = Cluster { speeds: BTreeMap::from([(1, Ratio::new(1, 1000))]), ..Cluster::alike(2) };
    let long = u64::MAX / 8;
    assert!(play(long, &Cluster::alike(2)).is_ok());
    let crowded = Cluster { cores: cores(4, 1), ..Cluster::alike(2) };
    for cluster in [&slow, &crowded] {
        let refused = play(long, cluster).unwrap_err();
        assert!(matches!(refused, ClusterError::TooLong { .. }), "{refused}");
    }
    // Just below, everything fits: four forwards a pipeline, the slowest a thousand times as long.
    let fits = u64::MAX / 8 / 1000;
    assert!(play(fits, &slow).unwrap().makespan() > u64::MAX / 8);
    let refused = cluster::simulate(&program(), &Costs::default(), &Cluster::alike(2)).unwrap_err();
    assert!(matches!(refused, ClusterError::Costs(CostsError::Length(_))), "{refused}");
}
