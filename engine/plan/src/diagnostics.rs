//! The diagnostics of a plan, which its reader should know beyond its figures: what `"auto"` became, that a split may not be the best, that
//! micro-batches are too few for the pipeline, that units are too large to pay, what persists, that nothing is left to shard,
//! and that more is asked for than there are units.

use pipezero_config::{NoticeKind, ResidencyConfig, ShardingConfig, ShardingRule, ZeroLevel};
use pipezero_partition::UnitSharding;
use pipezero_schedule::Stage;

use super::sharding::InEffect;
use super::{Plan, PlannedUnit, sharding};
use crate::Bytes;

pub(super) const UNIT: &[&str] = &["zero_optimization.unit_layers", "zero_optimization.stage"];
const RESIDENT: &[&str] = &["zero_optimization.resident_units"];
const PREFETCH: &[&str] = &["zero_optimization.prefetch_units"];
const PARTITION: &[&str] = &["parallel.partition"];
const MICRO_BATCHES: &[&str] = &["gradient_accumulation_steps"];
pub(super) const PARAM_THRESHOLD: &[&str] = &["zero_optimization.stage3_param_persistence_threshold"];
pub(super) const PARAMETERS: &[&str] = &["zero_optimization.parameters"];
const HEAD_LOGITS: &[&str] = &["activation_checkpointing.head_logits"];
const SHARDING: &[&str] = &["zero_optimization.sharding"];
/// What says what is sharded, one way or the other.
pub(super) const WHAT_IS_SHARDED: &[&str] = &["zero_optimization.parameters", "zero_optimization.sharding"];
const MODEL_THRESHOLD: &[&str] = &["zero_optimization.stage3_model_persistence_threshold"];

/// A diagnostic of a plan: something that the run file does not say and its author should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// How much it matters.
    pub kind: NoticeKind,
    /// The key of the run file that it is about: the first of these that is written.
    pub keys: &'static [&'static str],
    /// What there is to know, without the key.
    pub text: String,
}

impl Diagnostic {
    pub(super) fn hint(keys: &'static [&'static str], text: String) -> Self {
        Self { kind: NoticeKind::Hint, keys, text }
    }

    pub(super) fn warning(keys: &'static [&'static str], text: String) -> Self {
        Self { kind: NoticeKind::Warning, keys, text }
    }
}

fn units(count: usize) -> String {
    if count == 1 { "1 unit".to_owned() } else { format!("{count} units") }
}

impl Plan {
    /// The plan's diagnostics: what the author of the run file should know.
    pub fn diagnostics(&self) -> Vec<Diagnostic> {
        let mut diagnostics = Vec::new();
        if let Some(limit_bytes) = self.run.memory_bytes {
            diagnostics.extend(self.diagnostics_of_memory(Bytes(limit_bytes)));
        }
        let (micro_batches, pipeline) = (self.run.batch.num_micro_batches, self.grid.pipeline_degree);
        if micro_batches < pipeline {
            let text = format!(
                "a step of {micro_batches} micro-batch{} on {pipeline} pipeline ranks never has work for all of them, and the \
                 bubble is {}% of it; raise `gradient_accumulation_steps` to {pipeline} or more",
                if micro_batches == 1 { "" } else { "es" },
                (100.0 * self.bubble_share()).round() as u32
            );
            diagnostics.push(Diagnostic::warning(MICRO_BATCHES, text));
        }
        if pipeline == 1 && self.lone_unit().is_some() {
            let text = "one unit holds every layer: the whole model is gathered at once, so ZeRO-3 saves no weights at its peak";
            diagnostics.push(Diagnostic::warning(UNIT, text.to_owned()));
        } else {
            diagnostics.extend(self.does_not_pay());
        }
        diagnostics.extend(self.nothing_sharded());
        diagnostics.extend(self.tied_weight_is_in_front());
        if self.is_level_lowered {
            let text = format!(
                "\"level\" is {} here: with more units the {} ranks together would not fit three quarters of this host's memory, {}; \
                 write a number or a list to keep others",
                self.run.zero.resident_units,
                self.grid.world_size(),
                Bytes(self.run.host_memory_bytes.unwrap_or(0))
            );
            diagnostics.push(Diagnostic::hint(RESIDENT, text));
        }
        diagnostics.extend(self.chosen_recomputation());
        diagnostics.extend(self.chosen_overlap());
        diagnostics.extend(self.chosen_sharding_list());
        diagnostics.extend(self.logits_of_own_loss());
        diagnostics.extend(self.nothing_persists());
        diagnostics.extend(self.beyond_units());
        diagnostics
    }

