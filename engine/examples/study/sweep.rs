//! Longer micro-batches: how what ZeRO-3 costs beyond ZeRO-1 shrinks with the tokens that a gather hides behind.

use std::error::Error;

use pipezero::config::Checkpointing;
use pipezero::plan::Plan;

use crate::case::{DATA_DEGREES, Placed, SEQ_LENGTH};
use crate::markdown::{Table, signed_percent};
use crate::outcome;
use crate::variant::{self, Variant};

/// Sequences of a micro-batch.
const SEQUENCES: [usize; 5] = [1, 2, 4, 8, 16];

/// What is held against ZeRO-1 with a pipeline.
const VARIANTS: [Variant; 4] =
    [variant::PREFETCH, variant::RESIDENT, variant::REDUCE_LAST, variant::UNITS_OF_ONE];

/// By how much a step is longer than with ZeRO-1, in percent, every link far and every layer recomputed, since without that
/// long micro-batches do not fit.
pub(crate) fn sweep() -> Result<Table, Box<dyn Error>> {
    let lengths = SEQUENCES.map(|sequences| format!("{} tokens", sequences * SEQ_LENGTH));
    let mut table = Table::new(&format!("% longer than ZeRO-1 + PP | {}", lengths.join(" | ")));
    for data in DATA_DEGREES {
        let of = |variant: &Variant| steps(variant, data);
        let zero_1 = of(&variant::ZERO_1)?;
        for variant in VARIANTS {
            let longer = of(&variant)?.into_iter().zip(&zero_1);
            let cells = longer.map(|(step, least)| signed_percent(step / least - 1.0));
            table.push([format!("{data} DP, {}", variant.name)].into_iter().chain(cells));
        }
    }
    Ok(table)
}

/// Step times, by [`SEQUENCES`].
fn steps(variant: &Variant, data: usize) -> Result<Vec<f64>, Box<dyn Error>> {
    let step = |sequences: usize| {
        let mut run = variant.run(data);
        run.batch.micro_batch_size *= sequences;
        run.batch.train_batch_size *= sequences;
        run.checkpointing = Checkpointing::Layers(1);
        Ok(outcome::step(&Plan::new(run)?, Placed::Apart)?.step_s())
    };
    SEQUENCES.into_iter().map(step).collect()
}
