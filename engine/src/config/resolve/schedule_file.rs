//! `parallel.schedule` as `{"file": ...}`: the user's own order, in PyTorch's pipelining CSV.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pipezero_schedule::{ComputeOrder, StageAction, csv_place};

use crate::config::findings::Findings;
use crate::config::notice::Notice;
use crate::config::raw::{RawParallel, RawRun};
use crate::config::resolved::{BatchConfig, ScheduleConfig};
use crate::files::order::{NAME_ONE, order_text};

use super::counted::counted;
use super::grid::Grid;
use super::scheduled::{Scheduled, file_value};

/// Reads the file at `path`, an order for `pipeline` ranks.
pub(super) fn read(
    raw: &RawParallel,
    path: PathBuf,
    pipeline: usize,
    findings: &mut Findings,
) -> Option<Scheduled> {
    let text = match order_text(&path) {
        Ok(text) => text,
        Err(reason) => {
            let repair = format!("relative paths start at the run file's folder; {NAME_ONE}");
            findings.broken(
                &raw.schedule.place,
                file_value(raw),
                format!("`{}` cannot be read: {reason}", tried(&path).display()),
                repair,
            );
            return None;
        }
    };
    let order = match ComputeOrder::from_csv(&text) {
        Ok(order) => order,
        Err(error) => {
            findings.broken(
                &raw.schedule.place,
                file_value(raw),
                format!("it is no schedule: {error}"),
                NAME_ONE,
            );
            return None;
        }
    };
    check_order(raw, &text, &order, pipeline, findings)?;
    let stages = order.placement.ranks().map(|rank| order.placement.stages(rank).count());
    let virtual_stages = stages.max().unwrap_or(1);
    let schedule = ScheduleConfig::File { path, order: Arc::new(order) };
    Some(Scheduled { schedule, virtual_stages })
}

/// The whole path, as a relative one does not say where it begins.
fn tried(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// The rules of a run that need no other section than this one.
fn check_order(
    raw: &RawParallel,
    text: &str,
    order: &ComputeOrder,
    pipeline: usize,
    findings: &mut Findings,
) -> Option<()> {
    let place = &raw.schedule.place;
    let ranks = order.placement.num_ranks();
    if ranks != pipeline {
        let rule = format!("it has {} and `parallel.pipeline` is {pipeline}", counted(ranks, "row"));
        findings.broken(place, file_value(raw), rule, format!("set `parallel.pipeline` to {ranks}"));
        return None;
    }
    if !order.has_backward() {
        let rule = "it has forwards alone, and learns nothing";
        findings.broken(place, file_value(raw), rule, "add the backwards");
        return None;
    }
    if let Some(action) = order.first_descending() {
        let message = format!(
            "it runs backwards of a stage in another order than that of the micro-batches, first at {}, so gradients are \
             added in another order: results are close to those of other schedules, and not bit-identical",
            cell(text, action)
        );
        findings.notices.push(Notice::warning(place, message));
    }
    Some(())
}

/// An action and its cell.
fn cell(text: &str, action: StageAction) -> String {
    let place = csv_place(text, action).expect("an order has only actions of its text");
    format!("`{action}` at {place}")
}

/// What can be said of a file once the batch is known: its micro-batches are those of the run.
pub(super) fn check(raw: &RawRun, grid: &Grid, batch: Option<&BatchConfig>, findings: &mut Findings) {
    let ScheduleConfig::File { order, .. } = &grid.schedule else { return };
    let place = &raw.parallel.schedule.place;
    let in_file = order.num_micro_batches as usize;
    if let Some(batch) = batch.filter(|batch| batch.num_micro_batches != in_file) {
        let rule = format!(
            "it has {} and a step of this run has {}",
            counted(in_file, "micro-batch"),
            batch.num_micro_batches
        );
        let repair = format!("set `gradient_accumulation_steps` to {in_file}");
        findings.broken(place, file_value(&raw.parallel), rule, repair);
    }
}
