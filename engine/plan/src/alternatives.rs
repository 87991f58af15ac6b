//! What would make a run fit: the same run with as little as possible changed.
//!
//! Each change is planned like a run of its own, program and all, so what is said to fit does.

use std::fmt;

use pipezero_config::{
    Checkpointing, HeadLogits, OverlapComm, ReductionPolicy, ResidencyConfig, Run, ScheduleConfig,
    ShardingConfig, UnitLayers, VocabularyConfig, ZeroLevel,
};
use pipezero_models::Model;
use pipezero_schedule::PipelineRank;

use super::refusal::as_zero_1;
use super::{Plan, PlanError};
use crate::Bytes;

/// A change to the run file and what the fullest rank would need with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The keys and their values: `"resident_units": "strict"`.
    pub description: String,
    /// What it then needs.
    pub needs: Needs,
}

/// Peak memory of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Of the fullest rank.
    pub rank_bytes: u64,
    /// Of all ranks; `u64::MAX` where that is more.
    pub world_bytes: u64,
}

/// Whose bytes a message about memory counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountedRanks {
    /// Those of the fullest rank.
    Fullest,
    /// Those of all ranks, which share one memory.
    All,
    /// Those of this many ranks of a larger grid, which share one memory. Which they would be in a changed plan is not known, so each counts as
    /// the fullest.
    Some(usize),
}

impl CountedRanks {
    /// What a plan with these needs takes of the memory.
    pub fn bytes(self, needs: Needs) -> u64 {
        match self {
            Self::Fullest => needs.rank_bytes,
            Self::All => needs.world_bytes,
            Self::Some(num_ranks) => needs.rank_bytes.saturating_mul(num_ranks as u64),
        }
    }
}

/// Changes as the end of a message.
#[derive(Debug)]
pub struct Changes<'a> {
    /// The changes.
    pub changes: &'a [Change],
    /// The ranks whose memory the figures count.
    pub of: CountedRanks,
}

impl fmt::Display for Changes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (more, whose) = match self.of {
            CountedRanks::Fullest => ("more ranks", "on the fullest rank"),
            CountedRanks::All | CountedRanks::Some(_) => {
                ("fewer ranks to a memory", "for these ranks together")
            }
        };
        if self.changes.is_empty() {
            return write!(
                f,
                "; no single change that is tried (to the schedule, ZeRO, its units, recomputation or the micro-batches) makes \
                 it fit: use a smaller model or sequence, or {more}",
            );
        }
        f.write_str(match self.changes.len() {
            1 => "; this makes it fit:",
            _ => "; any one of these makes it fit:",
        })?;
        self.changes.iter().try_for_each(|Change { description, needs }| {
            write!(f, "\n  {description}  ({} {whose})", Bytes(self.of.bytes(*needs)))
        })
    }
}

impl Plan {
    /// Peak memory of its ranks.
    pub fn needs(&self) -> Needs {
        let bytes = self.allocated_bytes();
        Needs { rank_bytes: bytes.iter().copied().max().unwrap_or(0), world_bytes: sum(&bytes) }
    }

    /// Peak memory of some world ranks together; `u64::MAX` where that is more.
    pub fn needed_bytes(&self, ranks: impl IntoIterator<Item = usize>) -> u64 {
        let of_all = self.allocated_bytes();
        ranks.into_iter().fold(0, |sum: u64, rank| sum.saturating_add(of_all[rank]))
    }

    /// As [`changes_that_fit`], for the run of this plan.
    pub fn changes_that_fit(&self, fits: impl Fn(Needs) -> bool) -> Vec<Change> {
        changes_that_fit(&self.asked_run(), &self.model, &fits)
    }

    /// The error that the fullest rank needs more than it has.
    pub(super) fn rank_does_not_fit(&self, limit_bytes: u64) -> PlanError {
        let forecast = self.forecast();
        let fullest = forecast.iter().rev().max_by_key(|rank| rank.memory.peak).expect("a grid has ranks");
        let stages = self.training.placement().stages(PipelineRank(fullest.pipeline_rank as u32));
        PlanError::RankMemory {
            rank: fullest.rank,
            stage: stages.map(|stage| stage.index()).min().unwrap_or(0),
            needs_bytes: fullest.memory.peak,
            limit_bytes,
        }
    }
}

/// Each rank's bytes may be countable and their sum not.
fn sum(bytes: &[u64]) -> u64 {
    bytes.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes))
}

