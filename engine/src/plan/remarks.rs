//! What the reader of a plan should know beyond its figures: what `"auto"` became, that a split may not be the best, that
//! micro-batches are too few for the pipeline, that units are too large to pay, what persists, that nothing is left to shard, and that more is asked for than
//! there are units.

use std::fmt;

use pipezero_schedule::Stage;

use super::{Plan, PlannedUnit, UnitsTooLarge};
use crate::config::{NoticeKind, ResidencyConfig, ZeroLevel};
use crate::plan::Bytes;

/// Something that the run file does not say and that its author should know.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Remark {
    /// What `"resident_units": "auto"` became.
    ResidencyFromMemory {
        /// The largest with which every rank fits.
        resident_units: ResidencyConfig,
        /// What the fullest rank needs with it.
        needs_bytes: u64,
        /// What each rank has.
        limit_bytes: u64,
    },
    /// More units are to be resident than any rank gathers.
    ResidencyBeyondUnits {
        /// What was asked for.
        resident_units: usize,
        /// Units of the rank that gathers most of them.
        most_units: usize,
    },
    /// More units are to be prefetched than there are beside the one in use.
    PrefetchBeyondUnits {
        /// What was asked for.
        prefetch_units: usize,
        /// Units of the rank that gathers most of them.
        most_units: usize,
    },
    /// The balanced split fits, and a faster one that fits may exist.
    SplitNotProven {
        /// Stages of the split.
        num_stages: usize,
        /// What each rank has.
        limit_bytes: u64,
    },
    /// Some rank of the pipeline has nothing to do at every moment of a step.
    FewMicroBatches {
        /// Micro-batches of a step.
        num_micro_batches: usize,
        /// Pipeline ranks.
        pipeline_degree: usize,
        /// The bubble's part of a step, in hundredths and rounded.
        bubble_percent: u32,
    },
    /// Without a pipeline, one unit holds all layers.
    WholeModelGathered {
        /// Layers of the model.
        num_layers: usize,
    },
    /// Units, gathered and at rest, hold no fewer weights than no sharding would.
    UnitsTooLarge(UnitsTooLarge),
    /// Every unit persists.
    NothingLeftToShard {
        /// Units of the model.
        num_units: usize,
        /// Its parameters.
        num_elements: u64,
        /// What makes them persist.
        threshold: u64,
    },
    /// A threshold is set, and no unit persists by it.
    NothingPersists {
        /// The threshold of a parameter.
        threshold: u64,
        /// The least that it would have to be: the largest parameter of the unit for which that is smallest.
        smallest: u64,
        /// The unit's first layer.
        layer: String,
    },
    /// Units are below the threshold of a parameter, and the model's stops every one of them.
    ModelThresholdStops {
        /// The threshold of a parameter.
        param_threshold: u64,
        /// The threshold of the model.
        model_threshold: u64,
        /// The least that it would have to be: the parameters of the smallest of those units.
        smallest: u64,
        /// The unit's first layer.
        layer: String,
    },
}

impl Remark {
    /// How much it matters.
    pub fn kind(&self) -> NoticeKind {
        match self {
            Self::ResidencyFromMemory { .. }
            | Self::ResidencyBeyondUnits { .. }
            | Self::PrefetchBeyondUnits { .. }
            | Self::SplitNotProven { .. } => NoticeKind::Hint,
            Self::FewMicroBatches { .. }
            | Self::WholeModelGathered { .. }
            | Self::UnitsTooLarge(_)
            | Self::NothingLeftToShard { .. }
            | Self::NothingPersists { .. }
            | Self::ModelThresholdStops { .. } => NoticeKind::Warning,
        }
    }

    /// The key of the run file that it is about: the first of these that is written.
    pub fn keys(&self) -> &'static [&'static str] {
        const UNIT: &[&str] = &["zero_optimization.unit_layers", "zero_optimization.stage"];
        const RESIDENT: &[&str] = &["zero_optimization.resident_units"];
        match self {
            Self::ResidencyFromMemory { .. } | Self::ResidencyBeyondUnits { .. } => RESIDENT,
            Self::UnitsTooLarge(too_large) if too_large.is_budget => RESIDENT,
            Self::WholeModelGathered { .. } | Self::UnitsTooLarge(_) => UNIT,
            Self::PrefetchBeyondUnits { .. } => &["zero_optimization.prefetch_units"],
            Self::SplitNotProven { .. } => &["parallel.partition"],
            Self::FewMicroBatches { .. } => &["gradient_accumulation_steps"],
            Self::NothingLeftToShard { .. } | Self::NothingPersists { .. } => {
                &["zero_optimization.stage3_param_persistence_threshold"]
            }
            Self::ModelThresholdStops { .. } => &["zero_optimization.stage3_model_persistence_threshold"],
        }
    }
}

