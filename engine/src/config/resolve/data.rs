//! `data` and `evaluation`: the text, its split, and how often the rest is used.

use std::path::Path;

use crate::config::findings::Findings;
use crate::config::kind::Either;
use crate::config::notice::Notice;
use crate::config::raw::{RawData, RawEvaluation, RawRun};
use crate::config::resolved::{DataConfig, EvaluationConfig};
use crate::config::section::Head;
use crate::files::json::shorten;

use super::model;

/// `data`. Whether the files exist is for the reader of the text to say ([`check_texts`]): a plan needs none of them.
/// A model that `reads_text` needs it.
pub(super) fn resolve(
    raw: &RawData,
    reads_text: bool,
    folder: &Path,
    findings: &mut Findings,
) -> Option<DataConfig> {
    if !reads_text {
        no_effect(&raw.head, "a timed model reads no text", findings);
        return Some(DataConfig { text: Vec::new(), validation: 0.0 });
    }
    if !raw.head.is_written {
        let repair = "add a `data` with `text`: files, folders or globs";
        findings.missing(&raw.head.place, "there is nothing to train on", repair);
        return None;
    }
    let text = raw.text.required(findings, "there is nothing to train on", "add files, folders or globs");
    let text = match text {
        Some(Either::First(path)) => Some(vec![path]),
        Some(Either::Second(paths)) => Some(paths),
        None => None,
    };
    let text = text.filter(|paths| {
        let broken = paths.is_empty() || paths.iter().any(String::is_empty);
        if broken {
            let rule = "it must name at least one file, folder or glob, and none may be empty";
            findings.broken(&raw.text.place, "empty", rule, "add one");
        }
        !broken
    });
    let validation = raw.validation.or(0.05).filter(|share| {
        let holds = (0.0..=0.5).contains(share);
        if !holds {
            let rule = "it is a share of the text, from 0 to 0.5";
            findings.broken(&raw.validation.place, share, rule, "use a value such as 0.05");
        }
        holds
    });
    Some(DataConfig { text: text?.iter().map(|path| folder.join(path)).collect(), validation: validation? })
}

/// Reports every entry of `data.text` of which `fault` knows one, given its path.
pub(crate) fn check_texts(
    raw: &RawRun,
    folder: &Path,
    fault: &dyn Fn(&Path) -> Option<String>,
    findings: &mut Findings,
) {
    if !model::may_read_text(&raw.model) {
        return;
    }
    let entries = match raw.data.text.given() {
        Some(Either::First(entry)) => vec![entry],
        Some(Either::Second(entries)) => entries,
        None => Vec::new(),
    };
    for entry in entries.iter().filter(|entry| !entry.is_empty()) {
        if let Some(fault) = fault(&folder.join(entry)) {
            let repair = "relative paths start at the run file's folder";
            findings.broken(&raw.data.text.place, format!("\"{}\"", shorten(entry)), fault, repair);
        }
    }
}

fn no_effect(head: &Head, why: &str, findings: &mut Findings) {
    if head.is_written {
        findings.notices.push(Notice::hint(&head.place, format!("no effect here: {why}")));
    }
}

/// `evaluation`, of the text that is kept for validation.
pub(super) fn resolve_evaluation(
    raw: &RawEvaluation,
    reads_text: bool,
    findings: &mut Findings,
) -> Option<EvaluationConfig> {
    if !reads_text {
        no_effect(&raw.head, "a timed model learns nothing that could be evaluated", findings);
    }
    let batches = raw.batches.or(8).filter(|&batches| {
        if batches == 0 {
            let rule = "an evaluation needs at least one batch";
            findings.broken(
                &raw.batches.place,
                batches,
                rule,
                "use 1 or more, or set `data.validation` to 0",
            );
        }
        batches > 0
    });
    Some(EvaluationConfig { every: raw.every.or(0)?, batches: batches? })
}
