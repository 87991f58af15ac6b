//! What can go wrong with an engine.

use std::fmt;

use pipezero_comm::CommError;
use pipezero_comm::world::WorldError;
use pipezero_files::host::LimitError;
use pipezero_models::{ElementType, ModelError};
use pipezero_plan::{Bytes, Change, Changes, CountedRanks};

use super::share::{InBytes, InThreads, Share, sum};
use super::shared_memory::SharedMemory;
use super::weights_error::WeightsError;
use crate::checkpoint::CheckpointError;
use crate::executor::{Cause, CauseKind, RankFailure};

/// An error of the engine.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// Ranks stopped.
    #[error("{0}")]
    Stopped(Report),
    /// The engine stopped earlier.
    #[error("the ranks have stopped after an earlier error; start a new engine")]
    AlreadyStopped,
    /// The world has another number of ranks than the plan.
    #[error(
        "the plan has {needed} ranks, and {found} were started: start as many processes as it has ranks (mpirun -n {needed})"
    )]
    WorldSize {
        /// Ranks of the plan.
        needed: usize,
        /// Ranks of the world.
        found: usize,
    },
    /// The plan is for a device that computes in another type than the world's.
    #[error(
        "the run computes in {computed} on a GPU, and {device} does not: set `device` to the device of the ranks"
    )]
    Device {
        /// What layers compute in.
        computed: ElementType,
        /// What people call the device that is there.
        device: String,
    },
    /// This process cannot be connected with the others.
    #[error("the ranks cannot be connected: {0}")]
    Connect(#[from] CommError),
    /// There is no world for the plan.
    #[error(transparent)]
    World(#[from] WorldError),
    /// A rank's thread or thread pool could not be started.
    #[error("rank {rank} cannot be started: {reason}")]
    Start {
        /// The world rank.
        rank: usize,
        /// The system's error.
        reason: String,
    },
    /// The ranks of this host together need more memory than there is on it, or on their device.
    #[error(
        "the run needs {} of memory (ranks: {num_ranks}), but {} is available {memory}{}",
        Bytes(*needed_bytes).distinct(Bytes(*available_bytes))[0],
        Bytes(*available_bytes).distinct(Bytes(*needed_bytes))[0],
        Changes { changes, of: *counted }
    )]
    Memory {
        /// Ranks that share the memory.
        num_ranks: usize,
        /// Their needs together.
        needed_bytes: u64,
        /// What is free of it.
        available_bytes: u64,
        /// Which memory it is.
        memory: SharedMemory,
        /// Changes with which the run fits, the mildest first.
        changes: Vec<Change>,
        /// What of a changed plan counts.
        counted: CountedRanks,
    },
    /// The processes of a host together need more memory than there is on it, or than their control group may have.
    #[error(
        "the {num_processes} processes on host `{host}` together need {} of memory, but {} is available {}; start fewer processes on this host, \
         or make each smaller: `pipezero plan RUN_FILE` shows what a process needs and which settings lower it",
        Bytes(*needed_bytes).distinct(Bytes(*available_bytes))[0],
        Bytes(*available_bytes).distinct(Bytes(*needed_bytes))[0],
        group.as_ref().map_or("on it".to_owned(), |group| format!("to their control group `{group}` (a limit of a container, a service or a batch system)"))
    )]
    MemoryOfProcesses {
        /// The name of the host.
        host: String,
        /// Processes that share the memory.
        num_processes: usize,
        /// Their needs together.
        needed_bytes: u64,
        /// The memory left for them, with what they hold already.
        available_bytes: u64,
        /// The folder of their control group; `None` where the memory is the host's.
        group: Option<String>,
    },
    /// A limit that the system sets to this process leaves less than the plan needs.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// Several engines that are to run at once need more memory than there is on this host, or on a device.
    #[error(
        "the engines together need {} of memory ({}), but {} is available {memory}; name fewer of them in a task, or lower what one needs, \
         as `pipezero plan` of its run file says",
        Bytes(sum(shares)).distinct(Bytes(*available_bytes))[0],
        InBytes(shares),
        Bytes(*available_bytes).distinct(Bytes(sum(shares)))[0]
    )]
    MemoryTogether {
        /// What each of them needs, in bytes.
        shares: Vec<Share>,
        /// What is free of it.
        available_bytes: u64,
        /// Which memory it is.
        memory: SharedMemory,
    },
    /// Several engines that are to run at once need more threads than this process may have.
    #[error(
        "the engines together need {} threads ({}), more than the {max} that the system lets this process have: name fewer of them in a task, \
         lower `threads` where it is above 1, or raise the limit, for example sysctl vm.max_map_count=1000000",
        sum(shares),
        InThreads(shares)
    )]
    ThreadsTogether {
        /// What each of them needs, in threads.
        shares: Vec<Share>,
        /// Threads that the process may have.
        max: usize,
    },
    /// The ranks of this process together need more threads than it may have.
    #[error(
        "{num_ranks} ranks of {threads_per_rank} threads each are more than the {max} threads that the system lets this process have: \
         run fewer ranks (`parallel.pipeline` x `parallel.data`), lower `threads` if it is above 1, or raise the limit, for example \
         sysctl vm.max_map_count=1000000"
    )]
    Threads {
        /// Ranks of this process.
        num_ranks: usize,
        /// Threads of a rank.
        threads_per_rank: usize,
        /// Threads that the process may have.
        max: usize,
    },
    /// The loss or a gradient of a step is infinite or NaN, in another type than fp16; the weights are those before it.
    #[error("step {step}: {what}; no weight was changed; {remedy}")]
    NotFinite {
        /// The step.
        step: u64,
        /// What is not finite, with its rank, unit and layer: where it began.
        what: String,
        /// What can be done about it.
        remedy: &'static str,
    },
    /// Tokens of a step could not be read, or cannot be used; the weights are those before it.
    #[error("step {step}: {what}; no weight was changed")]
    Unread {
        /// The step.
        step: u64,
        /// The rank, the micro-batch and the error of the source.
        what: String,
    },
    /// The loss of an evaluation is infinite or NaN; the weights are as they were.
    #[error("evaluation: {what}; train again at a lower rate")]
    EvaluationNotFinite {
        /// What is not finite, with its rank, unit and layer: where it began.
        what: String,
    },
    /// Tokens of an evaluation could not be read, or cannot be used; the weights are as they were.
    #[error("evaluation, batch {batch}: {what}")]
    UnreadEvaluation {
        /// The batch, from 1.
        batch: u64,
        /// The rank, the micro-batch and the error of the source.
        what: String,
    },
    /// fp16 overflowed at the lowest loss scale.
    #[error(
        "step {step} overflowed in fp16 at a loss scale of {scale}, and the scale may not go lower; set a lower \
         `fp16.min_loss_scale` or learning rate, or use bf16"
    )]
    LossScale {
        /// The step.
        step: u64,
        /// Its scale.
        scale: f64,
    },
    /// No prompt, or more than go through the pipeline at once.
    #[error(
        "{num_prompts} prompts at once: give at least 1 and at most {at_most}, the micro-batches of an evaluation"
    )]
    NumPrompts {
        /// How many there are.
        num_prompts: usize,
        /// How many there may be.
        at_most: usize,
    },
    /// The host has no memory for the logits of a batch.
    #[error("the logits of a batch: {0}")]
    Logits(Box<ModelError>),
    /// Logits of batches of other sizes than the plan's.
    #[error(
        "the room for logits was made for batches of other sizes than those of this engine's plan: make it with `BatchLogits::for_plan`"
    )]
    OtherBatches,
    /// A prompt with a token outside the vocabulary.
    #[error("the prompt has token {token}, but the model knows tokens below vocab_size {vocab_size}")]
    PromptToken {
        /// The token.
        token: u32,
        /// V.
        vocab_size: usize,
    },
    /// A prompt that does not fit.
    #[error(
        "a prompt of {num_tokens} tokens: give at least 1 and at most {seq_length}, the model's sequence"
    )]
    PromptLength {
        /// Tokens of the prompt.
        num_tokens: usize,
        /// Tokens of a sequence.
        seq_length: usize,
    },
    /// No token can be drawn.
    #[error(
        "the logits are not finite: the weights hold, or lead to, infinities or NaN; train again at a lower rate"
    )]
    LogitsNotFinite,
    /// The processes were given other runs.
    #[error(
        "this process was given another run than the process of rank 0: start all of them with the same run file and arguments; `resume` reads the run file in the run directory of \
         its host, so copy that of rank 0's host there"
    )]
    OtherRun,
    /// The engines of joint checkpoints.
    #[error("joint checkpoints are of engines with a name each, but {reason}")]
    JointNames {
        /// Why they are not.
        reason: &'static str,
    },
    /// A plan without training, for an engine that is to train.
    #[error(
        "this plan is for inference alone, without gradients and an optimizer: start it with `Engine::for_inference`, or plan a run that trains"
    )]
    PlanOfInference,
    /// The processes run on CPUs of different kinds.
    #[error(
        "the CPU of this process multiplies with {own}, and that of rank 0's process with {first}: their products would differ in \
         their last bits; start all ranks on CPUs of one kind"
    )]
    OtherInstructions {
        /// Here.
        own: String,
        /// There.
        first: String,
    },
    /// The first stage of the pipeline has read other tokens than the last.
    #[error(
        "step {step}: the first and the last stage of the pipeline have read different tokens, so their processes do not see the same data: a file was changed while \
         the run read it, or a host has another copy; compare the files on all hosts, and go on from a checkpoint before this step"
    )]
    OtherTokens {
        /// The step.
        step: u64,
    },
    /// The processes begin with different states.
    #[error(
        "this process begins with {own}, and the process of rank 0 with {first}: give all of them the same"
    )]
    OtherState {
        /// Here.
        own: String,
        /// There.
        first: String,
    },
    /// Another process failed at what this one did, and says why.
    #[error("another process failed at the same place, and says why")]
    Elsewhere,
    /// A checkpoint could not be written or read; the ranks go on.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// Weights could not be written or read.
    #[error(transparent)]
    Weights(#[from] WeightsError),
}

