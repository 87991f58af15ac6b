//! The parts of an examination, one after the other.

use std::path::Path;
use std::time::Duration;

use pipezero_plan::Plan;
use pipezero_run::engine::EngineError;

use super::check::{Check, Part};
use super::clocks::{self, Begun};
use super::lost::Lost;
use super::report::Report;
use super::team::Team;
use super::{disk, hosts, lanes, memories, parity, steps, steps_rules};

/// Examines the machines of a plan's run, whose directory would be `run_dir`; `watch` hears of each part as it begins, and when. Only the process of rank 0 has a
/// report; all processes call it.
///
/// # Errors
/// When the processes cannot be connected, or are not as many as the plan has ranks; in other processes than the first, when one is lost. All else
/// is in the report.
pub fn examine(
    plan: &Plan,
    run_dir: &Path,
    watch: &mut dyn FnMut(Part, Duration),
) -> Result<Option<Report>, EngineError> {
    let team = Team::of(plan)?;
    let mut report = Report::new(plan.run());
    let done = Examination { team: &team, plan, report: &mut report, watch }.run(run_dir);
    if let Err((part, lost)) = done {
        let stopped = lost.stop(team.world());
        if !team.is_first() {
            return Err(EngineError::Stopped(stopped));
        }
        let rule = "every process comes to each part in time";
        let check = Check::new(part, "processes", stopped.first_cause(), rule).fails_unless(
            false,
            "see what the process that is named has printed, and what the system's log says of its end; one that is slow or frozen prints nothing",
        );
        report.add(part, Duration::ZERO, vec![check]);
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
    fn run(mut self, run_dir: &Path) -> Result<(), (Part, Lost)> {
        let (team, plan) = (self.team, self.plan);
        let processes = self.part(
            Part::Hosts,
            || hosts::look(team, plan),
            |found| {
                let places = hosts::places(plan, team.world());
                [hosts::judge(plan, found), places, memories::judge(plan, found)].concat()
            },
        )?;
        // The first has heard of all; the others bound nothing by what they do not know.
        let processes = team.decide(&processes).map_err(|error| (Part::Hosts, error.into()))?;
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
    fn part<T, E: Into<Lost>>(
        &mut self,
        part: Part,
        look: impl FnOnce() -> Result<T, E>,
        judge: impl FnOnce(&T) -> Vec<Check>,
    ) -> Result<T, (Part, Lost)> {
        let begun = self.team.elapsed();
        (self.watch)(part, begun);
        let found = look().map_err(|error| (part, error.into()))?;
        let checks = if self.team.is_first() { judge(&found) } else { Vec::new() };
        self.report.add(part, self.team.elapsed() - begun, checks);
        Ok(found)
    }
}
