//! Whether a checkpoint holds what a plan's ranks will.

use std::collections::HashMap;

use pipezero_config::model_sizes::first_difference;
use pipezero_models::parameter::ParameterSpec;
use pipezero_plan::Plan;
use serde_json::Value;

use super::weights_file::{Wanted, parameters_and_frozen};
use crate::checkpoint::{CheckpointError, CheckpointReader, Piece};

/// What is kept of each parameter.
pub(super) fn kinds(plan: &Plan) -> Vec<String> {
    let states = plan.run().optimizer.state_names();
    [Piece::PARAMETER].iter().chain(states).map(|&kind| kind.to_owned()).collect()
}

/// Checks that a checkpoint holds these parameters of a plan; and no others, if it is of the same model.
pub(super) fn check_model(
    plan: &Plan,
    from: &CheckpointReader,
    wanted: Wanted,
) -> Result<(), CheckpointError> {
    let other = |reason: String| CheckpointError::OtherModel { path: from.folder().to_owned(), reason };
    let records = &from.manifest().parameters;
    let shapes: HashMap<&str, &[usize]> = records.iter().map(|of| (&*of.name, &*of.shape)).collect();
    let mut num_parameters = 0;
    for spec in wanted.of(plan) {
        num_parameters += 1;
        let (name, needed) = (&spec.name, &spec.shape);
        let found = shapes.get(&**name).ok_or_else(|| {
            other(format!("it has no parameter `{name}`{}", wanted.fit(plan).unless_new(name)))
        })?;
        if found != needed {
            return Err(other(format!("its `{name}` is {found:?}, the model's {needed:?}")));
        }
    }
    // What weights compute depends on heads and angles too, which no shape shows.
    let fit = wanted.fit(plan);
    let of_family = from.manifest().run.pointer(&format!("/model/{}", plan.run().model.facts().family));
    let differs = of_family
        .and_then(Value::as_object)
        .and_then(|theirs| first_difference(theirs, &plan.run().model, fit));
    if let Some((key, found, needed)) = differs {
        return Err(other(format!("its `model.{key}` is {found}, the model's {needed}")));
    }
    if records.len() != num_parameters && !fit.may_differ() {
        let found = records.len();
        return Err(other(format!("it has {found} parameters, the model {num_parameters}")));
    }
    Ok(())
}

/// Checks that a checkpoint, of the model of a plan, holds the plan's optimizer state: of what it trains, and of nothing else.
pub(super) fn check_optimizer(plan: &Plan, from: &CheckpointReader) -> Result<(), CheckpointError> {
    let (path, manifest) = (from.folder().to_owned(), from.manifest());
    let needed = kinds(plan);
    if manifest.kinds != needed {
        let (found, needed) = (manifest.kinds.join(", "), needed.join(", "));
        return Err(CheckpointError::OtherOptimizer { path, found, needed });
    }
    let frozen: HashMap<&str, bool> =
        manifest.parameters.iter().map(|of| (&*of.name, of.is_frozen)).collect();
    let differs = |(spec, is_frozen): &(&ParameterSpec, bool)| frozen.get(&*spec.name) != Some(is_frozen);
    if let Some((spec, is_frozen)) = parameters_and_frozen(plan).find(differs) {
        let (name, was_frozen) = (spec.name.clone(), !is_frozen);
        return Err(CheckpointError::OtherTrained { path, name, was_frozen });
    }
    Ok(())
}
