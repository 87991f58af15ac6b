//! Everything at once, against the reference that steps tick by tick.

use std::collections::BTreeMap;

use super::draw::Draw;
use super::naive::Naive;
use crate::id::PipelineRank;
use crate::simulate::cluster::{self, Cluster, Ratio, Sharing};
use crate::simulate::critical_path;

#[test]
fn small_clusters_take_what_they_take_tick_by_tick() {
    let mut num_changed = [0; 4];
    for seed in 0..1500 {
        let mut draw = Draw::new(seed);
        let program = draw.program();
        let (costs, cluster) = (draw.costs(&program), draw.cluster(&program));
        let played = cluster::simulate(&program, &costs, &cluster).unwrap();
        for (rank, expected) in Naive::play(&program, &costs, &cluster).into_iter().enumerate() {
            let (rank, data_rank) = (rank as u32 / cluster.data_degree, rank as u32 % cluster.data_degree);
            let (of, rank) = (&played.by_data_rank()[data_rank as usize], PipelineRank(rank));
            assert!((of.row(rank).to_vec(), of.end(rank)) == expected, "seed {seed}: {cluster:?}, {costs:?}");
        }
        for timeline in played.by_data_rank() {
            for rank in program.ranks() {
                let (busy, bubble) = (timeline.busy(&program, rank), timeline.bubble(&program, rank));
                assert_eq!(busy + bubble.total(), timeline.makespan(), "seed {seed}: {bubble:?}");
            }
            let path = critical_path(&program, &costs, timeline);
            let parts = path.steps().iter().map(|step| step.end - step.start);
            assert_eq!(parts.sum::<u64>(), timeline.makespan(), "seed {seed}: {path:?}");
        }
        // Each rule must have mattered often enough to be held to anything.
        let without = [
            Cluster { sharing: Sharing::Own, ..cluster.clone() },
            Cluster { slowdown: Ratio::ONE, ..cluster.clone() },
            Cluster { cores: None, ..cluster.clone() },
            Cluster { speeds: BTreeMap::new(), jitter: None, ..cluster },
        ];
        for (num_changed, without) in num_changed.iter_mut().zip(without) {
            let is_changed = cluster::simulate(&program, &costs, &without).unwrap() != played;
            *num_changed += usize::from(is_changed);
        }
    }
    assert!(num_changed.iter().all(|&num_changed| num_changed > 250), "{num_changed:?}");
}
