//! Ranks that are alike and share nothing: what the longest-path pass says, bit for bit, on every data rank.

use std::num::NonZeroU32;
use std::vec::Vec;

use super::draw::Draw;
use crate::check::CheckedProgram;
use crate::simulate::cluster::{self, Cluster, Computes, Cores, Duplex, Jitter, Ratio, Sharing};
use crate::simulate::{Costs, simulate};
use crate::testing::{all_programs, generated_programs};

/// Clusters in which nothing is shared and all are alike, described in several ways.
fn alike(data_degree: u32, program: &CheckedProgram, costs: &Costs) -> [Cluster; 3] {
    let world_size = data_degree * program.num_ranks() as u32;
    let plain = Cluster::alike(data_degree);
    let explicit = Cluster {
        ranks_per_node: NonZeroU32::new(2),
        far_edges: Some(costs.edges.clone()),
        slowdown: Ratio::new(7, 7),
        speeds: (0..world_size).map(|rank| (rank, Ratio::new(3, 3))).collect(),
        jitter: Some(Jitter { seed: 5, share: Ratio::new(0, 9) }),
        cores: Some(Cores { ranks_per_host: 3, num_cores: 3, computes: Computes::OccupyCores }),
        ..plain.clone()
    };
    // Every rank is a node, and has no other messages near.
    let near = Cluster { sharing: Sharing::NodePort(Duplex::Half), ranks_per_node: None, ..plain.clone() };
    [plain, explicit, near]
}

#[test]
fn every_small_program_takes_what_one_data_rank_takes() {
    let small = all_programs(3, 3, 2).map(|program| CheckedProgram::new(program).unwrap());
    let (mut num_programs, mut num_instructions) = (0, 0);
    for (seed, program) in small.chain(generated_programs()).enumerate() {
        let costs = Draw::new(seed as u64).costs(&program);
        let expected = simulate(&program, &costs).unwrap();
        for (data_degree, cluster) in (1..=3).flat_map(|d| alike(d, &program, &costs).map(|of| (d, of))) {
            let played = cluster::simulate(&program, &costs, &cluster).unwrap();
            assert_eq!(played.by_data_rank().len(), data_degree as usize);
            for timeline in played.by_data_rank() {
                let options = program.options();
                assert_eq!(timeline, &expected, "seed {seed}, {cluster:?}, {costs:?}, {options:?}");
            }
            assert_eq!(played.makespan(), expected.makespan());
            assert_eq!(played.longest_rank_span(&program), expected.longest_rank_span(&program));
            assert_eq!(played.clone().into_by_data_rank(), played.by_data_rank());
        }
        num_instructions += program.program().rows.iter().map(Vec::len).sum::<usize>();
        num_programs += 1;
    }
    assert!(num_programs > 3500 && num_instructions > 150_000, "{num_programs}, {num_instructions}");
}
