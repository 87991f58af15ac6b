//! Looks at the output of each layer while a forward is computed again.

use std::collections::BTreeMap;

use pipezero_comm::memory::Allocator;
use pipezero_models::layer::MicroBatchShape;
use pipezero_models::{ModelError, Queue, View};

use super::first_not_finite::first_not_finite;
use super::not_finite::{BrokenOutput, LayerOnRank};
use crate::unusable_value::in_words;

/// Outputs of a rank's layers that were not finite.
#[derive(Debug)]
pub(super) struct Watch {
    /// By micro-batch the first output that is not finite.
    outputs: BTreeMap<usize, BrokenOutput>,
    /// Elements that are copied to the host at once.
    at_once: usize,
    /// An output could not be looked at.
    failed: Option<ModelError>,
}

/// An output, and for what it was computed.
pub(super) struct Output<'a> {
    pub(super) micro_batch: usize,
    pub(super) data_rank: usize,
    pub(super) shape: MicroBatchShape,
    pub(super) elements: View<'a>,
}

impl Watch {
    pub(super) fn new(at_once: usize) -> Self {
        Self { outputs: BTreeMap::new(), at_once, failed: None }
    }

    /// Looks at an output. Those of a micro-batch come in the order of the model's layers.
    pub(super) fn look(
        &mut self,
        queue: &dyn Queue,
        scratch: &Allocator,
        output: &Output<'_>,
        of: impl FnOnce() -> LayerOnRank,
    ) {
        let &Output { micro_batch, data_rank, shape, elements } = output;
        if self.failed.is_some() || self.outputs.contains_key(&micro_batch) {
            return;
        }
        match first_not_finite(queue, scratch, elements, self.at_once) {
            Err(error) => self.failed = Some(error),
            Ok(None) => {}
            Ok(Some((at, value))) => {
                // An output has as many elements for each token.
                let width = elements.len().div_ceil(shape.num_tokens()).max(1);
                let token = [at / width / shape.seq_length, at / width % shape.seq_length];
                let value = in_words(value);
                self.outputs
                    .insert(micro_batch, BrokenOutput { micro_batch, data_rank, of: of(), token, value });
            }
        }
    }

    /// What was found.
    ///
    /// # Errors
    /// When an output could not be looked at.
    pub(super) fn finish(self) -> Result<Vec<BrokenOutput>, ModelError> {
        self.failed.map_or(Ok(()), Err)?;
        Ok(self.outputs.into_values().collect())
    }
}
