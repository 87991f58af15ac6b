//! What ZeRO-2 with a pipeline, which the run file's reader refuses, would cost in a run.

use pipezero_config::{CombinationTable, ReductionPolicy, ResidencyConfig, Run, UnitLayers, ZeroLevel};

use super::price::{as_zero_1, row, without_pipeline};
use crate::Plan;
use crate::vocabulary::built;

/// ZeRO-2 both ways, reduced once and after every micro-batch, beside what is allowed. `None` where the model cannot be
/// built; a row is missing where its combination cannot be planned.
pub(crate) fn costs_of_zero_2(run: &Run) -> Option<CombinationTable> {
    let head_logits = run.vocabulary.head_logits.unwrap_or_default();
    let (_, model) = built(run, head_logits).ok()?;
    let (pipeline, data) = (run.parallel.pipeline, run.parallel.data);
    let grid = format!("pipeline {pipeline} x data {data}");
    let forecast = |change: fn(&mut Run)| {
        let mut run = run.clone();
        change(&mut run);
        Some(Plan::planned(run, model.clone()).ok()?.forecast())
    };
    // Reduced once, ZeRO-2 has the buffers and the program of ZeRO-1: one plan is the price of both.
    let zero_1 = forecast(as_zero_1);
    let combinations = [
        (format!("refused: ZeRO-2, {grid}, reduced once per step"), zero_1.clone()),
        (format!("refused: ZeRO-2, {grid}, reduced every micro-batch"), forecast(|_| ())),
        (format!("ZeRO-1, {grid}"), zero_1),
        (format!("ZeRO-3, {grid}, units of {}", name_of_units(run)), forecast(as_zero_3)),
        (format!("ZeRO-2, pipeline 1 x data {}", pipeline * data), forecast(without_pipeline)),
    ];
    let rows = combinations.into_iter().filter_map(|(name, ranks)| Some(row(name, &ranks?)));
    Some(CombinationTable { rows: rows.collect() })
}

/// ZeRO-3 in units, of which a rank has several wherever the model allows it.
fn as_zero_3(run: &mut Run) {
    run.zero.level = ZeroLevel::Zero3;
    run.zero.reduce = ReductionPolicy::Every;
    run.zero.unit_layers = several_units(run);
    if matches!(run.zero.resident_units, ResidencyConfig::Level | ResidencyConfig::Auto) {
        run.zero.resident_units = ResidencyConfig::Units(1 + run.zero.prefetch_units);
    }
}

/// The run's own units, or smaller ones where those would hold all of an even stage.
fn several_units(run: &Run) -> UnitLayers {
    let stage_layers = run.model.num_layers() / run.parallel.num_stages().max(1);
    match run.zero.unit_layers {
        UnitLayers::Half => UnitLayers::Half,
        UnitLayers::Blocks(layers) if layers.get() < stage_layers => UnitLayers::Blocks(layers),
        _ if stage_layers > 1 => UnitLayers::ONE,
        own if !run.model.facts().has_halves => own,
        _ => UnitLayers::Half,
    }
}

fn name_of_units(run: &Run) -> String {
    match several_units(run) {
        UnitLayers::Half => "half a layer".to_owned(),
        UnitLayers::ONE => "1 layer".to_owned(),
        UnitLayers::Blocks(layers) => format!("{layers} layers"),
        UnitLayers::Stage => "a stage".to_owned(),
    }
}