/// Changes to a run with which ranks need what `fits` allows, the mildest first: single
/// ones, or where none suffices, one that is several of them, as few as suffice when the mildest kinds are taken first.
pub fn changes_that_fit(run: &Run, model: &Model, fits: &dyn Fn(Needs) -> bool) -> Vec<Change> {
    let planned = |(description, run): (String, Run)| {
        let plan = Plan::tried(run, model.clone()).ok()?;
        (!plan.is_refused()).then(|| Change { description, needs: plan.needs() })
    };
    let single = candidates(run).into_iter().filter_map(planned);
    let single: Vec<Change> = single.filter(|change| fits(change.needs)).collect();
    if !single.is_empty() {
        return single;
    }
    let mut together = together(run, model).into_iter().filter_map(planned);
    together.find(|change| fits(change.needs)).into_iter().collect()
}

/// A run with changes, and their description.
pub(super) type Changed = (String, Run);

fn changed(run: &Run, description: impl Into<String>, change: impl Fn(&mut Run)) -> Option<Changed> {
    let mut new = run.clone();
    change(&mut new);
    (new != *run).then(|| (description.into(), new))
}

/// The same, of what only ZeRO-3 has.
fn changed_zero_3(run: &Run, description: impl Into<String>, change: impl Fn(&mut Run)) -> Option<Changed> {
    if run.zero.level == ZeroLevel::Zero3 { changed(run, description, change) } else { None }
}

/// Changes that save memory, in the order in which they are offered: checkpoints without a copy, the schedule, what stays gathered and when gradients are
/// reduced, smaller units, ZeRO-3, recomputation, smaller micro-batches.
fn candidates(run: &Run) -> Vec<Changed> {
    let batch = run.batch;
    let sizes = (1..batch.micro_batch_size).rev().filter(|&size| batch.micro_batch_size.is_multiple_of(size));
    // Without prefetching that is the same as fewer resident units.
    let none_prefetched = none_prefetched(run).filter(|_| run.zero.prefetch_units > 0);
    let first = [
        no_copy(run),
        one_f_one_b(run),
        none_persistent(run),
        fewer_resident(run),
        none_prefetched,
        reduce_every(run),
        one_gradient_buffer(run),
    ];
    first
        .into_iter()
        .chain([
            half_units(run),
            more_slices(run),
            auto_sharding(run),
            zero_3(run),
            zero_1(run),
            recomputed_logits(run),
            recomputation(run),
        ])
        .flatten()
        .chain(sizes.filter_map(|size| micro_batches_of(run, size)))
        .collect()
}

/// The strongest change of each kind, every entry with those before it.
fn together(run: &Run, model: &Model) -> Vec<Changed> {
    let smallest_micro_batches = |run: &Run| micro_batches_of(run, 1);
    let kinds = [
        no_copy,
        one_f_one_b,
        zero_3_without_residency,
        none_persistent,
        none_prefetched,
        reduce_every,
        one_gradient_buffer,
        half_units,
        more_slices,
        recomputation_of_all,
        smallest_micro_batches,
    ];
    let mut all: Vec<Changed> = Vec::new();
    for kind in kinds {
        let (before, run) = all.last().map_or(("", run), |(before, run)| (before.as_str(), run));
        let Some((own, changed)) = kind(run) else { continue };
        // Not every model has halves. A split that does not fit yet may fit with the next change.
        let unbound = Run { memory_bytes: None, ..changed.clone() };
        let is_possible = Plan::with_least_residency(unbound, model.clone(), Plan::planned).is_ok();
        if is_possible {
            let description = if before.is_empty() { own } else { format!("{before}, {own}") };
            all.push((description, changed));
        }
    }
    all
}

/// Checkpoints are written while training waits.
fn no_copy(run: &Run) -> Option<Changed> {
    let change = |run: &mut Run| run.checkpoint.background = false;
    if run.checkpoint.is_copied() {
        changed(run, "\"checkpoint\": {\"background\": false}", change)
    } else {
        None
    }
}

