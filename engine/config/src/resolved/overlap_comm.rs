//! Whether a gradient is reduced while the next one is computed.

use serde::{Serialize, Serializer};

/// DeepSpeed's `overlap_comm`, of gradients that are reduced after every micro-batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OverlapComm {
    /// One gradient is reduced while the next is computed: a rank holds two.
    #[default]
    True,
    /// Each is reduced before the next is computed: a rank holds one.
    False,
    /// `False` where two do not fit `memory` and one does. The plan resolves it.
    Auto,
}

impl OverlapComm {
    /// Whether a rank holds two gradients, the default, which a resolved run does not mention.
    pub fn is_true(&self) -> bool {
        *self == Self::True
    }
}

impl Serialize for OverlapComm {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::True => serializer.serialize_bool(true),
            Self::False => serializer.serialize_bool(false),
            Self::Auto => serializer.serialize_str("auto"),
        }
    }
}
