//! What a rank holds of one unit between and during steps, by ZeRO level.
//!
//! | | parameters | gradients | optimizer state |
//! |---|---|---|---|
//! | ZeRO-0 | whole | whole | whole |
//! | ZeRO-1 | whole | whole | shard |
//! | ZeRO-2 | whole | shard | shard |
//! | ZeRO-3, reduced every micro-batch | shard | shard | shard |
//! | ZeRO-3, reduced last | shard | whole | shard |

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use pipezero_models::{ModelError, Unit};

use super::{Loan, ShardLayout};
use crate::config::{NoDecay, ReductionPolicy, ZeroConfig, ZeroLevel};
use crate::memory::{Category, Ledger, Tagged};
use crate::optimizer::{DecayRanges, Optimizer, Update};

/// How a unit's parameters are held.
#[derive(Debug)]
pub(crate) enum Weights {
    /// Whole on every data rank; lent while they are gathered after the step.
    Replicated(Loan<Tagged>),
    /// This data rank's shard; gathered for every use.
    Sharded(Tagged),
    /// Those of another unit of this rank: the second use of a tied weight.
    Tied,
}

/// One unit on one rank.
#[derive(Debug)]
pub(crate) struct UnitStore {
    /// The cut of its flat buffer.
    pub(crate) layout: ShardLayout,
    /// Its parameters.
    pub(crate) weights: Weights,
    /// Gathered copies, the oldest first.
    pub(crate) gathered: VecDeque<Tagged>,
    /// The gradient of the step: whole or a shard.
    pub(crate) gradient: Loan<Tagged>,
    /// The gradient of the last backward, waiting for its reduction (reduced every micro-batch).
    pub(crate) fresh_gradient: Option<Tagged>,
    /// `[num_states, owned]` optimizer state.
    pub(crate) states: Tagged,
    /// Which of the owned elements are decayed.
    pub(crate) decay: DecayRanges,
    /// Where the owned elements lie in the parameter buffer at rest.
    pub(crate) owned_parameters: Range<usize>,
    /// Where the owned elements lie in the gradient buffer.
    pub(crate) owned_gradient: Range<usize>,
    /// The owned elements in the unit's flat buffer.
    pub(crate) owned: Range<usize>,
    /// This data rank's shard in the gradient buffer: what it contributes to the norm.
    pub(crate) counted_gradient: Range<usize>,
}

/// What a store is for: inference keeps parameters alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Parameters, gradients and optimizer state.
    Training,
    /// Parameters alone.
    Inference,
}

/// What decides the shape of a store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreOptions<'a> {
    pub(crate) zero: &'a ZeroConfig,
    pub(crate) optimizer: &'a Optimizer,
    pub(crate) no_decay: &'a NoDecay,
    pub(crate) purpose: Purpose,
    pub(crate) data_rank: usize,
    pub(crate) ledger: &'a Arc<Ledger>,
}

impl UnitStore {
    /// Allocates the store of a unit with parameters of its own, all zeros.
    pub(crate) fn new(
        unit: &Unit,
        layout: ShardLayout,
        options: StoreOptions<'_>,
    ) -> Result<Self, ModelError> {
        let mut store = Self::without_weights(unit, layout, options)?;
        let ledger = options.ledger;
        store.weights = if options.zero.level == ZeroLevel::Zero3 {
            Weights::Sharded(Tagged::zeros(layout.shard_len(), Category::Parameters, ledger)?)
        } else {
            Weights::Replicated(Loan::new(Tagged::zeros(layout.padded_len(), Category::Parameters, ledger)?))
        };
        if options.purpose == Purpose::Training {
            let num_states = options.optimizer.num_states();
            store.states = Tagged::zeros(num_states * store.owned.len(), Category::Optimizer, ledger)?;
        }
        Ok(store)
    }

    /// Allocates the store of the second use of a tied weight: a gradient accumulator, no weights, no state.
    pub(crate) fn tied(
        unit: &Unit,
        layout: ShardLayout,
        options: StoreOptions<'_>,
    ) -> Result<Self, ModelError> {
        Self::without_weights(unit, layout, options)
    }

    fn without_weights(
        unit: &Unit,
        layout: ShardLayout,
        options: StoreOptions<'_>,
    ) -> Result<Self, ModelError> {
        let StoreOptions { zero, no_decay, purpose, data_rank, ledger, .. } = options;
        let whole = 0..layout.padded_len();
        let shard = layout.shard(data_rank);
        let own_shard = 0..layout.shard_len();
        let owned = if zero.level == ZeroLevel::Zero0 { whole.clone() } else { shard.clone() };
        let gradient_is_whole = zero.reduce == ReductionPolicy::Last;
        let gradient_len = match purpose {
            Purpose::Training if gradient_is_whole => layout.padded_len(),
            Purpose::Training => layout.shard_len(),
            Purpose::Inference => 0,
        };
        Ok(Self {
            layout,
            weights: Weights::Tied,
            gathered: VecDeque::new(),
            gradient: Loan::new(Tagged::zeros(gradient_len, Category::Gradients, ledger)?),
            fresh_gradient: None,
            states: Tagged::zeros(0, Category::Optimizer, ledger)?,
            decay: DecayRanges::of_unit(unit.entries(), no_decay).within(owned.clone()),
            owned_parameters: if zero.level == ZeroLevel::Zero3 { own_shard.clone() } else { owned.clone() },
            owned_gradient: if gradient_is_whole { owned.clone() } else { own_shard.clone() },
            counted_gradient: if gradient_is_whole { shard } else { own_shard },
            owned,
        })
    }

    /// The parameters at rest.
    pub(crate) fn parameters(&self) -> &Tagged {
        match &self.weights {
            Weights::Replicated(whole) => whole.get(),
            Weights::Sharded(shard) => shard,
            Weights::Tied => unreachable!("a tied use reads the weights of its owner"),
        }
    }

    /// The parameters at rest, to be written.
    pub(crate) fn parameters_mut(&mut self) -> &mut Tagged {
        self.weights.at_rest_mut()
    }

    /// One optimizer step on the owned elements.
    pub(crate) fn update(
        &mut self,
        optimizer: &Optimizer,
        step: u64,
        learning_rate: f64,
        gradient_scale: f32,
    ) {
        let Self { weights, gradient, states, decay, owned_parameters, owned_gradient, .. } = self;
        let gradients = gradient.get().read();
        weights.at_rest_mut().write(|parameters| {
            states.write(|states| {
                let parameters = &mut parameters[owned_parameters.clone()];
                let gradients = &gradients[owned_gradient.clone()];
                let update = Update { parameters, gradients, states, step, learning_rate, gradient_scale };
                optimizer.update(decay, update);
            });
        });
    }

    /// Sets the gradient to zero, for the next step to add to.
    pub(crate) fn clear_gradient(&mut self) {
        self.gradient.get_mut().write(|gradient| gradient.fill(0.0));
    }
}

impl Weights {
    fn at_rest_mut(&mut self) -> &mut Tagged {
        match self {
            Self::Replicated(whole) => whole.get_mut(),
            Self::Sharded(shard) => shard,
            Self::Tied => unreachable!("a tied use reads the weights of its owner"),
        }
    }
}