/// The schedule that keeps fewest micro-batches in flight. An interleaved one keeps its stages: one written down may have
/// a `group_size`, which no other schedule takes.
fn one_f_one_b(run: &Run) -> Option<Changed> {
    let description = match run.parallel.schedule {
        ScheduleConfig::GPipe
        | ScheduleConfig::EagerOneFOneB
        | ScheduleConfig::ZbH1
        | ScheduleConfig::ZbH2 => "\"schedule\": \"1f1b\"",
        ScheduleConfig::Bfs | ScheduleConfig::ZbV => "\"schedule\": \"1f1b\", \"virtual_stages\": 1",
        ScheduleConfig::OneFOneB | ScheduleConfig::Interleaved { .. } | ScheduleConfig::File { .. } => {
            return None;
        }
    };
    changed(run, description, |run| {
        run.parallel.schedule = ScheduleConfig::OneFOneB;
        run.parallel.virtual_stages = 1;
    })
}

/// Small parameters are gathered with their units, as all others are.
fn none_persistent(run: &Run) -> Option<Changed> {
    let description = "\"stage3_param_persistence_threshold\": 0";
    changed_zero_3(run, description, |run| run.zero.param_persistence_threshold = 0)
}

/// Gradients are whole for one unit at a time, not for all.
fn reduce_every(run: &Run) -> Option<Changed> {
    changed_zero_3(run, "\"reduce\": \"every\"", |run| run.zero.reduce = ReductionPolicy::Every)
}

/// A gradient is reduced before the next is computed. Left to the plan, it has been tried where there is a `memory` that it was to fit.
fn one_gradient_buffer(run: &Run) -> Option<Changed> {
    let has_two = match run.zero.overlap_comm {
        OverlapComm::True => true,
        OverlapComm::Auto => run.memory_bytes.is_none(),
        OverlapComm::False => false,
    };
    if !has_two || run.zero.reduce != ReductionPolicy::Every {
        return None;
    }
    changed(run, "\"overlap_comm\": false", |run| run.zero.overlap_comm = OverlapComm::False)
}

fn fewer_resident(run: &Run) -> Option<Changed> {
    let least = 1 + run.zero.prefetch_units;
    let change = |run: &mut Run| run.zero.resident_units = ResidencyConfig::Units(least);
    changed_zero_3(run, format!("\"resident_units\": {least}"), change)
}

fn none_prefetched(run: &Run) -> Option<Changed> {
    changed_zero_3(run, "\"resident_units\": 1, \"prefetch_units\": 0", |run| {
        run.zero.resident_units = ResidencyConfig::Units(1);
        run.zero.prefetch_units = 0;
    })
}

/// Changes by which a run that keeps the fewest units resident gathers less at once: none ahead, smaller units, or both; or what is
/// large stays whole.
pub(super) fn smaller_gathers(run: &Run) -> Vec<Changed> {
    let none_ahead = |run: &Run| {
        let (_, run) = none_prefetched(run).filter(|_| run.zero.prefetch_units > 0)?;
        Some(("\"prefetch_units\": 0".to_owned(), run))
    };
    let half = half_units(run);
    let both = half.as_ref().and_then(|(half, run)| {
        let (none_ahead, run) = none_ahead(run)?;
        Some((format!("{half}, {none_ahead}"), run))
    });
    [none_ahead(run), units_of_1_layer(run), half, both, auto_sharding(run)].into_iter().flatten().collect()
}

/// Units of one layer, where larger ones are not what recomputation needs.
fn units_of_1_layer(run: &Run) -> Option<Changed> {
    let is_smaller = matches!(run.zero.unit_layers, UnitLayers::Blocks(layers) if layers.get() > 1)
        || run.zero.unit_layers == UnitLayers::Stage;
    if !is_smaller || matches!(run.checkpointing, Checkpointing::Layers(_)) {
        return None;
    }
    changed_zero_3(run, "\"unit_layers\": 1", |run| run.zero.unit_layers = UnitLayers::ONE)
}

fn half_units(run: &Run) -> Option<Changed> {
    // Recomputation by layers needs units of as many.
    if matches!(run.checkpointing, Checkpointing::Layers(_)) {
        return None;
    }
    changed_zero_3(run, "\"unit_layers\": 0.5", |run| run.zero.unit_layers = UnitLayers::Half)
}

/// ZeRO-3 with the fewest resident units, each key named: below ZeRO-3 the file's own keys were passed over.
fn zero_3(run: &Run) -> Option<Changed> {
    let (description, run) = zero_3_without_residency(run)?;
    Some((format!("{description}, \"prefetch_units\": 1, \"resident_units\": 2"), run))
}

