//! Ranks that are alike and share nothing: what the longest-path pass says, bit for bit, on every data rank.

use std::num::NonZeroU32;
use std::vec::Vec;

use super::draw::Draw;
use crate::check::CheckedProgram;
use crate::generate::{zb_h1, zb_h2, zb_v};
use crate::lower::lower;
use crate::order::ComputeOrder;
use crate::program::Program;
use crate::simulate::cluster::{self, Cluster, Computes, Cores, Duplex, Jitter, Ratio, Sharing};
use crate::simulate::{Costs, simulate};
use crate::testing::{all_options, all_programs, looped_orders, mixed_units, units};
use crate::unit_facts::UnitFacts;

/// Clusters in which nothing is shared and all are alike, said in many ways.
fn alike(data_degree: u32, program: &CheckedProgram, costs: &Costs) -> Vec<Cluster> {
    let world_size = data_degree * program.num_ranks() as u32;
    let plain = Cluster::alike(data_degree);
    let said = Cluster {
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
    std::vec![plain, said, near]
}

fn assert_is_simulated(program: Program, seed: u64) -> usize {
    let program = CheckedProgram::new(program).unwrap();
    let costs = Draw::new(seed).costs(&program);
    let expected = simulate(&program, &costs).unwrap();
    for data_degree in 1..=3 {
        for cluster in alike(data_degree, &program, &costs) {
            let played = cluster::simulate(&program, &costs, &cluster).unwrap();
            assert_eq!(played.by_data_rank().len(), data_degree as usize);
            for timeline in played.by_data_rank() {
                assert_eq!(
                    timeline,
                    &expected,
                    "seed {seed}, {cluster:?}, {costs:?}, {:?}",
                    program.options()
                );
            }
            assert_eq!(played.makespan(), expected.makespan());
            assert_eq!(played.longest_rank_span(&program), expected.longest_rank_span(&program));
            assert_eq!(played.clone().into_by_data_rank(), played.by_data_rank());
        }
    }
    program.program().rows.iter().map(Vec::len).sum()
}

#[test]
fn every_small_program_takes_what_one_data_rank_takes() {
    let (mut num_programs, mut num_instructions) = (0, 0);
    for (seed, program) in all_programs(3, 3, 2).enumerate() {
        num_instructions += assert_is_simulated(program, seed as u64);
        num_programs += 1;
    }
    assert!(num_programs > 3000 && num_instructions > 100_000, "{num_programs}, {num_instructions}");
}

#[test]
fn so_do_several_stages_on_a_rank_and_split_backwards() {
    let mut seed = 0;
    let mut check = |order: &ComputeOrder, units: fn(u32, u32) -> Vec<UnitFacts>| {
        for options in all_options() {
            seed += 1;
            let units = units(order.placement.num_stages() as u32, 2);
            assert_is_simulated(lower(order, &units, &options).unwrap(), seed);
        }
    };
    for (p, m) in [(1, 2), (2, 3), (3, 4), (2, 5)] {
        looped_orders(p, 2, m).iter().for_each(|order| check(order, mixed_units));
        // Split backwards cannot recompute.
        for generate in [zb_h1, zb_h2, zb_v] {
            check(&generate(p, m).unwrap(), |num_stages, per_stage| units(num_stages, per_stage, true));
        }
    }
    assert!(seed > 300, "{seed}");
}
