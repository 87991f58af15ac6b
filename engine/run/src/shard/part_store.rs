//! What a rank holds of one part of a unit between and during steps, by ZeRO level.
//!
//! | | parameters | gradients | optimizer state |
//! |---|---|---|---|
//! | ZeRO-0 | whole | whole | whole |
//! | ZeRO-1 | whole | whole | shard |
//! | ZeRO-2 | whole | shard | shard |
//! | ZeRO-3, reduced every micro-batch | shard | shard | shard |
//! | ZeRO-3, reduced last | shard | whole | shard |
//!
//! The parameters of a persistent part are whole under ZeRO-3 too, and a part that is kept whole is held as under ZeRO-1. In
//! bf16 and fp16 the optimizer updates an f32 master copy of what it owns, which counts as its state, and the parameters are the master's values rounded.
//!
//! A frozen part has its parameters alone, whatever the precision.

use std::mem;
use std::ops::Range;

use pipezero_comm::memory::{Allocator, Category, Lendable, TrackedBuffer};
use pipezero_config::{NoDecay, OptimizerConfig, ZeroConfig, ZeroLevel};
use pipezero_models::layer::WriteMode;
use pipezero_models::{ElementType, ModelError, Queue, Unit, View, ViewMut};
use pipezero_partition::{Purpose, ShardLayout, UnitSharding};
use pipezero_plan::{PlannedPart, Reduced};

use crate::optimizer::{DecayRanges, Update};

/// How a part's parameters are held.
#[derive(Debug)]
pub(crate) enum Weights {
    /// Whole on every data rank; lent while they are gathered after the step.
    Replicated(Lendable<TrackedBuffer>),
    /// This data rank's shard; gathered for every use.
    Sharded(TrackedBuffer),
    /// None beside this data rank's master copy, out of which the shard is cast into its place in the gather buffer for every use.
    CastFromMaster,
    /// Those of another unit of this rank: the second use of a tied weight.
    Tied,
}

/// One part of a unit on one rank.
#[derive(Debug)]
pub(crate) struct PartStore {
    /// The cut of its flat buffer.
    pub(crate) layout: ShardLayout,
    /// Its parameters.
    pub(crate) weights: Weights,
    /// The gradient of the step: whole or a shard.
    pub(crate) gradient: Lendable<TrackedBuffer>,
    /// When it is reduced. Where once, `gradient` is whole: those of all micro-batches are added there.
    pub(crate) reduced: Reduced,
    /// What happens to what `gradient` holds when the next one comes.
    next_mode: WriteMode,
    /// `[owned]` f32 parameters that the optimizer updates; `None` where the parameters are f32 themselves.
    pub(crate) master: Option<TrackedBuffer>,
    /// `[num_states, owned]` optimizer state.
    pub(crate) states: TrackedBuffer,
    /// Which of the owned elements are decayed.
    pub(crate) decay: DecayRanges,
    /// Where the owned elements lie in the parameter buffer at rest.
    pub(crate) owned_parameters: Range<usize>,
    /// Where the owned elements lie in the gradient buffer.
    pub(crate) owned_gradient: Range<usize>,
    /// The owned elements in the part's flat buffer.
    pub(crate) owned: Range<usize>,
    /// This data rank's shard in the gradient buffer: what it contributes to the norm.
    counted_gradient: Range<usize>,
}

/// The part that a store is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredPart<'a> {
    pub(crate) unit: &'a Unit,
    /// Its number in the unit.
    pub(crate) part: usize,
    pub(crate) planned: PlannedPart,
}

impl StoredPart<'_> {
    /// Whether the parameters are whole on every data rank.
    fn is_whole(self, zero: &ZeroConfig) -> bool {
        zero.level != ZeroLevel::Zero3 || self.planned.sharding != UnitSharding::Sharded
    }
}

/// What decides how much a store holds, and where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreOptions<'a> {
    pub(crate) zero: &'a ZeroConfig,
    pub(crate) element_type: ElementType,
    pub(crate) optimizer: &'a OptimizerConfig,
    pub(crate) no_decay: &'a NoDecay,
    pub(crate) purpose: Purpose,
    pub(crate) data_rank: usize,
    pub(crate) memory: &'a Allocator,
}