impl EngineError {
    /// A process that waits for others: one of these has failed and says why, or has ended.
    pub fn of_others(error: CommError) -> Self {
        match error {
            CommError::Interrupted { .. } | CommError::Stopped => Self::Elsewhere,
            error => Self::Connect(error),
        }
    }

    /// Whether every process of a world has the same error.
    pub fn is_of_all(&self) -> bool {
        match self {
            Self::Weights(WeightsError::Unusable(_))
            | Self::Checkpoint(CheckpointError::Unusable(_))
            | Self::WorldSize { .. }
            | Self::OtherTokens { .. }
            | Self::NotFinite { .. }
            | Self::LossScale { .. }
            | Self::EvaluationNotFinite { .. } => true,
            Self::World(error) => error.is_of_all(),
            _ => false,
        }
    }
}

/// Where every rank was when one of them stopped, the cause first.
#[derive(Debug)]
pub struct Report {
    failures: Vec<RankFailure>,
}

impl Report {
    /// From the failures of all ranks.
    pub(super) fn new(mut failures: Vec<RankFailure>) -> Self {
        failures.sort_by_key(|failure| (failure.cause.kind(), failure.rank));
        Self { failures }
    }

    /// The lowest rank that can report for all, if there is one. The others may have reported that a suspended process does not answer, so
    /// such a process reports only if there is no other.
    pub fn speaker(&self) -> Option<usize> {
        let alive = self.failures.iter().filter(|failure| failure.cause.kind().has_answered());
        let was_suspended = |failure: &RankFailure| failure.cause.kind() == CauseKind::Suspended;
        alive.map(|failure| (was_suspended(failure), failure.rank)).min().map(|(_, rank)| rank)
    }

