//! The scale of the loss in fp16: large enough that small gradients survive, small enough that large ones do not
//! overflow.
//!
//! DeepSpeed's rule (`runtime/fp16/loss_scaler.py`): a step whose gradients overflow is left out, and from the
//! `hysteresis`-th of them on each halves the scale; `window + 1` steps without overflow double it, and then every
//! further `window`. Source of the method: Micikevicius et al., "Mixed Precision Training", arXiv:1710.03740, section
//! 3.2.

use pipezero_config::{LossScaling, Precision};
use serde::{Deserialize, Serialize};

/// The scale of the coming step and how it came to be.
#[derive(Clone, Debug, PartialEq)]
pub struct LossScaler {
    scaling: LossScaling,
    state: LossScale,
}

/// What a scaler knows beside its rule: what a checkpoint keeps of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LossScale {
    /// What the loss is multiplied by.
    pub scale: f64,
    /// Overflows until the scale is halved, the one that halves it counted.
    hysteresis_left: u32,
    /// Steps done, and the last one that overflowed; -1 before there was one, as the window starts with step 0.
    step: i64,
    last_overflow: i64,
}

/// What the scale became after a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ScaleChange {
    /// It stays as it is.
    Kept,
    /// Doubled or halved.
    To(f64),
    /// The step overflowed at the least scale: nothing is left to try.
    Exhausted,
}

impl LossScaler {
    /// The scaler of a run; `None` where nothing needs scaling.
    pub fn new(precision: Precision) -> Option<Self> {
        let Precision::Fp16(scaling) = precision else { return None };
        let state = LossScale {
            scale: scaling.initial_scale,
            hysteresis_left: scaling.hysteresis,
            step: 0,
            last_overflow: -1,
        };
        Some(Self { scaling, state })
    }

    /// The scale of the coming step.
    pub fn scale(&self) -> f64 {
        self.state.scale
    }

    /// What a checkpoint keeps.
    pub fn state(&self) -> LossScale {
        self.state
    }

    /// Goes on where another scaler was. A static scale is that of the run.
    pub fn resume(&mut self, state: LossScale) {
        if self.scaling.is_dynamic {
            self.state = state;
        }
    }

    /// Takes note of a step. A static scale never changes.
    pub fn update(&mut self, overflowed: bool) -> ScaleChange {
        if !self.scaling.is_dynamic {
            return ScaleChange::Kept;
        }
        let before = self.state;
        let change = if overflowed { self.overflowed() } else { self.passed() };
        // A step that ends the run is not done.
        if change == ScaleChange::Exhausted {
            self.state = before;
        } else {
            self.state.step += 1;
        }
        change
    }

    fn overflowed(&mut self) -> ScaleChange {
        self.state.last_overflow = self.state.step;
        if self.state.hysteresis_left > 1 {
            self.state.hysteresis_left -= 1;
            return ScaleChange::Kept;
        }
        if self.state.scale <= self.scaling.min_scale {
            return ScaleChange::Exhausted;
        }
        self.state.scale = (self.state.scale / 2.0).max(self.scaling.min_scale);
        ScaleChange::To(self.state.scale)
    }

    fn passed(&mut self) -> ScaleChange {
        // Steps since the last overflow, this one not counted; before the first one, since the start.
        let num_passed = self.state.step - self.state.last_overflow - 1;
        let window_ends = num_passed > 0 && num_passed.cast_unsigned().is_multiple_of(self.scaling.window);
        if window_ends || self.scaling.consecutive_hysteresis {
            self.state.hysteresis_left = self.scaling.hysteresis;
        }
        if !window_ends {
            return ScaleChange::Kept;
        }
        self.state.scale *= 2.0;
        ScaleChange::To(self.state.scale)
    }
}
