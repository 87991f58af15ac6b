//! Finds where a step or an evaluation has ceased to be finite, once it is known that it has. It has changed no weight, so its forwards can be computed
//! again; what is finite is not looked at.

use std::sync::Arc;

use pipezero_comm::Communicator;
use pipezero_files::safetensors::index_of;
use pipezero_schedule::{MicroBatch, Unit};

use super::error::Cause;
use super::first_not_finite::first_not_finite;
use super::not_finite::{BrokenGradient, BrokenLoss, BrokenWeight, Findings, LayerOnRank};
use super::rank::Rank;
use super::scratch::scratch_bytes;
use super::state::pieces_of;
use super::step::StepInputs;
use super::watch::Watch;
use crate::data::BatchSource;
use crate::shard::Weights;
use crate::unusable_value::in_words;

impl Rank {
    /// What is not finite on this rank in the step that was last, or, without its inputs, in the evaluation, which read this batch. All ranks do
    /// this together.
    pub(crate) fn find_not_finite(
        &mut self,
        source: &dyn BatchSource,
        batch: u64,
        step: Option<StepInputs>,
    ) -> Result<Findings, Cause> {
        self.comm.finish()?;
        let at_once = (scratch_bytes(&self.plan) as usize / size_of::<f32>()).max(1);
        let losses = self.results.broken_losses();
        let weight = self.first_broken_weight(at_once)?;
        let gradient = if step.is_some() { self.first_broken_gradient()? } else { None };
        let plan = Arc::clone(&self.plan);
        let program = plan.evaluation();
        self.recorder.begin(false);
        // What could not be read now could be read before; it has no targets, and so a loss of zero.
        self.begin(program, step.map_or(0, |step| step.step), batch, source)?;
        self.watch = Some(Watch::new(at_once));
        let run = self.run_row(program, step);
        let watch = self.watch.take();
        run?;
        self.outcome()?;
        let outputs = watch.map_or(Ok(Vec::new()), Watch::finish)?;
        self.results()?;
        let again = self.results.broken_losses();
        let head = plan.head();
        let of = LayerOnRank::new(&plan, head, plan.unit(head).layers.len() - 1, self.comm.rank());
        let loss = |(MicroBatch(micro_batch), sum): (MicroBatch, f64)| BrokenLoss {
            micro_batch: micro_batch as usize,
            data_rank: self.data_rank,
            of: of.clone(),
            value: in_words(sum as f32),
            is_again: again.iter().any(|(again, _)| again.0 == micro_batch),
        };
        Ok(Findings { weight, losses: losses.into_iter().map(loss).collect(), outputs, gradient })
    }

    /// The first weight at rest that is not finite.
    fn first_broken_weight(&self, at_once: usize) -> Result<Option<BrokenWeight>, Cause> {
        for (&id, store) in &self.stores {
            let unit = &self.plan.unit(id).unit;
            for (index, part) in store.parts.iter().enumerate() {
                if matches!(part.weights, Weights::Tied) {
                    continue;
                }
                let (held, weights) = (part.held(), part.parameters().view());
                for piece in pieces_of(unit.entries_of(index), held.clone()) {
                    let here = piece.range.start - held.start..piece.range.end - held.start;
                    let found = first_not_finite(&*self.queue, &self.scratch, weights.range(here), at_once)?;
                    let Some((at, value)) = found else { continue };
                    let (spec, element) = (&piece.entry.spec, piece.in_parameter().start + at);
                    let number = unit.entries().iter().position(|entry| entry.spec.name == spec.name);
                    return Ok(Some(BrokenWeight {
                        unit: id.index(),
                        order: (number.unwrap_or_default(), element),
                        rank: self.comm.rank(),
                        name: spec.name.clone(),
                        index: index_of(&spec.shape, element),
                        value: in_words(value),
                    }));
                }
            }
        }
        Ok(None)
    }

    /// The gradient of the last unit on this rank that is not finite, as the step left it.
    fn first_broken_gradient(&mut self) -> Result<Option<BrokenGradient>, Cause> {
        let has_gradient = |unit: &Unit| !self.plan.unit(*unit).is_frozen;
        let units: Vec<Unit> = self.stores.keys().copied().filter(has_gradient).collect();
        for unit in units.into_iter().rev() {
            let store = &self.stores[&unit];
            self.results.clear(&*self.queue);
            for part in store.parts.iter().filter(|part| part.is_trained()) {
                self.results.add_squares(&*self.queue, part.counted_gradient());
            }
            if self.results()?.squares.is_finite() {
                continue;
            }
            let units_behind = self.plan.units().len() - 1 - unit.index();
            let layers = self.plan.unit(unit).layers.clone();
            let mut names = layers.map(|layer| self.plan.graph().layer(layer).name.clone());
            let first = names.next().unwrap_or_default();
            let layers = names.next_back().map_or_else(|| first.clone(), |last| format!("{first} to {last}"));
            return Ok(Some(BrokenGradient {
                units_behind,
                rank: self.comm.rank(),
                unit: unit.index(),
                layers,
            }));
        }
        Ok(None)
    }
}
