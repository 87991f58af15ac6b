//! The parts of an examination, one after the other.

use std::path::Path;
use std::time::Duration;

use super::check::{Check, Part};
use super::clocks::{self, Begun};
use super::report::Report;
use super::team::Team;
use super::{disk, hosts, lanes, memories, parity, steps, steps_rules};
use crate::plan::Plan;
use crate::run::comm::CommError;
use crate::run::engine::EngineError;

/// Examines the machines of a plan's run, whose directory would be `run_dir`; `watch` hears of each part as it begins, and when. Only the process of rank 0 has a
/// report; all processes call it.
///
/// # Errors
/// When the processes cannot be connected, or are not as many as the plan has ranks. All else is in the report.
pub(crate) fn examine(
    plan: &Plan,
    run_dir: &Path,
    watch: &mut dyn FnMut(Part, Duration),
) -> Result<Option<Report>, EngineError> {
    let team = Team::of(plan)?;
    let mut report = Report::new(plan.run());
    let done = Examination { team: &team, plan, report: &mut report, watch }.run(run_dir);
    if let Err(error) = done {
        if !team.is_first() {
            return Err(error.into());
        }
        let check = Check::new(
            Part::Hosts,
            "processes",
            error.to_string(),
            "every process comes to each part in time",
        );
        let repair =
            "see what the processes that are named have printed; one that is slow or frozen prints nothing";
        report.add(Part::Hosts, Duration::ZERO, vec![check.fails_unless(false, repair)]);
    }
    report.checks.sort_by_key(|check| check.part);
    Ok(team.is_first().then_some(report))
}

/// An examination under way.
struct Examination<'a> {
    team: &'a Team,
    plan: &'a Plan,
    report: &'a mut Report,
    watch: &'a mut dyn FnMut(Part, Duration),
}

impl Examination<'_> {
    /// All parts, those first that take little time for sure, so that the run's steps get what is left.
    fn run(mut self, run_dir: &Path) -> Result<(), CommError> {
        let (team, plan) = (self.team, self.plan);
        let processes = self.part(
            Part::Hosts,
            || hosts::look(team, plan),
            |found| [hosts::judge(plan, found), memories::judge(plan, found)].concat(),
        )?;
        // The first has heard of all; the others bound nothing by what they do not know.
        let processes = team.decide(&processes)?;
        self.report.processes = processes.clone();
        let clock = self.part(Part::Clocks, || Begun::now(team), |_| Vec::new())?;
        let lanes = self.part(Part::Lanes, || lanes::look(team, plan, &processes), lanes::judge)?;
        self.report.lanes = Some(lanes);
        let parity = self.part(Part::Parity, || parity::look(team, plan), parity::judge)?;
        self.report.parity = Some(parity);
        let disk =
            self.part(Part::Disk, || disk::look(team, plan, run_dir), |found| disk::judge(plan, found))?;
        self.report.disk = Some(disk);
        let steps = self.part(
            Part::Run,
            || steps::look(team, plan, &processes),
            |found| steps_rules::judge(plan, found),
        )?;
        self.report.steps = Some(steps);
        let clocks = self.part(Part::Clocks, || clock.until_now(team), |found| clocks::judge(found))?;
        self.report.clocks = clocks;
        Ok(())
    }

    /// Looks, and in the first process judges.
    fn part<T>(
        &mut self,
        part: Part,
        look: impl FnOnce() -> Result<T, CommError>,
        judge: impl FnOnce(&T) -> Vec<Check>,
    ) -> Result<T, CommError> {
        let begun = self.team.elapsed();
        (self.watch)(part, begun);
        let found = look()?;
        let checks = if self.team.is_first() { judge(&found) } else { Vec::new() };
        self.report.add(part, self.team.elapsed() - begun, checks);
        Ok(found)
    }
}
