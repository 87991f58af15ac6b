//! `optimizer`: which, and its hyper-parameters.

use crate::raw::{RawOptimizer, RawRun};
use crate::resolved::{NoDecay, OptimizerConfig};
use crate::section::Field;
use crate::words::OptimizerWord;

pub(super) fn resolve(raw: &RawOptimizer) -> Option<OptimizerConfig> {
    let params = &raw.params;
    let no_decay = no_decay(raw);
    let lr = params.lr.not_negative(params.lr.auto_or(1e-3));
    let weight_decay = params.weight_decay.not_negative(params.weight_decay.auto_or(0.0));
    match raw.r#type.or(OptimizerWord::AdamW)? {
        OptimizerWord::AdamW | OptimizerWord::Adam => {
            let betas = params.betas.auto_or((0.9, 0.999)).and_then(|(first, second)| {
                let first = params.betas.below_one(Some(first), 0.9)?;
                Some((first, params.betas.below_one(Some(second), 0.9)?))
            });
            let rule = "it keeps the division by the second moment's root finite: it must be positive";
            let eps = params.eps.auto_or(1e-8);
            let eps = params.eps.keep(eps, |eps| eps > 0.0, rule, "use a value such as 1e-8");
            not_of(&params.momentum, "SGD: AdamW keeps its moments by `betas`")?;
            Some(OptimizerConfig::AdamW {
                lr: lr?,
                betas: betas?,
                eps: eps?,
                weight_decay: weight_decay?,
                no_decay: no_decay?,
            })
        }
        OptimizerWord::Sgd => {
            let momentum = params.momentum.below_one(params.momentum.auto_or(0.0), 0.9);
            let betas = not_of(&params.betas, "AdamW: SGD has one `momentum`");
            let eps = not_of(&params.eps, "AdamW: SGD divides by nothing");
            betas.and(eps)?;
            Some(OptimizerConfig::Sgd {
                lr: lr?,
                momentum: momentum?,
                weight_decay: weight_decay?,
                no_decay: no_decay?,
            })
        }
    }
}

/// Whether a path leads to a parameter of an optimizer or scheduler whose type is not offered: what it would mean is not known then.
pub(crate) fn is_of_unknown_type(raw: &RawRun, path: &str) -> bool {
    let is_unknown = |is_written: bool, is_given: bool| is_written && !is_given;
    let (optimizer, scheduler) = (&raw.optimizer.r#type, &raw.scheduler.r#type);
    path.starts_with("optimizer.params.") && is_unknown(optimizer.is_written(), optimizer.given().is_some())
        || path.starts_with("scheduler.params.")
            && is_unknown(scheduler.is_written(), scheduler.given().is_some())
}

/// Reports a parameter that belongs to another optimizer or schedule.
pub(super) fn not_of<T: Clone>(field: &Field<T>, owner: &str) -> Option<()> {
    field.absent(|_| "set".to_owned(), &format!("it belongs to {owner}"))
}

fn no_decay(raw: &RawOptimizer) -> Option<NoDecay> {
    if !raw.no_decay.is_written() {
        return Some(NoDecay::OneDimensional);
    }
    let patterns = raw.no_decay.given()?;
    if patterns.iter().any(String::is_empty) {
        let rule = "the empty pattern is part of every name, so nothing would be decayed";
        return raw.no_decay.broken("[\"\"]", rule, "set `optimizer.params.weight_decay` to 0 instead");
    }
    Some(NoDecay::Patterns(patterns))
}
