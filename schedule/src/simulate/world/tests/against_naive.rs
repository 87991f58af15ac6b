//! Everything at once, against the reference that steps tick by tick.

use std::collections::BTreeMap;
use std::vec::Vec;

use super::draw::Draw;
use super::naive::Naive;
use crate::id::PipelineRank;
use crate::simulate::critical_path;
use crate::simulate::world::{self, Ratio, Sharing, World, WorldTimeline};

/// `[rank]`: spans, and when the row had ended.
fn by_rank(played: &WorldTimeline, num_pipeline_ranks: usize) -> super::naive::Played {
    let ranks = (0..num_pipeline_ranks as u32).map(PipelineRank);
    let of = |rank: PipelineRank| {
        played.by_data_rank().iter().map(move |of| (of.row(rank).to_vec(), of.end(rank)))
    };
    ranks.flat_map(of).collect::<Vec<_>>()
}

#[test]
fn small_worlds_take_what_they_take_tick_by_tick() {
    let mut num_changed = [0; 4];
    for seed in 0..1500 {
        let mut draw = Draw::new(seed);
        let program = draw.program();
        let (costs, world) = (draw.costs(&program), draw.world(&program));
        let played = world::simulate(&program, &costs, &world).unwrap();
        let expected = Naive::play(&program, &costs, &world);
        assert!(by_rank(&played, program.num_ranks()) == expected, "seed {seed}: {world:?}, {costs:?}");
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
            World { sharing: Sharing::Own, ..world.clone() },
            World { slowdown: Ratio::ONE, ..world.clone() },
            World { cores: None, ..world.clone() },
            World { speeds: BTreeMap::new(), jitter: None, ..world },
        ];
        for (num_changed, without) in num_changed.iter_mut().zip(without) {
            let is_changed = world::simulate(&program, &costs, &without).unwrap() != played;
            *num_changed += usize::from(is_changed);
        }
    }
    assert!(num_changed.iter().all(|&num_changed| num_changed > 250), "{num_changed:?}");
}
