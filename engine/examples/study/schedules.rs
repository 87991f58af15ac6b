//! Other orders than 1F1B: which of them go together with gathering units.

use std::error::Error;

use pipezero::config::{Run, ScheduleConfig};
use pipezero::plan::Plan;

use crate::case::{PIPELINE, Placed};
use crate::markdown::{Table, gib};
use crate::outcome;
use crate::variant::{self, Variant};

/// The larger grid, where more than one order fits.
const DATA: usize = 8;
/// Stages of a rank, where an order has several: each is one unit of 4 layers then.
const VIRTUAL_STAGES: usize = 3;

/// A name, stages of a rank, and the order.
fn schedules() -> [(&'static str, usize, ScheduleConfig); 5] {
    [
        ("`1f1b`", 1, ScheduleConfig::OneFOneB),
        ("`zb-h1`", 1, ScheduleConfig::ZbH1),
        ("`gpipe`", 1, ScheduleConfig::GPipe),
        ("`interleaved`, v = 3", VIRTUAL_STAGES, ScheduleConfig::Interleaved { group_size: PIPELINE }),
        ("`bfs`, v = 3", VIRTUAL_STAGES, ScheduleConfig::Bfs),
    ]
}

/// Step times, gathers and peaks of ZeRO-1 and ZeRO-3 under each order.
pub(crate) fn table() -> Result<Table, Box<dyn Error>> {
    let mut table = Table::new(
        "8 DP x 4 PP | ZeRO-1: peak, GiB | nodes of 8, s | far, s | ZeRO-3: gathers | peak, GiB | \
         nodes of 8, s | far, s | reduced last: peak, GiB | far, s",
    );
    for (name, virtual_stages, schedule) in schedules() {
        let changed = |variant: &Variant| {
            let mut run = variant.run(DATA);
            (run.parallel.schedule, run.parallel.virtual_stages) = (schedule.clone(), virtual_stages);
            run
        };
        let [_, peak, near, far] = figures(changed(&variant::ZERO_1))?;
        let [gathers, peak_3, near_3, far_3] = figures(changed(&variant::RESIDENT))?;
        let [_, peak_last, _, far_last] = figures(changed(&variant::REDUCE_LAST))?;
        table.push([name.to_owned(), peak, near, far, gathers, peak_3, near_3, far_3, peak_last, far_last]);
    }
    Ok(table)
}

/// Gathers, peak, and both step times.
fn figures(run: Run) -> Result<[String; 4], Box<dyn Error>> {
    let plan = Plan::new(run)?;
    let needs = outcome::needs(&plan);
    let step_s = |placed| Ok::<_, Box<dyn Error>>(format!("{:.3}", outcome::step(&plan, placed)?.step_s()));
    Ok([
        needs.sent.all_gather.count.to_string(),
        gib(needs.memory.peak),
        step_s(Placed::NodesOfEight)?,
        step_s(Placed::Apart)?,
    ])
}
