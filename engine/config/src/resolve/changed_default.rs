//! Defaults of DeepSpeed's that a release changed. A file that leaves such a key out was written for one of the two, so `check` says which
//! one it gets.
//!
//! Source: DeepSpeed's history of `runtime/constants.py` and `runtime/lr_schedules.py`, and the first release that has each change.

use serde::Serialize;

use crate::kind::Auto;
use crate::section::Field;

/// A default before and after it was changed.
pub(super) struct ChangedDefault {
    now: &'static str,
    /// The first release that has it, and when that was.
    since: &'static str,
    before: &'static str,
}

/// That of `gradient_clipping`.
pub(super) const GRADIENT_CLIPPING: ChangedDefault =
    ChangedDefault { now: "1.0", since: "0.19.3, June 2026", before: "0, which does not clip" };

/// That of WarmupLR's `warmup_max_lr`.
pub(super) const WARMUP_MAX_LR: ChangedDefault =
    ChangedDefault { now: "`optimizer.params.lr`", since: "0.17.2, June 2025", before: "0.001" };

/// That of `fp16.initial_scale_power`.
pub(super) const INITIAL_SCALE_POWER: ChangedDefault =
    ChangedDefault { now: "16", since: "0.8.0, January 2023", before: "32" };

impl ChangedDefault {
    /// Says that a key has this default, if it is not written.
    pub(super) fn say_of<T: Clone + Serialize>(&self, field: &Field<Auto<T>>) {
        if !field.is_written() {
            let Self { now, since, before } = self;
            field.site.default(format!(
                "not written, so it is {now}, as in DeepSpeed since {since}; before, it was {before}"
            ));
        }
    }
}
