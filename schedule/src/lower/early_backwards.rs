//! Before the first pass: backwards that do nothing come right behind forwards.
//!
//! In front of all that is trained a backward only ends the use of a stage's activations, and no gradient is awaited for it. Where schedules have
//! it, behind the backwards of later stages, a stage would hold activations of as many micro-batches as if it were trained. So it is moved: behind
//! the stage's forward, or, where the next stage lies on the same rank and reads the output where it lies, behind that one's. Only where
//! that next stage is trained it stays.

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::chain::Chain;
use crate::order::{ComputeKind, StageAction};

/// A row whose stages are all in the chain, with such backwards moved.
pub(super) fn moved<'a>(row: &'a [StageAction], chain: &Chain) -> Cow<'a, [StageAction]> {
    if !row.iter().any(|action| chain.last_forward(action.stage).is_some()) {
        return Cow::Borrowed(row);
    }
    // `[stage, micro-batch]`: what comes behind the forward. What stands before it stays there, for the check to refuse.
    let mut behind: BTreeMap<_, Vec<StageAction>> = BTreeMap::new();
    let mut kept = Vec::with_capacity(row.len());
    for &action in row {
        let last_forward = chain.last_forward(action.stage).map(|stage| (stage, action.micro_batch));
        match last_forward.and_then(|of| behind.get_mut(&of)) {
            Some(behind) if action.kind != ComputeKind::Forward => behind.push(action),
            _ => kept.push(action),
        }
        if action.kind == ComputeKind::Forward && chain.ends_with_send(action.stage) {
            behind.entry((action.stage, action.micro_batch)).or_default();
        }
    }
    let mut moved = Vec::with_capacity(row.len());
    for action in kept {
        moved.push(action);
        if action.kind == ComputeKind::Forward {
            moved.extend(behind.remove(&(action.stage, action.micro_batch)).unwrap_or_default());
        }
    }
    Cow::Owned(moved)
}
