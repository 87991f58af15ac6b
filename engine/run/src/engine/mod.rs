//! The engine: runs a plan's ranks of this process, one thread for each, and carries out the few commands that users have.

mod batch_logits;
mod check_host;
mod check_run;
mod checkpoint;
mod command;
mod error;
mod failures;
mod host_memory;
mod initial_state;
mod kind;
mod limits;
mod loaded_weights;
mod logits;
mod not_finite;
mod own_weights;
mod probe;
mod ranks;
mod report;
mod save;
mod share;
mod shared;
mod shared_memory;
mod start;
mod state_check;
mod step;
mod threads;
mod together;
mod weights_checksum;
mod weights_error;
mod weights_file;
mod worker;

use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use pipezero_comm::memory::Ledger;
use pipezero_plan::Plan;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use crate::executor::{BatchLogits, batch_layout};
pub use batch_logits::share_logits;
pub use checkpoint::AboutRun;
use checkpoint::Writing;
use command::{Answer, Command};
pub use error::{EngineError, Report};
pub use failures::{gave_up, stopped};
pub use host_memory::{ProcessNeeds, ProcessRow};
pub use initial_state::InitialState;
pub use kind::{EngineKind, Inference, Training};
pub use loaded_weights::LoadedWeights;
pub use own_weights::OwnWeights;
use ranks::Ranks;
pub use report::ProcessReport;
pub use report::{EvalReport, LossPart, MeasuredRank, StepReport};
use save::SaveFile;
pub use share::Share;
pub use shared_memory::SharedMemory;
pub use together::{LogitsHere, Together, check_together};
pub use weights_error::WeightsError;
use weights_file::{Wanted, WeightsFile};

use crate::data::BatchSource;
use crate::executor::RankOutcome;
use crate::optimizer::{LearningRate, LossScaler};
use crate::world::{ClockOffset, Names, RanksOnDevice, RanksOnHosts};

/// Trains, evaluates, saves and loads one model on a grid of ranks; one for [`Inference`] has no gradients, no optimizer, and no methods that need them.
///
/// Every method commands all ranks of this process and returns when all have replied. After an error the ranks have stopped and a new
/// engine is needed, except after [`EngineError::NotFinite`], [`EngineError::Unread`] and [`EngineError::LossScale`], whose step was left out, after
/// [`EngineError::EvaluationNotFinite`] and [`EngineError::UnreadEvaluation`], and after errors of
/// files of weights and checkpoints: the weights are those before it.
#[derive(Debug)]
pub struct Engine<K: EngineKind = Training> {
    kind: PhantomData<K>,
    plan: Arc<Plan>,
    ranks: Ranks,
    /// See [`Engine::peak_flops_per_s`].
    peak_flops_per_s: Option<f64>,
    /// Whether every step is recorded.
    records: bool,
    learning_rate: LearningRate,
    loss_scaler: Option<LossScaler>,
    /// Steps done.
    step: u64,
    /// Steps done that did not overflow.
    update: u64,
    /// Sequences that the steps have read.
    num_samples: u64,
    /// The digests of this process's ranks of the last step, until they are compared with those of the others.
    tokens_digest: u64,
    /// A checkpoint that is not complete yet.
    writing: Option<Writing>,
    /// See [`Engine::loaded_weights`].
    loaded_weights: Option<LoadedWeights>,
}

impl<K: EngineKind> Engine<K> {
    /// What people call the devices that compute.
    pub fn device_name(&self) -> String {
        Names(&self.ranks.devices()).to_string()
    }

    /// The type and the devices of this process that compute: `bf16 on 2 x NVIDIA H100`.
    pub fn computed_in(&self) -> String {
        format!("{} on {}", self.plan.run().precision.name(), self.device_name())
    }

    /// The devices of this process with their ranks.
    pub fn devices(&self) -> Vec<RanksOnDevice> {
        self.ranks.devices()
    }

    /// Ranks on each host of a job, on the last perhaps fewer; `None` where one number does not say it, and where ranks are threads.
    pub fn ranks_per_node(&self) -> Option<usize> {
        self.ranks.on_hosts().and_then(RanksOnHosts::ranks_per_node)
    }

    /// What the devices of this process could compute together in the type of the run, by their data sheets; `None` where one is not known, as a
    /// CPU never is.
    pub fn peak_flops_per_s(&self) -> Option<f64> {
        self.peak_flops_per_s
    }

    /// Whether rank 0 runs in this process, which then writes what the run leaves behind.
    pub fn has_rank_0(&self) -> bool {
        self.ranks.local().contains(&0)
    }

    /// Whether this holds in any process; each gives whether it holds there. The processes also compare what their ranks have read in the last step.
    ///
    /// # Errors
    /// When a rank, or another process, stops; [`EngineError::OtherTokens`] in all of them.
    pub fn in_any_process(&mut self, holds: bool) -> Result<bool, EngineError> {
        let mut words = [u64::from(holds), std::mem::take(&mut self.tokens_digest)];
        self.ranks.together(|world| world.add_words(&mut words))?;
        match words {
            [num_holding, 0] => Ok(num_holding > 0),
            _ => Err(EngineError::OtherTokens { step: self.step }),
        }
    }

    /// What this process did, if no process failed at it.
    ///
    /// # Errors
    /// Its own error; [`EngineError::Elsewhere`] where only others failed; when a rank, or another process, stops.
    pub fn agree<T, E: From<EngineError>>(&mut self, done: Result<T, E>) -> Result<T, E> {
        let failed_anywhere = self.in_any_process(done.is_err());
        let done = done?;
        if failed_anywhere? { Err(EngineError::Elsewhere.into()) } else { Ok(done) }
    }

