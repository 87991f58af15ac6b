//! `optimizer`: which, and its hyper-parameters.

use crate::config::findings::Findings;
use crate::config::kind::Auto;
use crate::config::raw::{RawOptimizer, RawOptimizerParams};
use crate::config::resolved::{NoDecay, OptimizerConfig};
use crate::config::section::Field;
use crate::config::words::{OptimizerWord, Unoffered, refuse};

use super::rules::{below_one, not_negative};

/// DeepSpeed's others.
const UNOFFERED: Unoffered = Unoffered {
    later: &[],
    never: &[
        "OneBitAdam",
        "ZeroOneAdam",
        "OneBitLamb",
        "Lamb",
        "Lion",
        "Adagrad",
        "Muon",
        "MuAdam",
        "MuAdamW",
        "MuSGD",
        "CPUAdam",
    ],
};

pub(super) fn resolve(raw: &RawOptimizer, findings: &mut Findings) -> Option<OptimizerConfig> {
    let params = &raw.params;
    let no_decay = no_decay(raw, findings);
    let lr = not_negative(&params.lr, value(&params.lr, 1e-3), findings);
    let weight_decay = not_negative(&params.weight_decay, value(&params.weight_decay, 0.0), findings);
    match raw.r#type.or(OptimizerWord::AdamW)? {
        OptimizerWord::AdamW | OptimizerWord::Adam => {
            let betas = betas(params, findings);
            let eps = eps(params, findings);
            not_of(&params.momentum, "SGD", "AdamW keeps its moments by `betas`", findings)?;
            Some(OptimizerConfig::AdamW {
                lr: lr?,
                betas: betas?,
                eps: eps?,
                weight_decay: weight_decay?,
                no_decay: no_decay?,
            })
        }
        OptimizerWord::Sgd => {
            let momentum = below_one(&params.momentum, value(&params.momentum, 0.0), 0.9, findings);
            let betas = not_of(&params.betas, "AdamW", "SGD has one `momentum`", findings);
            let eps = not_of(&params.eps, "AdamW", "SGD divides by nothing", findings);
            betas.and(eps)?;
            Some(OptimizerConfig::Sgd {
                lr: lr?,
                momentum: momentum?,
                weight_decay: weight_decay?,
                no_decay: no_decay?,
            })
        }
        OptimizerWord::Other(word) => {
            refuse(findings, &raw.r#type.place, &word, OptimizerWord::OFFERED, &UNOFFERED);
            None
        }
    }
}

/// The written value, or `default` where none is written or it is `"auto"`.
fn value<T: Clone>(field: &Field<Auto<T>>, default: T) -> Option<T> {
    Some(field.or(Auto::Auto)?.value().unwrap_or(default))
}

fn betas(params: &RawOptimizerParams, findings: &mut Findings) -> Option<(f64, f64)> {
    let (first, second) = value(&params.betas, (0.9, 0.999))?;
    let first = below_one(&params.betas, Some(first), 0.9, findings)?;
    let second = below_one(&params.betas, Some(second), 0.9, findings)?;
    Some((first, second))
}

fn eps(params: &RawOptimizerParams, findings: &mut Findings) -> Option<f64> {
    let eps = value(&params.eps, 1e-8)?;
    if eps <= 0.0 {
        let rule = "it keeps the division by the second moment's root finite: it must be positive";
        findings.broken(&params.eps.place, eps, rule, "use a value such as 1e-8");
        return None;
    }
    Some(eps)
}

/// Reports a parameter that belongs to another optimizer.
fn not_of<T: Clone>(field: &Field<T>, owner: &str, why: &str, findings: &mut Findings) -> Option<()> {
    if field.given().is_some() {
        findings.broken(&field.place, "set", format!("it belongs to {owner}: {why}"), "remove it");
    }
    (!field.is_written()).then_some(())
}

fn no_decay(raw: &RawOptimizer, findings: &mut Findings) -> Option<NoDecay> {
    if !raw.no_decay.is_written() {
        return Some(NoDecay::OneDimensional);
    }
    let patterns = raw.no_decay.given()?;
    if patterns.iter().any(String::is_empty) {
        let rule = "the empty pattern is part of every name, so nothing would be decayed";
        findings.broken(
            &raw.no_decay.place,
            "[\"\"]",
            rule,
            "set `optimizer.params.weight_decay` to 0 instead",
        );
        return None;
    }
    Some(NoDecay::Patterns(patterns))
}
