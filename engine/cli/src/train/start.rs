//! A run as it starts: its plan, its ranks, its directory.

use std::path::Path;
use std::sync::Arc;

use pipezero_comm::world::World;
use pipezero_config::{Notice, NoticeKind, Resources, RunFile};
use pipezero_measure::trace::TracedSteps;
use pipezero_models::Distillation;
use pipezero_plan::Plan;
use pipezero_run::checkpoint::Checkpoints;
use pipezero_train::{
    Beginning, CopiedTokenizer, FoundDirectory, Input, LargeFiles, RunDir, RunDirError, Teacher, Training,
    TrainingError, compare, origin_of,
};

use super::options::RunOptions;
use super::words::{say_where_it_goes_on, where_it_starts};
use crate::failure::Failure;
use crate::frozen_weights::{are_drawn, new_ones_are_frozen};
use crate::initial_weights;
use crate::loaded_weights;
use crate::output::ProcessOutput;
use crate::run_args::{PlannedData, plan_with_data_of};
use crate::terminal;
use crate::unread_weights::unread_weights;
use crate::unused_parts::unused_parts;

impl RunOptions {
    /// The run file; if the run is resumed, its steps keep as many sequences as they had.
    pub(super) fn keeping_batch(&self, file: &RunFile) -> RunFile {
        let batch = self.resume.then(|| Training::batch_of_checkpoint(&self.out, self.step)).flatten();
        match batch {
            Some(batch) => file.clone().keeping_batch(batch),
            None => file.clone(),
        }
    }

    /// The plan of the run, which may learn from a teacher's logits too, and what is to be said of the file.
    pub(super) fn planned(
        &self,
        file: &RunFile,
        resources: Resources,
        distillation: Option<Distillation>,
    ) -> Result<(Plan, Vec<Notice>), Failure> {
        let PlannedData { plan, mut notices, .. } = plan_with_data_of(file, resources, distillation)?;
        if !self.goes_on() {
            if self.init == file.initial_weights() {
                notices.extend(initial_weights::check(&plan, file)?);
            }
            notices.extend(unused_parts(&plan, file, self.init.as_deref()));
        }
        // The weights of a run that goes on are those of its checkpoint.
        if self.init.is_none() && !self.resume {
            notices.extend(unread_weights(file));
            notices.extend(initial_weights::new_to_nothing(file, NoticeKind::Warning));
            notices.extend(are_drawn(&plan, file, self.engine.as_deref()));
        } else if !self.resume {
            notices.extend(new_ones_are_frozen(&plan, file));
        }
        Ok((plan, notices))
    }

    /// Starts the ranks, with the state that the run begins with.
    pub(super) fn start(
        &self,
        plan: Plan,
        world: Arc<dyn World>,
        traced: Option<TracedSteps>,
        teacher: Option<Teacher>,
        output: ProcessOutput,
    ) -> Result<Training, TrainingError> {
        let mut words = where_it_starts(&plan);
        let begins = &mut |begins| words(begins).into_iter().for_each(|line| output.note(line));
        let beginning = match &self.init {
            // A task says its weights every time; those of a run that goes on are its checkpoint's.
            Some(path) if !self.goes_on() => Beginning::Weights(path),
            _ if self.resume => Beginning::Checkpoint { directory: &self.out, step: self.step },
            _ => Beginning::Drawn,
        };
        compare(&*world, &self.said(), &LargeFiles::default(), &mut |_, _| ())?;
        let mut training = Training::beginning(plan, world, beginning, teacher, begins)?;
        loaded_weights::say(output, training.loaded_weights());
        if self.resume {
            say_where_it_goes_on(output, training.resumed(), &self.out);
        }
        if let Some(steps) = traced {
            training = training.traced(steps);
        }
        if let Some(folder) = self.rescue.clone() {
            training = training.rescued_to(folder);
        }
        Ok(training)
    }

    /// Options of the command line that must be the same for all processes. Weights and checkpoints are compared by their contents.
    fn said(&self) -> Vec<Input> {
        let yes = |is_given: bool| if is_given { "given" } else { "not given" };
        let or_none = |value: Option<String>| value.unwrap_or_else(|| yes(false).to_owned());
        let traced = self.trace_steps.as_ref().map(ToString::to_string);
        vec![
            Input::said("--out", self.out.display()),
            Input::said("--overwrite", yes(self.overwrite)),
            Input::said("--resume", yes(self.resume)),
            Input::said("--step", or_none(self.step.map(|step| step.to_string()))),
            Input::said(self.init_is_from.trim_end(), yes(self.init.is_some())),
            Input::said("--rescue", or_none(self.rescue.as_ref().map(|path| path.display().to_string()))),
            Input::said("--trace", yes(self.trace)),
            Input::said("--trace-steps", or_none(traced)),
        ]
    }

    /// Whether the run goes on from a checkpoint that is there.
    pub(super) fn goes_on(&self) -> bool {
        // What is wrong with one is said where it is read.
        let newest = || Checkpoints::of_run(&self.out).newest_before(u64::MAX, &mut Vec::new());
        self.resume && (self.step.is_some() || !matches!(newest(), Ok(None)))
    }

    /// The run directory with the run file in it, made by the process that writes it; `None` in the others.
    pub(super) fn recorded(
        &self,
        earlier: Option<RunDir>,
        file: &RunFile,
        plan: &Plan,
        is_first: bool,
    ) -> Result<Option<RunDir>, RunDirError> {
        let out: &Path = &self.out;
        if !is_first {
            return Ok(None);
        }
        // Read before the directory is replaced that may hold it.
        let tokenizer = CopiedTokenizer::of(&plan.run().data)?;
        let origin = match self.goes_on() {
            true => None,
            false => Some(origin_of(file, plan.run(), self.init.as_deref())?),
        };
        let directory = earlier.map_or_else(|| RunDir::create(out, self.overwrite), Ok)?;
        directory.record(&self.with_weights(file), plan, tokenizer.as_ref(), origin.as_ref())?;
        Ok(Some(directory))
    }

    /// The run file, with the weights that the command or a task names: should the run be killed before its first checkpoint, `pipezero resume` begins
    /// with them again.
    fn with_weights(&self, file: &RunFile) -> RunFile {
        let named = self.init.as_ref().filter(|named| file.initial_weights().as_ref() != Some(named));
        let from = named.and_then(|named| std::path::absolute(named).ok());
        let set = from.and_then(|from| file.clone().set(&[format!("init.from={}", from.display())]).ok());
        set.unwrap_or_else(|| file.clone())
    }

    /// The run directory of this process: that of rank 0, or one of its own host.
    pub(super) fn directory(
        &self,
        training: &mut Training,
        recorded: Result<Option<RunDir>, RunDirError>,
        output: ProcessOutput,
    ) -> Result<RunDir, TrainingError> {
        let recorded = recorded.map_err(TrainingError::from);
        let FoundDirectory { directory, apart } =
            training.find_directory(recorded, &self.out, self.claim())?;
        if !apart.is_empty() {
            output.note(terminal::fitted(&format!(
                "the run directory {} is on a disk that {} not see: each of these hosts keeps checkpoints and logs in a folder of that name of its own",
                self.out.display(),
                match &apart[..] {
                    [host] => format!("host {host} does"),
                    hosts => format!("hosts {} do", hosts.join(", ")),
                }
            )));
        }
        Ok(directory)
    }
}
