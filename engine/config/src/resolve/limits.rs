//! Sizes beyond which a run cannot even be planned: no machine could hold it, or its program.
//!
//! Whether a run fits the memory of this host is asked when it starts; here is refused what would make the plan's own
//! arithmetic overflow or its program fill the memory.

use pipezero_models::facts::Activations;

use crate::findings::Site;
use crate::raw::RawRun;
use crate::resolved::{BatchConfig, ModelConfig, ParallelConfig};

use super::counted::counted;
use super::model_size::{self, Repairs};
use super::rules::{SHORTER, micro_batch_fits};
use crate::whole_number::MAX_COUNT;

/// Forwards of a step on one data rank, layers x micro-batches; each becomes a dozen instructions of the program.
const MAX_FORWARDS: f64 = 4_194_304.0;

/// Layers of the model; a plan looks at each many times over.
const MAX_LAYERS: usize = 32_768;

/// Ranks of the whole grid; each has a row in the forecast.
const MAX_RANKS: usize = 65_536;

/// Pipeline ranks; the time of a plan grows faster than their number.
pub(super) const MAX_PIPELINE: usize = 2048;

/// Patterns of a list x layers: each plan of a run looks for each of them in the names of each layer and of its parameters.
const MAX_LOOKS: usize = 65_536;

/// Letters of all patterns of a list: each plan of a run compiles them.
const MAX_LETTERS: usize = 65_536;

/// Threads of one rank; more than any host has cores.
const MAX_THREADS: usize = 4096;

/// Reports what is too large; `None` where something is, or is not known.
pub(super) fn check(
    raw: &RawRun,
    grid: Option<&ParallelConfig>,
    batch: Option<&BatchConfig>,
    model: Option<&ModelConfig>,
) -> Option<()> {
    patterns(raw, model);
    if let Some(grid) = grid.filter(|grid| grid.num_ranks() > MAX_RANKS) {
        let (ranks, pipeline) = (grid.num_ranks(), grid.pipeline);
        let rule = format!(
            "with `parallel.pipeline` {pipeline} that is {ranks} ranks, and a grid has at most {MAX_RANKS}"
        );
        raw.parallel.data.broken::<()>(grid.data, rule, "use a smaller grid");
    }
    if let Some(grid) = grid.filter(|grid| grid.pipeline > MAX_PIPELINE) {
        let rule = format!("a pipeline has at most {MAX_PIPELINE} ranks, so that a plan takes seconds");
        return raw.parallel.pipeline.broken(grid.pipeline, rule, "use fewer; `parallel.data` may be larger");
    }
    let (batch, model) = (batch?, model?);
    let num_layers = model.num_layers();
    if num_layers > MAX_LAYERS {
        let rule = format!("a model has at most {MAX_LAYERS}, so that a plan takes seconds");
        let repairs = Repairs { of_key: "use fewer", of_folder: "name another model" };
        return model_size::broken(&raw.model, &raw.model.num_layers, num_layers, rule, repairs);
    }
    let forwards = num_layers as f64 * batch.num_micro_batches as f64;
    if forwards > MAX_FORWARDS {
        let rule = format!(
            "with {} that is more than {MAX_FORWARDS} forwards of a layer in a step, too many for a program",
            counted(batch.num_micro_batches, "micro-batch")
        );
        let repairs = Repairs { of_key: "use fewer of either", of_folder: "use fewer micro-batches" };
        return model_size::broken(&raw.model, &raw.model.num_layers, num_layers, rule, repairs);
    }
    micro_batch_fits(raw, batch, model)?;
    let activations = model.facts().activations;
    // A bound for the elements that one block saves of a micro-batch.
    let saved = activations.saved_by_block(batch.micro_batch_size, model.seq_length());
    if forwards * saved <= MAX_COUNT {
        return Some(());
    }
    // It is reported at the size that causes it.
    let layers = counted(num_layers, "layer");
    let micro_batches = counted(batch.num_micro_batches, "micro-batch");
    if let Activations::Given { elements } = activations {
        let rule = format!(
            "the activations that {layers} would keep for the backward of {micro_batches} are more than 2^53 elements, \
             too many to count exactly"
        );
        return raw.model.activation_elements.broken(elements, rule, "use a smaller number");
    }
    let rule = format!(
        "the activations that {layers} would keep for the backward of {micro_batches} of {} of this length are more than \
         2^53 elements, too many to count exactly",
        counted(batch.micro_batch_size, "sequence")
    );
    model_size::broken(&raw.model, &raw.model.seq_length, model.seq_length(), rule, SHORTER)
}

/// Refuses more patterns than can be looked for in the names of so many layers within seconds.
fn patterns(raw: &RawRun, model: Option<&ModelConfig>) -> Option<()> {
    let num_layers = model?.num_layers();
    let max = MAX_LOOKS / num_layers.max(1);
    let rule = format!(
        "each is looked for in the names of {}, and patterns x layers are at most {MAX_LOOKS}",
        counted(num_layers, "layer")
    );
    let repair = format!("use at most {max}, several names in each: \"wte|lm_head\"");
    let letters = format!("its patterns have at most {MAX_LETTERS} letters together");
    let zero = &raw.zero_optimization.parameters;
    let of_zero = zero.given().map(|list| list.iter().map(|rule| rule.pattern.len()).collect());
    let of_trained = raw.train_only.given().map(|list| list.iter().map(|of| of.to_string().len()).collect());
    let of_new = raw.init.new.given().map(|list| list.iter().map(|of| of.to_string().len()).collect());
    let lists: [(Option<Vec<usize>>, &Site); 3] =
        [(of_zero, &zero.site), (of_trained, &raw.train_only.site), (of_new, &raw.init.new.site)];
    for (lens, site) in lists {
        let Some(lens) = lens else { continue };
        let value = format!("a list of {}", counted(lens.len(), "pattern"));
        if lens.len() > max {
            site.broken::<()>(value, &rule, &repair);
        } else if lens.iter().sum::<usize>() > MAX_LETTERS {
            site.broken::<()>(value, &letters, "use fewer or shorter ones");
        }
    }
    Some(())
}

/// Refuses more threads than any host has cores for.
pub(super) fn threads(raw: &RawRun, threads: Option<usize>) -> Option<usize> {
    let rule = format!("a rank has at most {MAX_THREADS} threads");
    raw.threads.keep(threads, |threads| threads <= MAX_THREADS, &rule, "use \"auto\"")
}