impl PartStore {
    /// Allocates the store of a part with parameters of its own, all zeros.
    pub(crate) fn new(part: StoredPart<'_>, options: StoreOptions<'_>) -> Result<Self, ModelError> {
        let mut store = Self::tied(part, options)?;
        let StoreOptions { element_type, memory, .. } = options;
        let zeros = |len| memory.zeros_of(len, element_type, Category::Parameters);
        if options.purpose == Purpose::Training && !part.planned.is_frozen {
            let (num_states, num_owned) = (options.optimizer.num_states(), store.owned.len());
            store.states = memory.zeros(num_states * num_owned, Category::Optimizer)?;
            if element_type != ElementType::F32 {
                store.master = Some(memory.zeros(num_owned, Category::Optimizer)?);
            }
        }
        store.weights = match store.master {
            _ if part.is_whole(options.zero) => {
                Weights::Replicated(Lendable::new(zeros(part.planned.layout.padded_len())?))
            }
            Some(_) => Weights::CastFromMaster,
            None => Weights::Sharded(zeros(part.planned.layout.shard_len())?),
        };
        Ok(store)
    }

    /// Allocates the store of the second use of a tied weight: a gradient accumulator, no weights, no state.
    pub(crate) fn tied(part: StoredPart<'_>, options: StoreOptions<'_>) -> Result<Self, ModelError> {
        let StoreOptions { zero, no_decay, purpose, data_rank, memory, .. } = options;
        let layout = part.planned.layout;
        let whole = 0..layout.padded_len();
        let shard = layout.shard(data_rank);
        let own_shard = 0..layout.shard_len();
        let owned = if zero.level == ZeroLevel::Zero0 { whole.clone() } else { shard.clone() };
        let reduced = part.planned.reduced(zero);
        let accumulates_whole = reduced == Reduced::Last;
        let gradient_len = match reduced {
            Reduced::Last if purpose == Purpose::Training => layout.padded_len(),
            Reduced::Every if purpose == Purpose::Training => layout.shard_len(),
            Reduced::Every | Reduced::Last | Reduced::Never => 0,
        };
        Ok(Self {
            layout,
            weights: Weights::Tied,
            gradient: Lendable::new(memory.zeros(gradient_len, Category::Gradients)?),
            next_mode: WriteMode::Overwrite,
            master: None,
            states: memory.zeros(0, Category::Optimizer)?,
            decay: DecayRanges::of_unit(part.unit.entries_of(part.part), no_decay).within(owned.clone()),
            owned_parameters: if part.is_whole(zero) { owned.clone() } else { own_shard.clone() },
            owned_gradient: if accumulates_whole { owned.clone() } else { own_shard.clone() },
            counted_gradient: if accumulates_whole { shard } else { own_shard },
            owned,
            reduced,
        })
    }

    /// Whether its parameters are trained.
    pub(crate) fn is_trained(&self) -> bool {
        self.reduced != Reduced::Never
    }

    /// The parameters at rest: the master copy where there are no others.
    pub(crate) fn parameters(&self) -> &TrackedBuffer {
        match &self.weights {
            Weights::Replicated(whole) => whole.get(),
            Weights::Sharded(shard) => shard,
            Weights::CastFromMaster => self.master.as_ref().expect("there is a master copy"),
            Weights::Tied => unreachable!("a tied use reads the weights of its owner"),
        }
    }

    /// The elements of the part's flat buffer whose parameters are here.
    pub(crate) fn held(&self) -> Range<usize> {
        match self.weights {
            Weights::Sharded(_) | Weights::CastFromMaster => self.owned.clone(),
            Weights::Replicated(_) | Weights::Tied => 0..self.layout.padded_len(),
        }
    }

