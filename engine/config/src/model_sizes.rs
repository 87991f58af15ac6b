//! A model's sizes by their names in run files, and the first in which two models differ.

use pipezero_models::ModelConfig;
use serde_json::{Map, Value};

use crate::hugging_face::Fit;

/// What a run may choose: none of it changes what weights compute.
const OF_THE_RUN: [&str; 3] = ["seq_length", "init_std", "dropout"];

/// A model's sizes by their names.
pub fn sizes(model: &ModelConfig) -> Map<String, Value> {
    let value = serde_json::to_value(model).expect("sizes are numbers and words");
    let Value::Object(family) = value else { unreachable!("a family stands around its sizes") };
    match family.into_iter().next() {
        Some((_, Value::Object(sizes))) => sizes,
        _ => unreachable!("a family stands around its sizes"),
    }
}

/// Those with which weights compute what they do, without the ones that each run has of its own.
pub fn sizes_of_weights(model: &ModelConfig) -> Map<String, Value> {
    let mut sizes = sizes(model);
    OF_THE_RUN.iter().for_each(|key| drop(sizes.remove(*key)));
    sizes
}

/// Those that shapes of parameters show.
const OF_SHAPES: [&str; 5] = ["num_layers", "vocab_size", "hidden_size", "ffn_hidden_size", TIE];
const TIE: &str = "tie_embeddings";

/// The first size of a model that is another in a run's, with both values: its weights would compute something else there. Where weights and model may differ,
/// those that shapes of parameters show are left to the shapes.
pub fn first_difference(
    theirs: &Map<String, Value>,
    run: &ModelConfig,
    fit: Fit,
) -> Option<(String, Value, Value)> {
    let ours = sizes(run);
    // An untied head that the run ties would be dropped without a word.
    let is_dropped = |key: &str, theirs: &Value| key == TIE && *theirs == Value::Bool(false);
    let is_compared = |key: &str, theirs: &Value| {
        // A family without attention does not read how many heads there are.
        let is_read = key != "num_attention_heads" || run.num_attention_heads().is_some();
        let is_shown = fit.may_differ() && OF_SHAPES.contains(&key) && !is_dropped(key, theirs);
        !OF_THE_RUN.contains(&key) && is_read && !is_shown
    };
    let compared = theirs.iter().filter(|(key, theirs)| is_compared(key.as_str(), theirs));
    let mut other = compared.filter(|(key, theirs)| ours.get(*key).is_some_and(|ours| ours != *theirs));
    other.next().map(|(key, theirs)| (key.clone(), theirs.clone(), ours[key].clone()))
}