    /// The plan that runs.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// What the ranks of all processes did, in the process of rank 0; of this process's ranks in the others.
    fn gather_outcomes(
        &mut self,
        clock: ClockOffset,
        outcomes: Vec<RankOutcome>,
    ) -> Result<Vec<ProcessReport>, EngineError> {
        let ranks = outcomes.into_iter().map(|outcome| outcome.report).collect();
        self.gather(ProcessReport { clock, first_rank: self.ranks.local().start, ranks })
    }

    /// What each process gives, in the process of rank 0, in the order of their ranks; the own in the others.
    pub fn gather<T: Serialize + DeserializeOwned>(&mut self, own: T) -> Result<Vec<T>, EngineError> {
        if self.ranks.are_all() {
            return Ok(vec![own]);
        }
        let message = serde_json::to_vec(&own).expect("it has string keys and finite depth");
        let messages = self.ranks.together(|world| world.gather(message))?;
        if messages.is_empty() {
            return Ok(vec![own]);
        }
        let read = |message: Vec<u8>| serde_json::from_slice(&message);
        Ok(messages.into_iter().map(read).collect::<Result<_, _>>().expect("every process runs this program"))
    }

    /// The loss of batch `batch` (from 1) of `source`, without gradients; the weights stay as they are.
    ///
    /// # Errors
    /// When a rank stops; [`EngineError::EvaluationNotFinite`] and [`EngineError::UnreadEvaluation`], after which the ranks go on.
    pub fn eval_batch(
        &mut self,
        source: &Arc<dyn BatchSource>,
        batch: u64,
    ) -> Result<EvalReport, EngineError> {
        self.evaluated(&Command::Evaluate { source: Arc::clone(source), batch }, source, batch)
    }

    /// The loss of a batch without gradients, whatever else is asked for of it.
    fn evaluated(
        &mut self,
        command: &Command,
        source: &Arc<dyn BatchSource>,
        batch: u64,
    ) -> Result<EvalReport, EngineError> {
        let outcomes = self.ranks.ask_for_outcomes(command)?;
        if first(&outcomes).overflowed {
            let unread = outcomes.iter().find_map(|outcome| outcome.unread.clone());
            let read = unread.map_or(Ok(()), |what| Err(EngineError::UnreadEvaluation { batch, what }));
            self.agree(read)?;
            let source = Arc::clone(source);
            let found = self.find_not_finite(&Command::FindInEvaluation { source, batch })?;
            return Err(EngineError::EvaluationNotFinite { what: found.to_string() });
        }
        Ok(EvalReport::new(self.plan.loss_parts(), first(&outcomes)))
    }

    /// Writes the weights to one safetensors file, in the process of rank 0. The other ranks hand them over unit by unit: no more than a
    /// unit is held at once.
    ///
    /// # Errors
    /// When the file cannot be written, [`EngineError::Elsewhere`] where that is so in another process, or a rank stops. The file appears
    /// under its name only when it is complete.
    pub fn save(&mut self, path: &Path) -> Result<(), EngineError> {
        let created = self.has_rank_0().then(|| SaveFile::create(&self.plan, path)).transpose();
        let file = self.agree(created.map_err(EngineError::from))?.map(Arc::new);
        self.ranks.ask(&Command::Save(file.clone()))?;
        let file = file.map(|file| Arc::into_inner(file).expect("ranks drop a command before they answer"));
        let finished = file.map_or(Ok(()), SaveFile::finish);
        self.agree(finished.map_err(EngineError::from))
    }

    /// Reads weights that [`Engine::save`] wrote, on any grid; every rank reads its own part.
    ///
    /// # Errors
    /// When the file cannot be read, is damaged, or belongs to another model; when it has a value that is not finite: other weights must be
    /// read then before the engine is used.
    pub fn load(&mut self, path: &Path) -> Result<(), EngineError> {
        self.load_wanted(path, Wanted::All)
    }

    fn load_wanted(&mut self, path: &Path, wanted: Wanted) -> Result<(), EngineError> {
        let opened = WeightsFile::open(&self.plan, path, wanted);
        let file = Arc::new(self.agree(opened.map_err(EngineError::from))?);
        let begun = Instant::now();
        let answers = self.ranks.ask(&Command::Load(Arc::clone(&file)))?;
        let (mut read, mut unusable) = (Vec::new(), None);
        for answer in answers {
            match answer {
                Answer::Loaded(Ok(of_rank)) => read.push(of_rank),
                Answer::Loaded(Err(value)) => unusable = unusable.into_iter().chain([value]).min(),
                _ => {}
            }
        }
        if let Some(value) = self.first_unusable(unusable)? {
            return Err(WeightsError::Unusable(Box::new(value)).into());
        }
        self.note_loaded(path, &file.stored_types(), &read, begun)
    }

    /// The ledger of a local rank's memory: what its plan counts.
    ///
    /// # Panics
    /// If the rank runs in another process.
    pub fn ledger(&self, rank: usize) -> &Ledger {
        &self.ranks.ledgers(rank).planned
    }

    /// The ledger of what commands between steps hold on a local rank beside that: saving, and reading logits.
    ///
    /// # Panics
    /// If the rank runs in another process.
    pub fn ledger_between_steps(&self, rank: usize) -> &Ledger {
        &self.ranks.ledgers(rank).scratch
    }
}

/// What any of the ranks knows of the whole grid.
fn first(outcomes: &[RankOutcome]) -> &RankOutcome {
    outcomes.first().expect("a process has at least one rank")
}