/// Without the key, which [`Remark::keys`] names.
impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ResidencyFromMemory { resident_units, needs_bytes, limit_bytes } => write!(
                f,
                "\"auto\" is {resident_units} here, the most that fits: the fullest \
                 rank needs {} of the {} that `memory` gives it",
                Bytes(*needs_bytes),
                Bytes(*limit_bytes)
            ),
            Self::ResidencyBeyondUnits { resident_units, most_units } => write!(
                f,
                "{resident_units} units, but no rank gathers more than {}: what is beyond \
                 that changes nothing, and \"all\" says the same",
                units(*most_units)
            ),
            Self::PrefetchBeyondUnits { prefetch_units, most_units } => write!(
                f,
                "{prefetch_units} units ahead, but no rank gathers more than {}: beside the one \
                 in use {} be gathered ahead",
                units(*most_units),
                match most_units - 1 {
                    0 => "none can".to_owned(),
                    others => format!("at most {others} can"),
                }
            ),
            Self::SplitNotProven { num_stages, limit_bytes } => write!(
                f,
                "the balanced split into {num_stages} stages fits the {} of `memory`, but is not \
                 proved to be the fastest that does: ranks have several stages, and the search ended before it had seen all \
                 splits; with more memory, or with fewer stages, it sees more",
                Bytes(*limit_bytes)
            ),
            Self::FewMicroBatches { num_micro_batches, pipeline_degree, bubble_percent } => write!(
                f,
                "a step of {num_micro_batches} micro-batch{} on {pipeline_degree} \
                 pipeline ranks never has work for all of them, and the bubble is {bubble_percent}% of it; raise \
                 `gradient_accumulation_steps` to {pipeline_degree} or more",
                if *num_micro_batches == 1 { "" } else { "es" }
            ),
            Self::WholeModelGathered { num_layers } => write!(
                f,
                "one unit holds all {num_layers} layers: the whole model is gathered at once, so ZeRO-3 saves no weights at its \
                 peak"
            ),
            Self::UnitsTooLarge(too_large) => too_large.fmt(f),
            Self::NothingLeftToShard { num_units, num_elements, threshold } => write!(
                f,
                "no parameter is larger than {threshold}, so \
                 all {num_units} units ({num_elements} elements) stay gathered all step and ZeRO-3 has no weights left to \
                 shard; gradients and optimizer state are sharded, as they would be by ZeRO-2; use a lower threshold"
            ),
            Self::NothingPersists { threshold, smallest, layer } => write!(
                f,
                "no unit persists: every one has a parameter \
                 larger than {threshold}, at least {smallest} (in the unit that begins with {layer}); small parameters alone would save nothing, \
                 since a unit is gathered in one message; use {smallest} or more, or 0"
            ),
            Self::ModelThresholdStops { param_threshold, model_threshold, smallest, layer } => write!(
                f,
                "no unit persists: all that persist may have \
                 {model_threshold} elements together, and the smallest with no parameter larger than {param_threshold} has {smallest} (the \
                 unit that begins with {layer}); use {smallest} or more, or `stage3_param_persistence_threshold` 0"
            ),
        }
    }
}

fn units(count: usize) -> String {
    if count == 1 { "1 unit".to_owned() } else { format!("{count} units") }
}

/// What stays gathered of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PersistentUnits {
    /// The stage.
    pub stage: usize,
    /// Units that stay gathered.
    pub num_persistent: usize,
    /// Units of the stage.
    pub num_units: usize,
    /// Parameters of those that stay.
    pub num_elements: u64,
}

impl fmt::Display for PersistentUnits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stage, num_persistent, num_units, num_elements } = self;
        write!(f, "stage {stage}: {num_persistent} of {num_units} units persist, {num_elements} elements")
    }
}

