//! What the processes of a job write of the rank that fails: when it failed, and for each other rank its report.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pipezero_run::engine::Report;

use super::{Fault, Kind, NUM_RANKS};

/// In the folder: when the rank failed; a file named by each rank, with its report and when it had it; and an empty file named by each rank that speaks.
pub const FAILED_AT: &str = "failed";
const SPEAKER: &str = "speaker";

/// What a rank has written.
#[derive(Debug)]
pub struct Written {
    /// The rank.
    pub rank: usize,
    /// How long after the fault.
    pub after: Duration,
    /// Its report.
    pub text: String,
    /// Whether it speaks for others.
    pub speaks: bool,
}

/// Nanoseconds by the clock that all processes of the host share.
pub fn now_ns() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_nanos()
}

/// Writes that the rank fails now.
pub fn note_failure(folder: &Path) {
    write_at_once(folder, FAILED_AT, &now_ns().to_string());
}

/// Whole as soon as it is there: a process that sees it may be frozen at that moment.
fn write_at_once(folder: &Path, name: &str, text: &str) {
    let written = folder.join(format!("{name}.part"));
    fs::write(&written, text).expect("a folder");
    fs::rename(written, folder.join(name)).expect("a folder");
}

/// Writes the report that a rank has now.
pub fn write_report(folder: &Path, rank: usize, report: &Report) {
    if report.speaker() == Some(rank) {
        fs::write(folder.join(format!("{SPEAKER}{rank}")), "").expect("a folder");
    }
    write_at_once(folder, &rank.to_string(), &format!("{}\n{report}\n", now_ns()));
}

/// How long after the fault this moment is.
pub fn since_failure(folder: &Path, at_ns: u128) -> Duration {
    let failed_at = fs::read_to_string(folder.join(FAILED_AT)).expect("a rank has failed");
    let since_ns = at_ns.saturating_sub(failed_at.parse().expect("a time"));
    Duration::from_nanos(u64::try_from(since_ns).expect("a test takes less than centuries"))
}

/// The reports that ranks have written, by rank.
pub fn reports_in(folder: &Path) -> Vec<Written> {
    let written = |rank: usize| {
        let report = fs::read_to_string(folder.join(rank.to_string())).ok()?;
        let (reported_at, text) = report.split_once('\n')?;
        let after = since_failure(folder, reported_at.parse().ok()?);
        let speaks = folder.join(format!("{SPEAKER}{rank}")).exists();
        Some(Written { rank, after, text: text.to_owned(), speaks })
    };
    (0..NUM_RANKS).filter_map(written).collect()
}

/// The rank that does not answer is the first that is named, and each other is named once.
///
/// # Panics
/// With the report, if it is another.
pub fn check_report(fault: Fault, report: &str) {
    let why = match fault.kind {
        Kind::Kill => ": does not answer: its process has ended",
        _ => ": does not answer",
    };
    let is_first = report.lines().nth(1).is_some_and(|line| {
        line.starts_with(&format!("  rank {}, last heard of at ", fault.rank)) && line.ends_with(why)
    });
    assert!(is_first, "{fault}:\n{report}");
    assert_eq!(ranks_in(report), Vec::from_iter(0..NUM_RANKS), "{fault}:\n{report}");
    assert_eq!(report.matches("does not answer").count(), 1, "{fault}:\n{report}");
}

/// The ranks that a report names, in ascending order.
pub fn ranks_in(report: &str) -> Vec<usize> {
    let rank_of = |line: &str| line.strip_prefix("  rank ")?.split([' ', ',']).next()?.parse().ok();
    let mut ranks: Vec<usize> = report.lines().filter_map(rank_of).collect();
    ranks.sort_unstable();
    ranks
}
