//! `parallel.schedule` with `virtual_stages` and `group_size`: the order of compute, and how many stages it runs on each
//! rank.

use std::path::Path;

use crate::raw::RawParallel;
use crate::resolved::ScheduleConfig;
use crate::schedule_name::ScheduleName;
use crate::words::ScheduleWord;

use super::schedule_file;

/// A schedule and v.
#[derive(Clone, Debug)]
pub(super) struct Scheduled {
    pub(super) schedule: ScheduleConfig,
    pub(super) virtual_stages: usize,
}

pub(super) fn resolve(raw: &RawParallel, pipeline: Option<usize>, folder: &Path) -> Option<Scheduled> {
    let word = match raw.schedule.or(ScheduleName::Word(ScheduleWord::OneFOneB))? {
        ScheduleName::Word(word) => word,
        ScheduleName::File(file) => {
            no_group_size(raw)?;
            let rule = "a schedule file says itself which stages each rank has";
            raw.virtual_stages.absent(|value| value.to_string(), rule)?;
            let order = schedule_file::read(raw, &folder.join(&file), pipeline?)?;
            let stages = order.placement.ranks().map(|rank| order.placement.stages(rank).count());
            let virtual_stages = stages.max().unwrap_or(1);
            let schedule = ScheduleConfig::File { path: folder.join(&file), order: order.into() };
            return Some(Scheduled { schedule, virtual_stages });
        }
    };
    let (virtual_stages, schedule) = match word {
        ScheduleWord::Interleaved => {
            let virtual_stages = several_stages("\"interleaved\"", "\"1f1b\"", raw);
            let group_size = group_size(raw, pipeline)?;
            return Some(Scheduled {
                schedule: ScheduleConfig::Interleaved { group_size },
                virtual_stages: virtual_stages?,
            });
        }
        ScheduleWord::Bfs => (several_stages("\"bfs\"", "\"gpipe\"", raw), ScheduleConfig::Bfs),
        ScheduleWord::ZbV => (two_stages(raw), ScheduleConfig::ZbV),
        ScheduleWord::GPipe => (one_stage("gpipe", raw), ScheduleConfig::GPipe),
        ScheduleWord::OneFOneB => (one_stage("1f1b", raw), ScheduleConfig::OneFOneB),
        ScheduleWord::EagerOneFOneB => (one_stage("eager-1f1b", raw), ScheduleConfig::EagerOneFOneB),
        ScheduleWord::ZbH1 => (one_stage("zb-h1", raw), ScheduleConfig::ZbH1),
        ScheduleWord::ZbH2 => (one_stage("zb-h2", raw), ScheduleConfig::ZbH2),
    };
    no_group_size(raw)?;
    Some(Scheduled { schedule, virtual_stages: virtual_stages? })
}

/// v of a schedule of one stage per rank.
fn one_stage(name: &str, raw: &RawParallel) -> Option<usize> {
    let value = raw.virtual_stages.at_least_one(raw.virtual_stages.or(1));
    let rule = format!("\"{name}\" runs one stage on each rank");
    raw.virtual_stages.keep(value, |value| value == 1, &rule, "set 1, or use \"interleaved\" or \"bfs\"")
}

/// v of a V, which has a stage of each rank on the way down and one on the way back.
fn two_stages(raw: &RawParallel) -> Option<usize> {
    let value = raw.virtual_stages.at_least_one(raw.virtual_stages.or(2));
    let rule = "\"zb-v\" runs 2 stages on each rank";
    raw.virtual_stages.keep(value, |value| value == 2, rule, "remove it, or set 2")
}

/// v of a schedule that is made for more than one stage per rank, and is `plain` with one.
fn several_stages(name: &str, plain: &str, raw: &RawParallel) -> Option<usize> {
    let rule = format!("{name} runs several stages on each rank");
    let repair = format!("add 2 or more, or use the schedule {plain}");
    let value = raw.virtual_stages.required(&rule, &repair);
    let rule = format!("{name} runs at least 2 stages on each rank");
    let repair = format!("use 2 or more, or the schedule {plain}");
    raw.virtual_stages.keep(value, |value| value >= 2, &rule, &repair)
}

/// Micro-batches of a group; by default as many as there are ranks.
fn group_size(raw: &RawParallel, pipeline: Option<usize>) -> Option<usize> {
    let pipeline = pipeline?;
    let rule = format!(
        "`parallel.pipeline` is {pipeline}: with smaller groups a rank would reach its next stage before the first \
         micro-batch has passed all ranks, and wait for ever"
    );
    let repair = format!("use {pipeline} or more");
    raw.group_size.keep(raw.group_size.or(pipeline), |size| size >= pipeline, &rule, &repair)
}

fn no_group_size(raw: &RawParallel) -> Option<()> {
    raw.group_size.absent(|size| size.to_string(), "only \"interleaved\" runs micro-batches in groups")
}
