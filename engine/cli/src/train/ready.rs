//! What `train` looks at before its ranks start: its arguments, the run directory, the checkpoint to go on from, the disk.

use std::path::Path;

use pipezero_comm::world::World;
use pipezero_measure::trace::{TracedSteps, TracedStepsError};
use pipezero_plan::Plan;
use pipezero_run::engine::{Engine, EngineError};
use pipezero_train::{
    Claim, Place, RunDir, RunDirError, Training, TrainingError, changed_keys, check_disk_space,
};

use super::options::RunOptions;
use crate::failure::Failure;
use crate::output::ProcessOutput;
use crate::terminal;

/// What was found before the ranks start.
#[derive(Debug, Default)]
pub(super) struct Ready {
    /// Whether the run that is to go on has done all steps.
    pub(super) is_finished: bool,
    /// The directory of the run that goes on, in the process that writes it.
    pub(super) earlier: Option<RunDir>,
    /// The steps to record, if --trace is given.
    pub(super) traced: Option<TracedSteps>,
}

/// Whether a run that is to go on has done all steps, as any process knows that sees its directory.
pub(super) fn is_finished(world: &dyn World, ready: &Ready) -> Result<bool, TrainingError> {
    let mut words = [u64::from(ready.is_finished)];
    world.add_words(&mut words).map_err(EngineError::from)?;
    Ok(words != [0])
}

/// Checks that the ranks of this process fit into its host, and what they write on its disk; a warning where checkpoints may not.
pub(super) fn check_room(plan: &Plan, world: &dyn World, out: &Path) -> Result<Option<String>, Failure> {
    Engine::check_host(plan, world)?;
    Ok(check_disk_space(plan, out)?)
}

/// Steps of a run that has done all.
fn finished_steps(out: &Path, num_steps: u64) -> Option<u64> {
    // A summary that is damaged is written anew.
    let steps = RunDir::of_run_file(out).ok()?.steps_of_finished().ok()??;
    (steps >= num_steps).then_some(steps)
}

impl RunOptions {
    /// What can be found out before the ranks start, by every process; what rank 0 alone writes, by its process.
    pub(super) fn ready(&self, plan: &Plan, is_first: bool) -> Result<Ready, Failure> {
        let out = self.out.as_path();
        let traced = self.traced(plan.run().steps)?;
        // The process of rank 0 alone makes or replaces the folder.
        let place = if is_first { RunDir::check(out, self.claim())? } else { Place::Free };
        if is_first {
            for (link, target) in RunDir::links(out)? {
                let (link, target) = (link.display(), target.display());
                ProcessOutput::of_this()
                    .note(format_args!("{link} is a link: what the run writes there goes to {target}"));
            }
        }
        self.check_rescue(is_first)?;
        if !self.goes_on() {
            self.check_init(plan)?;
        }
        let goes_on = self.resume && self.step.is_none();
        let finished = if goes_on { finished_steps(out, plan.run().steps) } else { None };
        if let Some(steps) = finished {
            let output = ProcessOutput::new(is_first);
            let out = out.display();
            output.note(format_args!("{out} has done all {steps} steps: nothing is left to resume"));
            if let Some(changed) = changed_keys(plan, &self.out) {
                output.note(terminal::fitted(&format!(
                    "warning: these settings differ from those of the last checkpoint and had no effect: {changed}; to train on, set `steps` above {steps}; to train anew, name another folder with --out or use --overwrite"
                )));
            }
            self.tidy(is_first);
            return Ok(Ready { is_finished: true, ..Ready::default() });
        }
        // Locked before its checkpoint is read.
        let earlier = self.resume && place == Place::EarlierRun;
        let earlier = earlier.then(|| RunDir::resume(out)).transpose()?;
        if self.resume {
            Training::check_resumable(out, self.step)?;
        }
        Ok(Ready { is_finished: false, earlier, traced })
    }

    /// Removes what a process that was killed at the run's end had begun to write or to remove. Nothing depends on it, so what cannot be removed stays.
    fn tidy(&self, is_first: bool) {
        if is_first {
            let _ = RunDir::resume(&self.out);
        }
    }

    pub(super) fn claim(&self) -> Claim {
        match (self.overwrite, self.resume) {
            (true, _) => Claim::Replace,
            (_, true) => Claim::GoOn,
            _ => Claim::New,
        }
    }

    /// Refuses a folder for the state of a failed run that is the run directory or lies in it, or is there already.
    fn check_rescue(&self, is_first: bool) -> Result<(), Failure> {
        let out = self.out.as_path();
        let Some(rescue) = &self.rescue else { return Ok(()) };
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        if absolute(rescue).starts_with(absolute(out)) {
            let error = format!(
                "--rescue {} is in the run directory {}: name a folder elsewhere, on another disk if possible",
                rescue.display(),
                out.display()
            );
            return Err(Failure::Input(error.into()));
        }
        if is_first {
            RunDir::check(rescue, Claim::New).map_err(|error| match error {
                RunDirError::Exists { path, .. } => RunDirError::RescueExists { path },
                RunDirError::Unwritable { path, source } => RunDirError::RescueUnwritable { path, source },
                error => error,
            })?;
        }
        Ok(())
    }

    /// Refuses a path that is not there, and weights of another model as far as headers say it, before text is read and the ranks start.
    pub(super) fn check_init(&self, plan: &Plan) -> Result<(), Failure> {
        let Some(path) = &self.init else { return Ok(()) };
        if path.exists() {
            return Ok(Training::check_initial_weights(plan, path).map(drop)?);
        }
        let error = format!(
            "{}{}: there is no such file or folder; name a run directory, its weights.safetensors, a checkpoint's folder, or one of transformers; \
             nothing is downloaded",
            self.init_is_from,
            path.display()
        );
        Err(Failure::Input(error.into()))
    }

    /// The steps to record, if --trace is given.
    fn traced(&self, num_steps: u64) -> Result<Option<TracedSteps>, TracedStepsError> {
        let Some(steps) = &self.trace_steps else {
            return Ok(self.trace.then(|| TracedSteps::of_run(num_steps)));
        };
        steps.check(num_steps)?;
        Ok(Some(steps.clone()))
    }
}
