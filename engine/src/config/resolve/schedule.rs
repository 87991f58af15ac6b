//! `parallel.schedule` with `virtual_stages` and `group_size`: the order of compute, and how many stages it runs on each
//! rank.

use std::path::Path;

use crate::config::findings::Findings;
use crate::config::kind::Either;
use crate::config::raw::RawParallel;
use crate::config::resolved::ScheduleConfig;
use crate::config::words::{ScheduleWord, Unoffered, one_of, refuse};
use crate::files::json::shorten;

use super::rules::at_least_one;
use super::schedule_file;
use super::scheduled::Scheduled;

/// Schedules that the design knows and that are not there yet.
const LATER: Unoffered =
    Unoffered { later: &["zb-1p", "zb-2p", "v-half", "v-min", "dualpipe-v"], never: &[] };

pub(super) fn resolve(
    raw: &RawParallel,
    pipeline: Option<usize>,
    folder: &Path,
    findings: &mut Findings,
) -> Option<Scheduled> {
    let place = &raw.schedule.place;
    match raw.schedule.or(Either::First(ScheduleWord::OneFOneB))? {
        Either::First(ScheduleWord::GPipe) => one_stage(ScheduleConfig::GPipe, "\"gpipe\"", raw, findings),
        Either::First(ScheduleWord::OneFOneB) => {
            one_stage(ScheduleConfig::OneFOneB, "\"1f1b\"", raw, findings)
        }
        Either::First(ScheduleWord::EagerOneFOneB) => {
            one_stage(ScheduleConfig::EagerOneFOneB, "\"eager-1f1b\"", raw, findings)
        }
        Either::First(ScheduleWord::Interleaved) => {
            let virtual_stages = several_stages("\"interleaved\"", "\"1f1b\"", raw, findings);
            let group_size = group_size(raw, pipeline, findings);
            let schedule = ScheduleConfig::Interleaved { group_size: group_size? };
            Some(Scheduled { schedule, virtual_stages: virtual_stages? })
        }
        Either::First(ScheduleWord::Bfs) => {
            let virtual_stages = several_stages("\"bfs\"", "\"gpipe\"", raw, findings);
            no_group_size(raw, findings)?;
            Some(Scheduled { schedule: ScheduleConfig::Bfs, virtual_stages: virtual_stages? })
        }
        Either::First(ScheduleWord::ZbH1) => one_stage(ScheduleConfig::ZbH1, "\"zb-h1\"", raw, findings),
        Either::First(ScheduleWord::ZbH2) => one_stage(ScheduleConfig::ZbH2, "\"zb-h2\"", raw, findings),
        Either::First(ScheduleWord::ZbV) => {
            let virtual_stages = two_stages(raw, findings);
            no_group_size(raw, findings)?;
            Some(Scheduled { schedule: ScheduleConfig::ZbV, virtual_stages: virtual_stages? })
        }
        Either::First(ScheduleWord::Other(word)) if word.contains(['.', '/']) => {
            let word = shorten(&word);
            let rule =
                format!("it must be {}, or an object that names a file", one_of(ScheduleWord::OFFERED));
            findings.broken(place, format!("\"{word}\""), rule, format!("write {{\"file\": \"{word}\"}}"));
            None
        }
        Either::First(ScheduleWord::Other(word)) => {
            refuse(findings, place, &word, ScheduleWord::OFFERED, &LATER);
            None
        }
        Either::Second(file) => {
            no_group_size(raw, findings)?;
            if raw.virtual_stages.is_written() {
                let value = raw.virtual_stages.given()?;
                let rule = "a schedule file says itself which stages each rank has";
                findings.broken(&raw.virtual_stages.place, value, rule, "remove it");
                return None;
            }
            schedule_file::read(raw, folder.join(&file.0), pipeline?, findings)
        }
    }
}

/// A schedule of one stage per rank.
fn one_stage(
    schedule: ScheduleConfig,
    name: &str,
    raw: &RawParallel,
    findings: &mut Findings,
) -> Option<Scheduled> {
    let no_group = no_group_size(raw, findings);
    let value = at_least_one(&raw.virtual_stages, raw.virtual_stages.or(1), findings)?;
    if value > 1 {
        let rule = format!("{name} runs one stage on each rank");
        let repair = "set 1, or use \"interleaved\" or \"bfs\"";
        findings.broken(&raw.virtual_stages.place, value, rule, repair);
        return None;
    }
    no_group?;
    Some(Scheduled { schedule, virtual_stages: 1 })
}

/// v of a V, which has a stage of each rank on the way down and one on the way back.
fn two_stages(raw: &RawParallel, findings: &mut Findings) -> Option<usize> {
    let value = at_least_one(&raw.virtual_stages, raw.virtual_stages.or(2), findings)?;
    if value == 2 {
        return Some(value);
    }
    let rule = "\"zb-v\" runs 2 stages on each rank";
    findings.broken(&raw.virtual_stages.place, value, rule, "remove it, or set 2");
    None
}

/// v of a schedule that is made for more than one stage per rank, and is `plain` with one.
fn several_stages(name: &str, plain: &str, raw: &RawParallel, findings: &mut Findings) -> Option<usize> {
    let field = &raw.virtual_stages;
    let rule = format!("{name} runs several stages on each rank");
    let repair = format!("add 2 or more, or use the schedule {plain}");
    let value = field.required(findings, &rule, &repair)?;
    if value < 2 {
        let rule = format!("{name} runs at least 2 stages on each rank");
        findings.broken(&field.place, value, rule, format!("use 2 or more, or the schedule {plain}"));
        return None;
    }
    Some(value)
}

/// Micro-batches of a group; by default as many as there are ranks.
fn group_size(raw: &RawParallel, pipeline: Option<usize>, findings: &mut Findings) -> Option<usize> {
    let pipeline = pipeline?;
    let size = raw.group_size.or(pipeline)?;
    if size < pipeline {
        let rule = format!(
            "`parallel.pipeline` is {pipeline}: a rank would come to its next stage before the first micro-batch has gone \
             round, and wait for it for ever"
        );
        findings.broken(&raw.group_size.place, size, rule, format!("use {pipeline} or more"));
        return None;
    }
    Some(size)
}

fn no_group_size(raw: &RawParallel, findings: &mut Findings) -> Option<()> {
    let field = &raw.group_size;
    if let Some(size) = field.given() {
        let rule = "only \"interleaved\" runs micro-batches in groups";
        findings.broken(&field.place, size, rule, "remove it");
    }
    (!field.is_written()).then_some(())
}
