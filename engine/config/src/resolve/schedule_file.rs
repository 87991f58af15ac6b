//! `parallel.schedule` as `{"file": ...}`: the user's own order, in PyTorch's pipelining CSV.

use std::path::Path;

use pipezero_files::json::shorten;
use pipezero_schedule::{ComputeOrder, csv_place};

use crate::order::{NAME_ONE, order_text};
use crate::raw::{RawParallel, RawRun};
use crate::resolved::{BatchConfig, ParallelConfig, ScheduleConfig};
use crate::schedule_name::ScheduleName;

use super::counted::counted;
use super::limits::MAX_PIPELINE;

/// How messages name the file that is to be the schedule.
pub(super) fn file_value(raw: &RawParallel) -> String {
    match raw.schedule.given() {
        Some(ScheduleName::File(file)) => format!("file \"{}\"", shorten(&file)),
        _ => "a file".to_owned(),
    }
}

/// Reads the file at `path`, an order for `pipeline` ranks, and checks the rules that need no other section than this one.
pub(super) fn read(raw: &RawParallel, path: &Path, pipeline: usize) -> Option<ComputeOrder> {
    let field = &raw.schedule;
    let text = match order_text(path) {
        Ok(text) => text,
        Err(reason) => {
            // The whole path, as a relative one does not say where it begins.
            let tried = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
            let rule = format!("`{}` cannot be read: {reason}", tried.display());
            let repair = format!("relative paths start at the run file's folder; {NAME_ONE}");
            return field.broken(file_value(raw), rule, repair);
        }
    };
    let rows = text.lines().filter(|line| !line.trim().is_empty()).count();
    if rows > MAX_PIPELINE {
        let rule = format!(
            "it has {rows} rows, and a pipeline has at most {MAX_PIPELINE} ranks, so that a plan takes seconds"
        );
        return field.broken(file_value(raw), rule, "use fewer");
    }
    let order = match ComputeOrder::from_csv(&text) {
        Ok(order) => order,
        Err(error) => return field.broken(file_value(raw), format!("it is no schedule: {error}"), NAME_ONE),
    };
    let ranks = order.placement.num_ranks();
    if ranks != pipeline {
        let rule = format!("it has {} and `parallel.pipeline` is {pipeline}", counted(ranks, "row"));
        return field.broken(file_value(raw), rule, format!("set `parallel.pipeline` to {ranks}"));
    }
    if !order.has_backward() {
        let rule = "it has no backwards, so the model would learn nothing";
        return field.broken(file_value(raw), rule, "add the backwards");
    }
    if let Some(action) = order.first_descending() {
        let place = csv_place(&text, action).expect("an order has only actions of its text");
        field.site.warn(format!(
            "it runs backwards of a stage in another order than that of the micro-batches, first at `{action}` at {place}, \
             so gradients are added in another order: results are close to those of other schedules, and not bit-identical"
        ));
    }
    Some(order)
}

/// What can be said of a file once the batch is known: its micro-batches are those of the run.
pub(super) fn check(raw: &RawRun, grid: &ParallelConfig, batch: Option<&BatchConfig>) {
    let ScheduleConfig::File { order, .. } = &grid.schedule else { return };
    let in_file = order.num_micro_batches as usize;
    if let Some(batch) = batch.filter(|batch| batch.num_micro_batches != in_file) {
        let (in_file_text, in_run) = (counted(in_file, "micro-batch"), batch.num_micro_batches);
        let rule = format!("it has {in_file_text} and a step of this run has {in_run}");
        let repair = format!("set `gradient_accumulation_steps` to {in_file}");
        raw.parallel.schedule.broken::<()>(file_value(&raw.parallel), rule, repair);
    }
}
