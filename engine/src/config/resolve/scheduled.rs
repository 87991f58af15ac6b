//! A schedule as the run file names it.

use crate::config::kind::Either;
use crate::config::raw::RawParallel;
use crate::config::resolved::ScheduleConfig;
use crate::files::json::shorten;

/// A schedule and v.
#[derive(Clone, Debug)]
pub(super) struct Scheduled {
    pub(super) schedule: ScheduleConfig,
    pub(super) virtual_stages: usize,
}

/// How messages name the file that is to be the schedule.
pub(super) fn file_value(raw: &RawParallel) -> String {
    match raw.schedule.given() {
        Some(Either::Second(file)) => format!("file \"{}\"", shorten(&file.0)),
        _ => "a file".to_owned(),
    }
}