/// The same, where another change says what is gathered when.
fn zero_3_without_residency(run: &Run) -> Option<Changed> {
    if run.zero.level == ZeroLevel::Zero3 || run.parallel.data == 1 {
        return None;
    }
    let description = "\"stage\": 3, \"reduce\": \"every\", \"stage3_param_persistence_threshold\": 0";
    changed(run, description, |run| {
        run.zero.level = ZeroLevel::Zero3;
        run.zero.reduce = ReductionPolicy::Every;
        run.zero.prefetch_units = 1;
        run.zero.resident_units = ResidencyConfig::Units(2);
        run.zero.param_persistence_threshold = 0;
    })
}

/// ZeRO-1, which needs less than a ZeRO-3 that does not pay; `reduce` is named, as the file's own may not suit it.
fn zero_1(run: &Run) -> Option<Changed> {
    changed_zero_3(run, "\"stage\": 1, \"reduce\": \"last\"", as_zero_1)
}

fn recomputation(run: &Run) -> Option<Changed> {
    // Left to the plan, it has been tried where there is a `memory` that it was to fit.
    let is_off = match run.checkpointing {
        Checkpointing::Off => true,
        Checkpointing::Auto => run.memory_bytes.is_none(),
        Checkpointing::Unit | Checkpointing::Layers(_) => false,
    };
    if !is_off {
        return None;
    }
    let change = |run: &mut Run| run.checkpointing = Checkpointing::Unit;
    changed(run, "\"activation_checkpointing\": {\"enabled\": true}", change)
}

/// What is sharded as the plan chooses, where the file lists nothing.
fn auto_sharding(run: &Run) -> Option<Changed> {
    if !run.zero.sharding.rules().is_empty() || run.parallel.data == 1 {
        return None;
    }
    changed_zero_3(run, "\"sharding\": \"auto\"", |run| run.zero.sharding = ShardingConfig::Auto)
}

/// Tables in as many slices as the plan would choose, where the file says how many.
fn more_slices(run: &Run) -> Option<Changed> {
    let VocabularyConfig { num_slices, is_of_caller, .. } = run.vocabulary;
    if num_slices.is_none() || is_of_caller || run.model.gpt().is_none() {
        return None;
    }
    changed_zero_3(run, "\"vocabulary_slices\": \"auto\"", |run| run.vocabulary.num_slices = None)
}

/// Where the file says that they are kept; what it leaves open the plan has tried.
fn recomputed_logits(run: &Run) -> Option<Changed> {
    let VocabularyConfig { head_logits, is_of_caller, .. } = run.vocabulary;
    let splits = run.parallel.schedule.splits_backwards();
    if head_logits != Some(HeadLogits::Keep) || is_of_caller || splits || run.model.gpt().is_none() {
        return None;
    }
    let change = |run: &mut Run| run.vocabulary.head_logits = Some(HeadLogits::Recompute);
    changed(run, "\"activation_checkpointing\": {\"head_logits\": \"recompute\"}", change)
}

/// Of blocks and of logits: both are one key.
fn recomputation_of_all(run: &Run) -> Option<Changed> {
    let Some((logits, run)) = recomputed_logits(run) else { return recomputation(run) };
    let Some((_, run)) = recomputation(&run) else { return Some((logits, run)) };
    let both = "\"activation_checkpointing\": {\"enabled\": true, \"head_logits\": \"recompute\"}";
    Some((both.to_owned(), run))
}

/// A change with more forwards of layers in a step is not tried: each is planned in full, and every divisor of the micro-batch is one.
const TRIED_FORWARDS_MAX: usize = 1 << 16;

/// The same sequences in more micro-batches of `size`, a divisor of what it is.
fn micro_batches_of(run: &Run, size: usize) -> Option<Changed> {
    if matches!(run.parallel.schedule, ScheduleConfig::File { .. }) {
        // The file's micro-batches are the run's.
        return None;
    }
    let batch = run.batch;
    let num_micro_batches = batch.num_micro_batches * (batch.micro_batch_size / size);
    if run.model.num_layers().saturating_mul(num_micro_batches) > TRIED_FORWARDS_MAX {
        return None;
    }
    let description = format!(
        "\"train_micro_batch_size_per_gpu\": {size}, \"gradient_accumulation_steps\": {num_micro_batches}"
    );
    changed(run, description, |run| {
        run.batch.micro_batch_size = size;
        run.batch.num_micro_batches = num_micro_batches;
    })
}
