//! Keys without effect, wherever they stand: hints get their line, what is not offered its error.

use crate::config::findings::Findings;
use crate::config::keys::Meaning;
use crate::config::notice::Notice;
use crate::config::raw::RawRun;
use crate::config::section::{Foreign, Section};

/// Reports every key without effect.
pub(super) fn check(raw: &RawRun, findings: &mut Findings) {
    let mut heads = Vec::new();
    raw.heads(&mut heads);
    let zero_path = raw.zero_optimization.head.place.path.as_str();
    for head in heads.into_iter().filter(|head| head.place.path != zero_path) {
        for foreign in &head.foreign {
            report(foreign, findings);
        }
    }
    zero(raw, findings);
}

/// Keys of `zero_optimization`. Those that shape ZeRO-3 alone ask for nothing beside a lower level: one warning names
/// them together, the engine's own included.
fn zero(raw: &RawRun, findings: &mut Findings) {
    let zero = &raw.zero_optimization;
    let level = zero.stage.or(0);
    let lower = matches!(level, Some(0..=2));
    let mut idle: Vec<String> = Vec::new();
    for foreign in &zero.head.foreign {
        if lower && foreign.key.is_zero3_alone() {
            idle.push(format!("`{}`", foreign.key.name));
        } else {
            report(foreign, findings);
        }
    }
    let own = [
        ("resident_units", zero.resident_units.is_written()),
        ("prefetch_units", zero.prefetch_units.is_written()),
        ("stage3_param_persistence_threshold", zero.stage3_param_persistence_threshold.is_written()),
        ("stage3_model_persistence_threshold", zero.stage3_model_persistence_threshold.is_written()),
    ];
    idle.extend(own.iter().filter(|(_, written)| lower && *written).map(|(name, _)| format!("`{name}`")));
    if let (Some(level), false) = (level, idle.is_empty()) {
        let keys = idle.join(", ");
        let message = format!(
            "ZeRO-{level} keeps every parameter gathered, so these keys of ZeRO-3 have no effect: {keys}"
        );
        findings.notices.push(Notice::warning(&zero.head.place, message));
    }
}

fn report(foreign: &Foreign, findings: &mut Findings) {
    let value = || foreign.node.describe();
    match &foreign.key.meaning {
        Meaning::Silent => {}
        Meaning::Hint(decides) => {
            findings.notices.push(Notice::hint(&foreign.place, format!("no effect here: {decides}")));
        }
        Meaning::NotOffered { off, what, repair } => {
            if !off.holds(&foreign.node) {
                findings.not_offered(&foreign.place, value(), *what, *repair);
            }
        }
        Meaning::NotOfferedYet { off, what, repair } => {
            if !off.holds(&foreign.node) {
                findings.not_yet(&foreign.place, value(), *what, *repair);
            }
        }
    }
}
