//! Everything at once, against the reference that steps tick by tick.

use std::vec::Vec;

use super::draw::Draw;
use super::naive::Naive;
use crate::id::PipelineRank;
use crate::simulate::world::{self, WorldTimeline};

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
    let mut num_ticks = 0;
    for seed in 0..1500 {
        let mut draw = Draw::new(seed);
        let program = draw.program();
        let (costs, world) = (draw.costs(&program), draw.world(&program));
        let played = world::simulate(&program, &costs, &world).unwrap();
        let expected = Naive::play(&program, &costs, &world);
        assert!(by_rank(&played, program.num_ranks()) == expected, "seed {seed}: {world:?}, {costs:?}");
        num_ticks += played.makespan();
    }
    assert!(num_ticks > 100_000, "{num_ticks}");
}
