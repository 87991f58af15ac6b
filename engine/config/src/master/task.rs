//! The tasks of a master file, and how one of them is chosen.

use std::path::{Path, PathBuf};

use pipezero_files::json::nearest;
use pipezero_models::Distillation;

use super::ranks::{JobRanks, WrittenRanks};
use crate::error::{ConfigError, ConfigErrors, Problem};
use crate::notice::{Notice, NoticeKind};
use crate::place::Place;
use crate::resolved::ParallelConfig;
use crate::resources::PartOfJob;
use crate::several::{MasterProblem, listed};

/// A task: what is done with which engines.
#[derive(Clone, Debug)]
pub struct Task {
    /// Its name.
    pub name: String,
    /// What it does.
    pub kind: TaskKind,
    /// Where its name stands.
    pub(super) place: Place,
    /// The engines that take part: those that are trained first.
    pub(super) engines: Vec<(String, Place)>,
    /// Weights with which engines begin.
    pub(super) inits: Vec<WrittenInit>,
    /// Which ranks of the job engines have, if the file says so.
    pub(super) ranks: Option<WrittenRanks>,
}

/// Weights with which an engine begins in a task.
#[derive(Clone, Debug)]
pub(super) struct WrittenInit {
    pub(super) engine: String,
    pub(super) path: PathBuf,
    /// The place of the path in the master file.
    pub(super) place: Place,
}

/// What a task does.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum TaskKind {
    /// Trains these engines, each for itself.
    Train(Vec<String>),
    /// Trains one engine on what another says of its batches.
    Distill {
        /// The engine that is trained.
        student: String,
        /// The engine whose logits it learns from.
        teacher: String,
        /// What they weigh.
        distillation: Distillation,
    },
}

/// What an engine does in a task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Part<'a> {
    /// It is trained on its own.
    Trains,
    /// It is trained on what another says too.
    Learns(Distillation),
    /// It computes logits of this engine's batches.
    Teaches(&'a str),
}

impl Task {
    /// The engines that take part: those that are trained in the order of the file, then the others.
    pub fn engines(&self) -> Vec<String> {
        self.engines.iter().map(|(name, _)| name.clone()).collect()
    }

    /// A mistake of the task itself.
    pub(super) fn error(&self, problem: MasterProblem) -> ConfigErrors {
        ConfigErrors::of_master(vec![ConfigError::new(self.place.clone(), Problem::Master(problem))])
    }

    /// A mistake where the task names an engine.
    pub fn error_at(&self, engine: &str, problem: MasterProblem) -> ConfigErrors {
        let error = ConfigError::new(self.place_of(engine).clone(), Problem::Master(problem));
        ConfigErrors::of_master(vec![error])
    }

    /// Of each teacher that has no weights in the file: that `train` needs them. They may come with its `--init`, so it is no mistake of the file.
    pub fn warnings(&self) -> Vec<Notice> {
        let TaskKind::Distill { teacher, .. } = &self.kind else { return Vec::new() };
        if self.init_of(teacher).is_some() {
            return Vec::new();
        }
        let problem = MasterProblem::NoWeights { name: teacher.clone() };
        let repair = problem.repair().unwrap_or_default();
        let message = format!("{}; {repair}", problem.message("it"));
        vec![Notice::new(NoticeKind::Warning, self.place_of(teacher), message)]
    }

    /// Where the task names an engine.
    fn place_of(&self, engine: &str) -> &Place {
        let found = self.engines.iter().find(|(name, _)| name == engine);
        found.map(|(_, place)| place).expect("the engine takes part")
    }

    /// The engines that it trains.
    pub fn trained(&self) -> &[String] {
        match &self.kind {
            TaskKind::Train(engines) => engines,
            TaskKind::Distill { student, .. } => std::slice::from_ref(student),
        }
    }

