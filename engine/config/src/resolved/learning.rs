//! How a run learns: the optimizer, and its rate over the steps.

use serde::{Deserialize, Serialize};

/// The optimizer and its hyper-parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OptimizerConfig {
    /// AdamW, arXiv:1711.05101; DeepSpeed's `Adam` means it too.
    #[serde(rename = "AdamW")]
    AdamW {
        /// Peak learning rate, unless the scheduler names one.
        lr: f64,
        /// Decay rates of the two moments.
        betas: (f64, f64),
        /// Added to the root of the second moment.
        eps: f64,
        /// Decoupled weight decay.
        weight_decay: f64,
        /// Which parameters are not decayed.
        no_decay: NoDecay,
    },
    /// Stochastic gradient descent with momentum, as in PyTorch.
    #[serde(rename = "SGD")]
    Sgd {
        /// Learning rate.
        lr: f64,
        /// Momentum; 0 keeps no state.
        momentum: f64,
        /// Weight decay, added to the gradient.
        weight_decay: f64,
        /// Which parameters are not decayed.
        no_decay: NoDecay,
    },
}

impl OptimizerConfig {
    /// The learning rate, unless a scheduler sets another.
    pub fn lr(&self) -> f64 {
        match *self {
            Self::AdamW { lr, .. } | Self::Sgd { lr, .. } => lr,
        }
    }

    /// What is kept for each parameter, under PyTorch's names: AdamW's two moments, SGD's momentum if it has one.
    pub fn state_names(&self) -> &'static [&'static str] {
        match *self {
            Self::AdamW { .. } => &["exp_avg", "exp_avg_sq"],
            Self::Sgd { momentum, .. } if momentum != 0.0 => &["momentum_buffer"],
            Self::Sgd { .. } => &[],
        }
    }

    /// Values kept for each parameter.
    pub fn num_states(&self) -> usize {
        self.state_names().len()
    }

    /// Which parameters are not decayed.
    pub fn no_decay(&self) -> &NoDecay {
        match self {
            Self::AdamW { no_decay, .. } | Self::Sgd { no_decay, .. } => no_decay,
        }
    }
}

/// Which parameters are left out of weight decay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoDecay {
    /// One-dimensional parameters: biases and norms.
    OneDimensional,
    /// Parameters whose name contains one of these.
    Patterns(Vec<String>),
}

/// DeepSpeed's learning rate schedules, equal to its `lr_schedules.py` step for step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SchedulerConfig {
    /// The optimizer's rate at every step.
    Constant,
    /// Warm-up, then constant.
    #[serde(rename = "WarmupLR")]
    WarmupLr(Warmup),
    /// Warm-up, then linear to 0 at `total_num_steps`.
    #[serde(rename = "WarmupDecayLR")]
    WarmupDecayLr {
        /// The warm-up.
        warmup: Warmup,
        /// Steps until 0.
        total_num_steps: u64,
    },
    /// Linear warm-up by ratio, then cosine; ratios of the optimizer's rate.
    #[serde(rename = "WarmupCosineLR")]
    WarmupCosineLr {
        /// Steps until the minimum.
        total_num_steps: u64,
        /// Ratio at the first step.
        warmup_min_ratio: f64,
        /// Steps of the warm-up.
        warmup_num_steps: u64,
        /// Ratio at the end.
        cos_min_ratio: f64,
        /// Form of the warm-up.
        warmup_type: WarmupType,
    },
}

/// A warm-up between two rates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Warmup {
    /// Rate at the first step.
    pub warmup_min_lr: f64,
    /// Rate at its end.
    pub warmup_max_lr: f64,
    /// Its steps.
    pub warmup_num_steps: u64,
    /// Its form.
    pub warmup_type: WarmupType,
}

/// The form of a warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WarmupType {
    /// Logarithmic, DeepSpeed's default.
    Log,
    /// Linear.
    Linear,
}