    /// Sets the parameters of a range of the part's flat buffer, all of them held, and their master copy where it is owned. Values that
    /// are narrowed go through a buffer from `memory`.
    ///
    /// # Errors
    /// Those of `fill`, and when there is no memory for the values before they are narrowed.
    pub(crate) fn fill<E: From<ModelError>>(
        &mut self,
        queue: &dyn Queue,
        memory: &Allocator,
        range: Range<usize>,
        fill: impl FnOnce(&mut [f32]) -> Result<(), E>,
    ) -> Result<(), E> {
        let start = range.start - self.held().start;
        let at_rest = self.weights.at_rest_mut().or(self.master.as_mut());
        let at_rest = at_rest.expect("there are weights or a master copy");
        let mut values = vec![0.0; range.len()];
        fill(&mut values)?;
        if at_rest.element_type() == ElementType::F32 {
            queue.upload_floats(&values, at_rest.view_mut().range(start..start + range.len()));
            return Ok(());
        }
        let mut wide = memory.zeros(range.len(), Category::Parameters)?;
        queue.upload_floats(&values, wide.view_mut());
        queue.copy(wide.view(), at_rest.view_mut().range(start..start + range.len()));
        let owned = range.start.max(self.owned.start)..range.end.min(self.owned.end);
        if let Some(master) = &mut self.master
            && owned.start < owned.end
        {
            let wide = wide.view().range(owned.start - range.start..owned.end - range.start);
            let place = owned.start - self.owned.start;
            queue.copy(wide, master.view_mut().range(place..place + wide.len()));
        }
        Ok(())
    }

    /// What this data rank contributes to the norm.
    pub(crate) fn counted_gradient(&self) -> View<'_> {
        self.gradient.get().view().range(self.counted_gradient.clone())
    }

    /// Elements of the part's flat buffer that this rank owns, as exact as they are kept: of the master copy, if there is one.
    pub(crate) fn exact(&self, range: Range<usize>) -> View<'_> {
        let (kept, first) = match &self.master {
            Some(master) => (master, self.owned.start),
            None => (self.parameters(), self.held().start),
        };
        kept.view().range(range.start - first..range.end - first)
    }

    /// One of the optimizer's states of elements that this rank owns.
    pub(crate) fn state(&self, index: usize, range: Range<usize>) -> View<'_> {
        self.states.view().range(self.state_range(index, range))
    }

    /// As [`Self::state`], to be written.
    pub(crate) fn state_mut(&mut self, index: usize, range: Range<usize>) -> ViewMut<'_> {
        let range = self.state_range(index, range);
        self.states.view_mut().range(range)
    }

    fn state_range(&self, index: usize, range: Range<usize>) -> Range<usize> {
        let first = index * self.owned.len();
        first + range.start - self.owned.start..first + range.end - self.owned.start
    }

    /// One optimizer step on the owned elements.
    pub(crate) fn update(
        &mut self,
        queue: &dyn Queue,
        optimizer: &OptimizerConfig,
        step: u64,
        learning_rate: f64,
        gradient_scale: f32,
    ) {
        let Self { weights, gradient, master, states, decay, owned_parameters, owned_gradient, .. } = self;
        let gradients = gradient.get().view().range(owned_gradient.clone());
        let own = weights.at_rest_mut().map(|own| own.view_mut().range(owned_parameters.clone()));
        let (mut parameters, narrowed) = match (master, own) {
            (Some(master), own) => (master.view_mut(), own),
            (None, own) => (own.expect("there are weights or a master copy"), None),
        };
        let states = states.view_mut();
        let update = Update {
            parameters: parameters.reborrow(),
            gradients,
            states,
            step,
            learning_rate,
            gradient_scale,
        };
        update.apply(optimizer, decay, queue);
        if let Some(own) = narrowed {
            queue.copy(parameters.view(), own);
        }
    }

    /// See [`UnitStore::begin_step`](super::UnitStore::begin_step).
    pub(super) fn begin_step(&mut self, queue: &dyn Queue) {
        queue.discard(self.gradient.get_mut().view_mut());
        self.next_mode = WriteMode::Overwrite;
    }

    /// What the gradient that comes now does to what `gradient` holds: a step's first overwrites it, which saves a pass that
    /// clears it, and the others are added.
    pub(crate) fn take_next_mode(&mut self) -> WriteMode {
        mem::replace(&mut self.next_mode, WriteMode::Add)
    }
}

impl Weights {
    /// None beside a master copy.
    fn at_rest_mut(&mut self) -> Option<&mut TrackedBuffer> {
        match self {
            Self::Replicated(whole) => Some(whole.get_mut()),
            Self::Sharded(shard) => Some(shard),
            Self::CastFromMaster => None,
            Self::Tied => unreachable!("a tied use reads the weights of its owner"),
        }
    }
}
