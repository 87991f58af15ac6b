//! The small family through the engine: the same bits on every grid.

use pipezero_config::{ResidencyConfig, Run, ZeroLevel};
use pipezero_plan::{Plan, RankForecast};
use tests::{
    Case, Family, Mask, assert_as_planned, assert_bit_identical, assert_close, small_run, train, train_plan,
    zero,
};

fn mlp(pipeline: usize, data: usize, tied: bool, level: ZeroLevel) -> Run {
    let zero = zero(level, ResidencyConfig::Units(2), 1);
    let family = Family::Mlp;
    small_run(Case { pipeline, data, num_micro_batches: 3, zero, family, tied, ..Case::ONE_RANK })
}

#[test]
fn every_grid_and_level_gives_the_bits_of_one_pipeline_rank() {
    for tied in [false, true] {
        for data in [1, 2] {
            let accumulated = train(mlp(1, data, tied, ZeroLevel::Zero0), Mask::Uneven);
            let reduced = train(mlp(1, data, tied, ZeroLevel::Zero2), Mask::Uneven);
            for pipeline in [1, 2, 4] {
                for (level, wanted) in [(ZeroLevel::Zero0, &accumulated), (ZeroLevel::Zero3, &reduced)] {
                    let trained = train(mlp(pipeline, data, tied, level), Mask::Uneven);
                    let case = format!("{pipeline} x {data}, {level:?}, tied: {tied}");
                    assert_bit_identical(&trained, wanted, &case);
                }
            }
            // Sums over micro-batches and data ranks in another order; AdamW then divides by the gradient's own size.
            assert_close(&accumulated, &reduced, 1e-4, "the two reduction policies");
        }
    }
}

/// Layers that do not attend are not told where documents begin: a rank neither holds nor reads that, on the stages without an end either.
#[test]
fn documents_take_no_memory() {
    for pipeline in [1, 4] {
        let of = |document_attention| {
            let case = Case { pipeline, num_micro_batches: 3, family: Family::Mlp, ..Case::ONE_RANK };
            let plan =
                Plan::even_if_refused(small_run(Case { document_attention, ..case })).expect("a valid run");
            (plan.forecast(), train_plan(plan, Mask::Uneven))
        };
        let ((planned, trained), (of_rows, rows)) = (of(true), of(false));
        let memory =
            |forecast: &[RankForecast]| -> Vec<_> { forecast.iter().map(|rank| rank.memory).collect() };
        assert_eq!(memory(&planned), memory(&of_rows), "{pipeline} ranks");
        assert_as_planned(&trained.last.measured(), &planned, "a run with documents");
        assert_bit_identical(&trained, &rows, "a run of rows");
    }
}