    /// That the run's own list or threshold leaves ZeRO-3 no weights to shard, and what it is then.
    fn nothing_sharded(&self) -> Option<Diagnostic> {
        let persists = |unit: &PlannedUnit| unit.has(UnitSharding::Persistent);
        // The plan does not warn of a list that it made itself. Where all is whole, the comparison with ZeRO-1 says so.
        if self.run.zero.level != ZeroLevel::Zero3
            || self.grid.data_degree == 1
            || self.asked_sharding == ShardingConfig::Auto
            || self.shards_parameters()
            || !self.units.iter().any(persists)
        {
            return None;
        }
        let (keys, cause, repair) = match self.run.zero.sharding.rules() {
            [] => {
                let threshold = self.run.zero.param_persistence_threshold;
                let cause = format!("no parameter is larger than {threshold}, so");
                (PARAM_THRESHOLD, cause, "use a lower threshold")
            }
            _ => (PARAMETERS, "with this list".to_owned(), "let some units be sharded"),
        };
        let what = match self.in_effect()? {
            InEffect::Zero1 => {
                "optimizer state alone is sharded, and gradients are reduced once, as they would be by ZeRO-1"
            }
            InEffect::Zero2 => "gradients and optimizer state are sharded, as they would be by ZeRO-2",
            InEffect::Between { .. } => {
                "optimizer state is sharded, and gradients of what persists, which is less than ZeRO-2 shards"
            }
        };
        let text = format!(
            "{cause} all {} units ({} elements) stay gathered all step and ZeRO-3 has no weights left to shard; {what}; {repair}",
            self.units.len(),
            self.num_parameters()
        );
        Some(Diagnostic::warning(keys, text))
    }

    /// What `memory` decided: how many units are resident, and a split that may not be the fastest.
    fn diagnostics_of_memory(&self, limit: Bytes) -> impl Iterator<Item = Diagnostic> {
        let residency = (self.asked_residency == ResidencyConfig::Auto).then(|| {
            let text = format!(
                "\"auto\" is {} here, the most that fits: the fullest rank needs {} of the {limit} that `memory` gives it",
                self.run.zero.resident_units,
                Bytes(self.needs().rank_bytes)
            );
            Diagnostic::hint(RESIDENT, text)
        });
        let split = (!self.is_split_proven).then(|| {
            let why = if self.run.parallel.virtual_stages > 1 {
                "ranks have several stages, and the search ended before it had seen all splits; with more memory, or with fewer stages, it \
                 sees more"
            } else {
                "what a stage needs is estimated before there are programs, so splits for bounds around `memory` were tried, and this is the first that fits"
            };
            let text = format!(
                "the balanced split into {} stages fits the {limit} of `memory`, but is not proved to be the fastest that does: {why}",
                self.order.placement.num_stages()
            );
            Diagnostic::hint(PARTITION, text)
        });
        residency.into_iter().chain(split)
    }

    /// That a loss of the caller's decides what becomes of logits.
    fn logits_of_own_loss(&self) -> Option<Diagnostic> {
        let head = self.model.layers.last().filter(|head| head.layer.reads_whole_rows())?;
        let logits = head.layer.sizes(self.shape).exact as u64 * 4;
        let text = format!(
            "the loss, a distillation's or one of the model's own, reads whole rows of logits, so they are kept, {} with what it saves of \
             each row for each micro-batch in flight on the last stage, and the table of {} is not cut: \"recompute\" and slices are for \
             cross-entropy alone",
            Bytes(logits),
            head.layer.name()
        );
        Some(Diagnostic::hint(HEAD_LOGITS, text))
    }

    /// The list that `auto` became, as it is to be written.
    fn chosen_sharding_list(&self) -> Option<Diagnostic> {
        if self.asked_sharding != ShardingConfig::Auto || self.run.zero.level != ZeroLevel::Zero3 {
            return None;
        }
        let list = self.run.zero.sharding.rules_as_json();
        let aim = match self.run.memory_bytes {
            Some(limit) => format!("the fewest bytes sent that fit the {} of `memory`", Bytes(limit)),
            None => "the lowest peak, or up to 1% more where at least 10% less is sent".to_owned(),
        };
        let text = format!(
            "\"auto\" became \"parameters\": {list}: {aim}; another grid or another `memory` may get another list, which changes \
             results in their last bits; to keep them, remove \"sharding\" and thresholds, and write this list"
        );
        Some(Diagnostic::hint(SHARDING, text))
    }

    /// That a threshold is too low for every parameter: that of a parameter, or else the model's.
    fn nothing_persists(&self) -> Option<Diagnostic> {
        let threshold = self.run.zero.param_persistence_threshold;
        let any_persists = self.units.iter().any(|unit| unit.has(UnitSharding::Persistent));
        if self.run.zero.level != ZeroLevel::Zero3
            || threshold == 0
            || any_persists
            || !self.run.zero.sharding.rules().is_empty()
        {
            return None;
        }
        let specs = self.units.iter().flat_map(|unit| unit.unit.entries()).map(|entry| &entry.spec);
        let spec = specs.min_by_key(|spec| spec.num_elements_of_all())?;
        let (name, smallest) = (&spec.name, spec.num_elements_of_all());
        if smallest as u64 > threshold {
            let text = format!(
                "no parameter persists: every one has more than {threshold} elements, the smallest, {name}, {smallest}; use {smallest} or \
                 more, or 0"
            );
            return Some(Diagnostic::warning(PARAM_THRESHOLD, text));
        }
        let text = format!(
            "no parameter persists: persistent parameters may have {} elements together, and the smallest, {name}, has {smallest}; \
             use {smallest} or more, or `stage3_param_persistence_threshold` 0",
            self.run.zero.model_persistence_threshold,
        );
        Some(Diagnostic::warning(MODEL_THRESHOLD, text))
    }

