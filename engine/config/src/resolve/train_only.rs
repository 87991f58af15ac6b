//! `train_only`.

use crate::raw::RawRun;
use crate::resolved::NamePattern;

/// `Some(None)` where every layer is trained.
pub(super) fn resolve(raw: &RawRun) -> Option<Option<Vec<NamePattern>>> {
    let field = &raw.train_only;
    if !field.is_written() {
        return Some(None);
    }
    let patterns = field.given()?;
    if patterns.is_empty() {
        let rule = "it matches nothing, so nothing would be trained";
        return field.broken(
            "[]",
            rule,
            "name a layer such as \"lm_head\", or remove the key, which trains everything",
        );
    }
    Some(Some(patterns))
}
