//! Before the first pass: backwards that do nothing come right after their forwards.
//!
//! In front of all that is trained a backward only ends the use of a stage's activations, and no gradient is awaited for it. Where schedules have
//! it, after the backwards of later stages, a stage would hold activations of as many micro-batches as if it were trained. So it is moved to its
//! forward, and the stage holds what it needs in an evaluation. Not so where the next stage lies on the same rank: it reads the output
//! where it lies.

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::chain::Chain;
use crate::order::{ComputeKind, StageAction};

/// A row whose stages are all in the chain, with such backwards moved.
pub(super) fn moved<'a>(row: &'a [StageAction], chain: &Chain) -> Cow<'a, [StageAction]> {
    if !row.iter().any(|action| chain.ends_with_forward(action.stage)) {
        return Cow::Borrowed(row);
    }
    // `[stage, micro-batch]`: what comes behind the forward; a backward before its forward stays, for the check to refuse.
    let mut behind: BTreeMap<_, Vec<StageAction>> = BTreeMap::new();
    let mut kept = Vec::with_capacity(row.len());
    for &action in row {
        let of = (action.stage, action.micro_batch);
        if action.kind == ComputeKind::Forward && chain.ends_with_forward(action.stage) {
            behind.entry(of).or_default();
        } else if let Some(behind) = behind.get_mut(&of) {
            behind.push(action);
            continue;
        }
        kept.push(action);
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