impl Plan {
    /// What the author of the run file should know.
    pub fn remarks(&self) -> Vec<Remark> {
        let mut remarks = Vec::new();
        if let Some(limit_bytes) = self.run.memory_bytes.filter(|_| self.is_residency_auto) {
            remarks.push(Remark::ResidencyFromMemory {
                resident_units: self.run.zero.resident_units,
                needs_bytes: self.needs().rank_bytes,
                limit_bytes,
            });
        }
        if let Some(limit_bytes) = self.run.memory_bytes.filter(|_| !self.is_split_proven) {
            let num_stages = self.order.placement.num_stages();
            remarks.push(Remark::SplitNotProven { num_stages, limit_bytes });
        }
        let (num_micro_batches, pipeline_degree) =
            (self.run.batch.num_micro_batches, self.grid.pipeline_degree);
        if num_micro_batches < pipeline_degree {
            let bubble_percent = (100.0 * self.bubble_share()).round() as u32;
            remarks.push(Remark::FewMicroBatches { num_micro_batches, pipeline_degree, bubble_percent });
        }
        if self.grid.pipeline_degree == 1 && self.lone_unit().is_some() {
            remarks.push(Remark::WholeModelGathered { num_layers: self.run.model.num_layers() });
        } else if let Some(too_large) = self.units_too_large() {
            remarks.push(Remark::UnitsTooLarge(too_large));
        }
        if self.units.iter().all(|unit| unit.is_persistent) {
            remarks.push(Remark::NothingLeftToShard {
                num_units: self.units.len(),
                num_elements: self.num_parameters(),
                threshold: self.run.zero.param_persistence_threshold,
            });
        }
        remarks.extend(self.nothing_persists());
        remarks.extend(self.beyond_units());
        remarks
    }

    /// That a threshold is too low for every unit: a parameter's, or else the model's.
    fn nothing_persists(&self) -> Option<Remark> {
        let threshold = self.run.zero.param_persistence_threshold;
        let any_persists = self.units.iter().any(|unit| unit.is_persistent);
        if self.run.zero.level != ZeroLevel::Zero3 || threshold == 0 || any_persists {
            return None;
        }
        let units = self.units.iter().map(|unit| (unit.largest_parameter(), unit));
        let (smallest, unit) = units.min_by_key(|(largest, _)| *largest)?;
        if smallest > threshold {
            let layer = self.first_layer(unit);
            return Some(Remark::NothingPersists { threshold, smallest, layer });
        }
        let may_persist = self.units.iter().filter(|unit| unit.largest_parameter() <= threshold);
        let unit = may_persist.min_by_key(|unit| unit.unit.num_parameters())?;
        Some(Remark::ModelThresholdStops {
            param_threshold: threshold,
            model_threshold: self.run.zero.model_persistence_threshold,
            smallest: unit.unit.num_parameters() as u64,
            layer: self.first_layer(unit),
        })
    }

    fn first_layer(&self, unit: &PlannedUnit) -> String {
        self.graph.layer(unit.layers.start).name.clone()
    }

    /// That a budget or a prefetch is larger than the number of units. If both are, only the prefetch is reported, since it
    /// decides the least budget.
    fn beyond_units(&self) -> Option<Remark> {
        let zero = &self.run.zero;
        let most_units = self.most_units_of_a_rank();
        if zero.level != ZeroLevel::Zero3 || self.grid.data_degree == 1 || most_units == 0 {
            return None;
        }
        if zero.prefetch_units >= most_units {
            return Some(Remark::PrefetchBeyondUnits { prefetch_units: zero.prefetch_units, most_units });
        }
        match zero.resident_units {
            ResidencyConfig::Units(resident_units) if resident_units > most_units => {
                Some(Remark::ResidencyBeyondUnits { resident_units, most_units })
            }
            _ => None,
        }
    }

    /// What stays gathered of every stage, where the run asks for it: none is said too, as the threshold may be too low.
    pub fn persistent_units(&self) -> Vec<PersistentUnits> {
        let zero = &self.run.zero;
        if zero.level != ZeroLevel::Zero3 || zero.param_persistence_threshold == 0 {
            return Vec::new();
        }
        let of_stage = |stage: usize| {
            let units = || self.units_of_stage(Stage(stage as u32)).map(|(_, unit)| unit);
            let persistent = || units().filter(|unit| unit.is_persistent);
            PersistentUnits {
                stage,
                num_persistent: persistent().count(),
                num_units: units().count(),
                num_elements: persistent().map(|unit| unit.unit.num_parameters() as u64).sum(),
            }
        };
        (0..self.order.placement.num_stages()).map(of_stage).collect()
    }
}