    /// Whether a rank has not said why it stopped: its process may have ended.
    pub fn misses_a_rank(&self) -> bool {
        self.failures.iter().any(|failure| !failure.cause.kind().has_answered())
    }

    /// The first line of the causes.
    pub fn first_cause(&self) -> String {
        self.failures.first().map_or_else(String::new, |failure| line(failure, &failure.cause.to_string()))
    }

    /// The ranks' failures: first those with a cause of their own, then ranks whose processes have ended, ranks that do not answer, and
    /// ranks that waited.
    pub fn failures(&self) -> &[RankFailure] {
        &self.failures
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "all ranks have stopped; the cause comes first")?;
        let mut before = String::new();
        for failure in &self.failures {
            let why = failure.cause.to_string();
            let is_own = matches!(failure.cause.kind(), CauseKind::Failed | CauseKind::DeviceFailed);
            let is_same = is_own && why == before;
            write!(f, "\n  {}", line(failure, if is_same { "the same" } else { &why }))?;
            before = why;
        }
        let timed_out =
            |failure: &RankFailure| matches!(failure.cause.kind(), CauseKind::TimedOut | CauseKind::TooSlow);
        if self.failures.iter().any(timed_out) {
            write!(f, "\n`comm.timeout_s` bounds every wait: if the ranks were only slow, set more seconds")?;
        }
        Ok(())
    }
}

/// A rank, where it was, and why it stopped.
fn line(RankFailure { rank, position, cause }: &RankFailure, why: &str) -> String {
    // A rank of a process that has said nothing may have gone on since.
    let is_unheard = matches!(cause, Cause::Silent | Cause::Ended | Cause::Late { .. });
    let heard = if is_unheard { ", last heard of" } else { "" };
    format!("rank {rank}{heard} at {position}: {why}")
}
