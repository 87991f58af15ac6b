//! Batches of texts, with what a loss reads of each token.

use std::sync::{Arc, Mutex, PoisonError};

use pipezero::Plan;
use pipezero::models::layer::IGNORED_TARGET;
use pipezero::run::data::{BatchSource, TokenBatch};
use pipezero::run::engine::batch_layout;

use super::language::{goodness, text};
use super::{TEXTS, TOKENS};

/// The texts that the actor wrote last, and what its loss and the critic's read of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Rollout {
    /// `[text][token]`.
    pub(super) texts: Vec<Vec<u32>>,
    /// `[text]`: of each token that was written, its log-probability then and its advantage.
    pub(super) of_actor: Vec<Vec<f32>>,
    /// `[text]`: of each token that was written, what the critic should have said before it.
    pub(super) of_critic: Vec<Vec<f32>>,
}

/// The rollout that the loop and the sources of all engines share.
pub(super) type Newest = Arc<Mutex<Rollout>>;

/// Locks the newest rollout and hands it to a function.
pub(super) fn with<R>(newest: &Newest, use_it: impl FnOnce(&mut Rollout) -> R) -> R {
    use_it(&mut newest.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Selects the values that a loss reads from a rollout: `[text]`, those of all its tokens.
pub(super) type Read = fn(&Rollout) -> &[Vec<f32>];

/// The newest rollout, whichever step asks: a round has more than one step.
pub(super) fn of_newest(plan: &Plan, newest: &Newest, read: Read) -> Arc<dyn BatchSource> {
    let newest = Arc::clone(newest);
    source(plan, move |_, sequence, row, batch| {
        with(&newest, |rollout| {
            write(batch, row, &rollout.texts[sequence]);
            if let Some(inputs) = read(rollout).get(sequence) {
                batch.loss_inputs.extend_from_slice(inputs);
            }
        });
    })
}

/// Texts of the language, others in each step.
pub(super) fn of_language(plan: &Plan) -> Arc<dyn BatchSource> {
    source(plan, |step, sequence, row, batch| write(batch, row, &text(number(step, sequence))))
}

/// The same, and how good each is after each of its tokens.
pub(super) fn of_goodness(plan: &Plan) -> Arc<dyn BatchSource> {
    source(plan, |step, sequence, row, batch| {
        let text = text(number(step, sequence));
        write(batch, row, &text);
        // Values have no token as their target. One that is not ignored says that the value counts.
        batch.targets[row * TOKENS..][..TOKENS].fill(0);
        batch.loss_inputs.extend(goodness(&text));
    })
}

fn number(step: u64, sequence: usize) -> u64 {
    step * TEXTS as u64 + sequence as u64
}

/// A source that fills row after row of a micro-batch, each with a sequence of the step's batch.
fn source(
    plan: &Plan,
    fill: impl Fn(u64, usize, usize, &mut TokenBatch) + Send + Sync + 'static,
) -> Arc<dyn BatchSource> {
    let layout = batch_layout(plan);
    Arc::new(move |step: u64, data_rank: usize, micro_batch: usize, batch: &mut TokenBatch| {
        let first = (data_rank * layout.num_micro_batches + micro_batch) * layout.micro_batch_size;
        for row in 0..layout.micro_batch_size {
            fill(step, first + row, row, batch);
        }
        Ok(())
    })
}

/// A text as a row of a micro-batch: the target of each token is the next one, and the last has none.
fn write(batch: &mut TokenBatch, row: usize, text: &[u32]) {
    let range = row * TOKENS..(row + 1) * TOKENS;
    batch.inputs[range.clone()].copy_from_slice(text);
    let targets = &mut batch.targets[range];
    targets[..TOKENS - 1].copy_from_slice(&text[1..]);
    targets[TOKENS - 1] = IGNORED_TARGET;
}