    /// That a budget or a prefetch is larger than the number of units. If both are, only the prefetch is reported, since it
    /// decides the least budget.
    fn beyond_units(&self) -> Option<Diagnostic> {
        let zero = &self.run.zero;
        let most_units = self.most_units_of_a_rank();
        if zero.level != ZeroLevel::Zero3 || self.grid.data_degree == 1 || most_units == 0 {
            return None;
        }
        if zero.prefetch_units >= most_units {
            let text = format!(
                "{} units ahead, but no rank gathers more than {}, the one in use included; use {}",
                zero.prefetch_units,
                units(most_units),
                most_units - 1
            );
            return Some(Diagnostic::hint(PREFETCH, text));
        }
        match &self.asked_residency {
            ResidencyConfig::PerRank(numbers) => {
                let gathered = self.training.ranks().map(|rank| self.gathered_unit_bytes(rank).len());
                let mut beyond =
                    numbers.iter().zip(gathered).enumerate().filter(|(_, (own, most))| **own > *most);
                let (rank, (own, most)) = beyond.next()?;
                let text = format!(
                    "{own} units for pipeline rank {rank}, which gathers no more than {}: a larger number has no effect",
                    units(most)
                );
                Some(Diagnostic::hint(RESIDENT, text))
            }
            ResidencyConfig::Units(resident_units) if *resident_units > most_units => {
                let text = format!(
                    "{resident_units} units, but no rank gathers more than {}: a larger number has no effect, and \"all\" \
                     means the same",
                    units(most_units)
                );
                Some(Diagnostic::hint(RESIDENT, text))
            }
            _ => None,
        }
    }

    /// What stays whole of every stage: a line for each entry of the list that decides about some of its parameters; or for each stage, where
    /// there is a threshold, and even where nothing stays, as it may be too low.
    pub fn parameters_that_stay(&self) -> Vec<String> {
        let zero = &self.run.zero;
        if zero.level == ZeroLevel::Zero3 && !zero.sharding.rules().is_empty() {
            return self.parameters_by_rule();
        }
        if zero.level != ZeroLevel::Zero3 || zero.param_persistence_threshold == 0 {
            return Vec::new();
        }
        let of_stage = |stage: usize| {
            let units = || self.owned_units_of(Stage(stage as u32));
            let num_parameters: usize = units().map(|unit| unit.unit.entries().len()).sum();
            let persistent = || units().flat_map(|unit| unit.entries_of_kind(UnitSharding::Persistent));
            let num_elements: usize = persistent().map(|entry| entry.range.len()).sum();
            format!(
                "stage {stage}: {} of {num_parameters} parameters persist, {num_elements} elements",
                persistent().count()
            )
        };
        (0..self.order.placement.num_stages()).map(of_stage).collect()
    }

    /// The units of a stage, but for the second use of a tied weight that its rank holds already.
    fn owned_units_of(&self, stage: Stage) -> impl Iterator<Item = &PlannedUnit> {
        let owned = self.units_of_stage(stage).filter(|(id, _)| self.weights_owner(*id) == *id);
        owned.map(|(_, unit)| unit)
    }

    /// What each entry of the list decides of every stage.
    fn parameters_by_rule(&self) -> Vec<String> {
        let rules = self.run.zero.sharding.rules();
        let deciding = sharding::deciding_rules(rules, &self.graph, &self.units).unwrap_or_default();
        let element_bytes = self.element_type().num_bytes();
        let mut lines = Vec::new();
        for stage in (0..self.order.placement.num_stages() as u32).map(Stage) {
            let mut of_stage: Vec<(Option<usize>, usize)> = Vec::new();
            for unit in self.owned_units_of(stage) {
                let decided = deciding.get(unit.layers.clone()).unwrap_or_default().concat();
                of_stage.extend(decided.into_iter().zip(unit.unit.entries().iter().map(|of| of.range.len())));
            }
            for (index, rule) in rules.iter().enumerate() {
                let decided = || of_stage.iter().filter(|(rule, _)| *rule == Some(index));
                let num_elements: usize = decided().map(|(_, len)| len).sum();
                if decided().next().is_none() {
                    continue;
                }
                lines.push(format!(
                    "stage {}: {} of {} parameters are {}, as \"{rule}\" says: {num_elements} elements, {} before sharding",
                    stage.0,
                    decided().count(),
                    of_stage.len(),
                    ShardingRule::word(rule.sharding),
                    Bytes((num_elements * element_bytes) as u64)
                ));
            }
        }
        lines
    }
}