    /// What an engine does; `None` if it takes no part.
    pub fn part_of(&self, engine: &str) -> Option<Part<'_>> {
        match &self.kind {
            TaskKind::Train(engines) => engines.iter().any(|known| known == engine).then_some(Part::Trains),
            TaskKind::Distill { student, distillation, .. } if student == engine => {
                Some(Part::Learns(*distillation))
            }
            TaskKind::Distill { student, teacher, .. } if teacher == engine => Some(Part::Teaches(student)),
            TaskKind::Distill { .. } => None,
        }
    }

    /// The weights with which an engine begins, as the file says.
    pub fn init_of(&self, engine: &str) -> Option<&Path> {
        Some(&self.written_init(engine)?.path)
    }

    fn written_init(&self, engine: &str) -> Option<&WrittenInit> {
        self.inits.iter().find(|init| init.engine == engine)
    }

    /// The mistake that the weights which the file names for an engine are not those of its model.
    ///
    /// # Panics
    /// If it names none.
    pub fn error_at_init(&self, engine: &str, rule: String, repair: String) -> ConfigErrors {
        let place = self.place_of_init(engine);
        let problem = Problem::Rule { value: place.in_quotes(), rule, repair };
        ConfigErrors::of_master(vec![ConfigError::new(place.clone(), problem)])
    }

    /// A hint about the weights which the file names for an engine.
    ///
    /// # Panics
    /// If it names none.
    pub fn hint_at_init(&self, engine: &str, text: String) -> Notice {
        Notice::new(NoticeKind::Hint, self.place_of_init(engine), text)
    }

    fn place_of_init(&self, engine: &str) -> &Place {
        &self.written_init(engine).expect("weights are named for the engine").place
    }

    /// Whether the file says which ranks engines have.
    pub fn says_ranks(&self) -> bool {
        self.ranks.is_some()
    }

    /// Which ranks of the job an engine has, as far as the file says it; `None` where it says nothing of any.
    pub fn part_of_job(&self, engine: &str) -> Option<PartOfJob> {
        let ranks = self.ranks.as_ref()?;
        let own = ranks.of(engine).map(|written| &written.ranks);
        Some(PartOfJob {
            first: own.map_or(0, |own| own.start),
            size: own.map(ExactSizeIterator::len),
            num_ranks: ranks.num_ranks(),
        })
    }

    /// The ranks of all engines, whose grids these are, in a job of as many ranks as a launcher has started, if one has.
    ///
    /// # Errors
    /// Where the file gives an engine another number than its grid has; else where no engine has a rank, or the job has another number of them.
    pub fn job_ranks(
        &self,
        grids: &[(&str, &ParallelConfig)],
        launched: Option<usize>,
    ) -> Result<JobRanks, ConfigErrors> {
        let written = |name: &str| self.ranks.as_ref().and_then(|ranks| ranks.of(name));
        let other_number = |(name, grid): &(&str, &ParallelConfig)| {
            let written = written(name).filter(|written| written.ranks.len() != grid.num_ranks())?;
            let (given, first) = (written.ranks.len(), written.ranks.start);
            let ParallelConfig { pipeline, data, .. } = **grid;
            let problem =
                MasterProblem::OtherNumber { name: (*name).to_owned(), given, first, pipeline, data };
            Some(ConfigError::new(written.place.clone(), Problem::Master(problem)))
        };
        let errors: Vec<ConfigError> = grids.iter().filter_map(other_number).collect();
        if !errors.is_empty() {
            return Err(ConfigErrors::of_master(errors));
        }
        let of_engines = grids.iter().map(|(name, grid)| {
            let first = written(name).map_or(0, |written| written.ranks.start);
            ((*name).to_owned(), first..first + grid.num_ranks())
        });
        let job = JobRanks::new(of_engines.collect(), self.ranks.is_some());
        let Some(ranks) = &self.ranks else { return Ok(job) };
        let needed = job.num_ranks();
        let problem = match (job.unused(), launched) {
            (None, Some(launched)) if launched != needed => MasterProblem::OtherJob { needed, launched },
            (Some(unused), _) => MasterProblem::UnusedRanks { unused },
            (None, _) => return Ok(job),
        };
        Err(ConfigErrors::of_master(vec![ConfigError::new(ranks.place.clone(), Problem::Master(problem))]))
    }
}

/// Why it is not known which task is meant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoTask {
    /// The file has no such task.
    #[error(
        "--task {name}: {file} has no such task; {}its tasks are: {}",
        did_you_mean(name, known),
        list(known)
    )]
    Unknown {
        /// The name.
        name: String,
        /// The file.
        file: String,
        /// The tasks that there are.
        known: Vec<String>,
    },
    /// None was named, and the file has several.
    #[error("{file} has several tasks: name one of them with --task; they are: {}", list(known))]
    Several {
        /// The file.
        file: String,
        /// The tasks that there are.
        known: Vec<String>,
    },
}

fn list(known: &[String]) -> String {
    listed(known.iter().map(String::as_str))
}

fn did_you_mean(name: &str, known: &[String]) -> String {
    let nearest = nearest(name, known.iter().map(String::as_str));
    nearest.map_or_else(String::new, |nearest| format!("did you mean `{nearest}`? "))
}
