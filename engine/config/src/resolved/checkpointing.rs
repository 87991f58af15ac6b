//! Which activations are recomputed.

use serde::Serialize;

/// Which activations are recomputed in the backward instead of kept: those of transformer blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Checkpointing {
    /// None.
    Off,
    /// The blocks of a unit from the unit's input.
    Unit,
    /// Every so many blocks of a unit from the input of the first of them; no more than a unit's.
    Layers(usize),
    /// As little as lets every rank fit its memory: the plan resolves it.
    Auto,
}

impl Checkpointing {
    /// Whose activations are recomputed together, as `each unit`; `None` where none are, or the plan has not decided.
    pub fn recomputed_together(self) -> Option<String> {
        match self {
            Self::Off | Self::Auto => None,
            Self::Unit => Some("each unit".to_owned()),
            Self::Layers(1) => Some("each layer".to_owned()),
            Self::Layers(layers) => Some(format!("every {layers} layers")),
        }
    }
}
