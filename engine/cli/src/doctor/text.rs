//! A report of `doctor` as text: a table of its checks, and the whole file.

use pipezero_doctor::{Check, Report, Verdict};
use pipezero_files::printable::printable;
use pipezero_plan::Plan;

use super::sections::{clocks, disk, hosts, lanes, parity, steps};
use crate::figures::counted;
use crate::table::Table;
use crate::terminal;

/// How a report begins.
pub(super) const HEAD: &str = "pipezero doctor ";
/// Columns of the file: lines of text are broken there, tables are not.
const WIDTH: usize = 100;

/// The checks, each in a line, and what they came to.
pub(super) fn summary(report: &Report, width: usize) -> String {
    let mut lines = String::new();
    for check in &report.checks {
        lines += &line(check, width);
    }
    let seconds: f64 = report.seconds.iter().map(|(_, seconds)| seconds).sum();
    let counts =
        [Verdict::Failed, Verdict::Warning, Verdict::Ok].map(|verdict| (report.count(verdict), verdict));
    let counts = counts.map(|(count, verdict)| format!("{count} {verdict}")).join(", ");
    format!("{lines}\n{} in {seconds:.1} s: {counts}\n", counted(report.checks.len(), "check"))
}

/// A check in a line, and what to do below it.
fn line(check: &Check, width: usize) -> String {
    const NAMES: usize = 8 + 2 + 16 + 2;
    let names = format!("{:<8}  {:<16}  ", check.verdict.to_string(), check.part.name());
    let text = format!("{names}{}: {}", check.what, check.value);
    let mut text = terminal::wrapped_after(&text, width, NAMES) + "\n";
    if let Some(repair) = &check.repair {
        let both = format!("{:NAMES$}rule: {}; {repair}", "", check.rule);
        text += &format!("{}\n", terminal::wrapped_after(&both, width, NAMES));
    }
    text
}

/// Everything, in one file.
pub(super) fn whole_text(name: &str, run_file: &str, plan: &Plan, report: &Report) -> String {
    let mut rules = Table::new(["check", "verdict", "rule"]);
    for Check { part, what, verdict, rule, .. } in &report.checks {
        rules.row(format!("{part}: {what}"), [verdict.to_string(), rule.clone()]);
    }
    let mut seconds = Table::new(["part", "seconds"]);
    for (part, took) in &report.seconds {
        seconds.row(part.name(), [format!("{took:.1}")]);
    }
    let resolved = serde_json::to_string_pretty(&report.run).expect("a run has string keys and finite depth");
    let sections = [
        ("Summary", summary(report, WIDTH)),
        ("1. Hosts", hosts(&report.processes)),
        ("2. Groups and lanes", lanes(report.lanes.as_ref())),
        ("3. Parity", parity(report.parity.as_ref())),
        ("4. The run itself", steps(plan, report.steps.as_ref())),
        ("5. Clocks", clocks(&report.clocks)),
        ("6. Disk", disk(report.disk.as_ref())),
        ("7. Rules", format!("{rules}\n{seconds}")),
        ("Run file", run_file.to_owned()),
        ("Resolved run", resolved),
    ];
    let mut text = format!("{HEAD}{} of {name}\n", report.version);
    for (title, body) in sections {
        text += &format!("\n== {title}\n\n{}\n", body.trim_end());
    }
    printable(&text).into_owned()
}
