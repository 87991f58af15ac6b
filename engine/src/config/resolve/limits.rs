//! Sizes beyond which a run cannot even be planned: no machine could hold it, or its program.
//!
//! Whether a run fits the memory of this host is asked when it starts; here is refused what would make the plan's own
//! arithmetic overflow or its program fill the memory.

use pipezero_models::facts::Activations;

use crate::config::findings::Findings;
use crate::config::raw::RawRun;
use crate::config::resolved::{BatchConfig, ModelConfig};

use super::counted::counted;
use super::grid::Grid;
use super::rules::{MAX_COUNT, micro_batch_fits};

/// Forwards of a step on one data rank, layers x micro-batches; each becomes a dozen instructions of the program.
const MAX_FORWARDS: f64 = 4_194_304.0;

/// Layers of the model; a plan looks at each many times over.
const MAX_LAYERS: usize = 131_072;

/// Ranks of the whole grid; each has a row in the forecast.
const MAX_RANKS: usize = 65_536;

/// Threads of one rank; more than any host has cores.
const MAX_THREADS: usize = 4096;

pub(super) fn check(
    raw: &RawRun,
    grid: Option<&Grid>,
    batch: Option<&BatchConfig>,
    model: Option<&ModelConfig>,
    findings: &mut Findings,
) {
    if let Some(grid) = grid
        && grid.num_ranks() > MAX_RANKS
    {
        let (ranks, pipeline) = (grid.num_ranks(), grid.pipeline);
        let rule = format!("at `parallel.pipeline` {pipeline} that is {ranks} ranks, of at most {MAX_RANKS}");
        findings.broken(&raw.parallel.data.place, grid.data, rule, "use a smaller grid");
    }
    let (Some(batch), Some(model)) = (batch, model) else { return };
    let num_layers = model.num_layers();
    if num_layers > MAX_LAYERS {
        let rule = format!("a model has at most {MAX_LAYERS}, so that a plan takes seconds");
        findings.broken(&raw.model.num_layers.place, num_layers, rule, "use fewer");
        return;
    }
    let forwards = num_layers as f64 * batch.num_micro_batches as f64;
    if forwards > MAX_FORWARDS {
        let rule = format!(
            "with {} that is more than {MAX_FORWARDS} forwards of a layer in a step, too many for a program",
            counted(batch.num_micro_batches, "micro-batch")
        );
        findings.broken(&raw.model.num_layers.place, num_layers, rule, "use fewer of either");
    } else if micro_batch_fits(raw, batch, model, findings)
        && forwards * saved_by_block(model, batch) > MAX_COUNT
    {
        refuse_activations(raw, batch, model, findings);
    }
}

/// Refuses activations too large to count, and reports this at the size that causes it.
fn refuse_activations(raw: &RawRun, batch: &BatchConfig, model: &ModelConfig, findings: &mut Findings) {
    let num_layers = model.num_layers();
    let micro_batches = counted(batch.num_micro_batches, "micro-batch");
    if let Activations::Given { elements } = model.facts().activations {
        let rule = format!("what {num_layers} layers save of {micro_batches} is more than 2^53 elements");
        let place = &raw.model.activation_elements.place;
        return findings.broken(place, elements, rule, "use a smaller one");
    }
    let rule = format!(
        "what {num_layers} layers save of {micro_batches} x {} of that length is more than 2^53 elements",
        counted(batch.micro_batch_size, "sequence")
    );
    let place = &raw.model.seq_length.place;
    findings.broken(place, model.seq_length(), rule, "use shorter or fewer sequences");
}

/// A bound for the elements that one block saves of a micro-batch.
fn saved_by_block(model: &ModelConfig, batch: &BatchConfig) -> f64 {
    model.facts().activations.saved_by_block(batch.micro_batch_size, model.seq_length())
}

/// Refuses more threads than any host has cores for.
pub(super) fn threads(raw: &RawRun, threads: Option<usize>, findings: &mut Findings) -> Option<usize> {
    let threads = threads?;
    if threads > MAX_THREADS {
        let rule = format!("a rank has at most {MAX_THREADS} threads");
        findings.broken(&raw.threads.place, threads, rule, "use \"auto\"");
        return None;
    }
    Some(threads)
}
