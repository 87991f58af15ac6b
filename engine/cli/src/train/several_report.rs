//! The tables at the end of a task: those of each engine, and one of all.

use pipezero_train::EndedRun;

use super::report::report;
use crate::figures::bytes;
use crate::table::Table;

/// What each engine prints alone, below its name.
pub(super) fn reports(ended: &[EndedRun], width: usize) -> String {
    let text = ended.iter().map(|EndedRun { name, learns, summary, elapsed_s }| {
        format!("\nengine {name}\n{}", report(summary, *learns, *elapsed_s, width))
    });
    text.collect()
}

/// A row for each engine.
pub(super) fn table(ended: &[EndedRun], width: usize) -> String {
    let header = ["engine", "steps", "training loss", "validation", "tokens/s", "seconds"];
    let mut table = Table::new(header.into_iter().chain(["fullest rank", "all ranks"]));
    for EndedRun { name, learns, summary, elapsed_s } in ended {
        let nats = |loss: Option<f64>| loss.map_or_else(|| "-".to_owned(), |loss| format!("{loss:.4}"));
        let peaks = || summary.planned.iter().map(|rank| rank.memory.peak);
        let tokens_per_s = learns.then(|| format!("{:.0}", summary.tokens_per_s));
        let cells = [
            summary.steps.to_string(),
            nats(summary.training_loss),
            nats(summary.validation_loss),
            tokens_per_s.unwrap_or_else(|| "-".to_owned()),
            format!("{elapsed_s:.1}"),
            bytes(peaks().max().unwrap_or(0)),
            bytes(peaks().fold(0, u64::saturating_add)),
        ];
        table.row(name, cells);
    }
    format!("\n{table:width$}")
}
