//! `data` and `evaluation`: the text, its split, and how often the rest is used.

use std::path::Path;

use crate::config::kind::Either;
use crate::config::raw::{RawData, RawEvaluation, RawRun};
use crate::config::resolved::{DataConfig, EvaluationConfig, ModelConfig};
use crate::config::section::Head;
use crate::files::json::shorten;

use super::model;

/// `data`. Whether the files exist is for the reader of the text to say ([`check_texts`]): a plan needs none of them.
/// A model that `reads_text` needs it.
pub(super) fn resolve(raw: &RawData, reads_text: bool, folder: &Path) -> Option<DataConfig> {
    if !reads_text {
        no_effect(&raw.head, "a timed model reads no text");
        return Some(DataConfig { text: Vec::new(), validation: 0.0, document_attention: false });
    }
    let rule = "there is nothing to train on";
    if !raw.head.is_written {
        return raw.head.site.missing(
            rule,
            "add it with files, folders or globs, such as \"data\": {\"text\": \"texts/*.txt\"}",
        );
    }
    let text = raw.text.required(rule, "add files, folders or globs").map(list).and_then(|paths| {
        if paths.is_empty() || paths.iter().any(String::is_empty) {
            let rule = "it must name at least one file, folder or glob, and none may be empty";
            return raw.text.broken("empty", rule, "add one");
        }
        Some(paths)
    });
    let validation = raw.validation.keep(
        raw.validation.or(0.05),
        |share| (0.0..=0.5).contains(&share),
        "it is a share of the text, from 0 to 0.5",
        "use a value such as 0.05",
    );
    let text = text?.iter().map(|path| folder.join(path)).collect();
    Some(DataConfig { text, validation: validation?, document_attention: raw.document_attention.or(false)? })
}

/// Of a model without attention, a token sees no other in any case, and it has no positions.
pub(super) fn check_documents(raw: &RawData, model: Option<&ModelConfig>) {
    if raw.document_attention.given() == Some(true) && matches!(model, Some(ModelConfig::Mlp(_))) {
        raw.document_attention.site.hint("no effect here: the mlp family has no attention and no positions");
    }
}

fn list(text: Either<String, Vec<String>>) -> Vec<String> {
    match text {
        Either::First(path) => vec![path],
        Either::Second(paths) => paths,
    }
}

/// Reports every entry of `data.text` of which `fault` knows one, given its path.
pub(crate) fn check_texts(raw: &RawRun, folder: &Path, fault: &dyn Fn(&Path) -> Option<String>) {
    if !model::may_read_text(&raw.model) {
        return;
    }
    let entries = raw.data.text.given().map(list).unwrap_or_default();
    for entry in entries.iter().filter(|entry| !entry.is_empty()) {
        if let Some(fault) = fault(&folder.join(entry)) {
            let repair = "relative paths start at the run file's folder";
            raw.data.text.broken::<()>(format!("\"{}\"", shorten(entry)), fault, repair);
        }
    }
}

fn no_effect(head: &Head, why: &str) {
    if head.is_written {
        head.site.hint(format!("no effect here: {why}"));
    }
}

/// `evaluation`, of the text that is kept for validation.
pub(super) fn resolve_evaluation(raw: &RawEvaluation, reads_text: bool) -> Option<EvaluationConfig> {
    if !reads_text {
        no_effect(&raw.head, "a timed model learns nothing that could be evaluated");
    }
    let rule = "an evaluation needs at least one batch";
    let repair = "use 1 or more, or set `data.validation` to 0";
    let batches = raw.batches.keep(raw.batches.or(8), |batches| batches > 0, rule, repair);
    Some(EvaluationConfig { every: raw.every.or(0)?, batches: batches? })
}
