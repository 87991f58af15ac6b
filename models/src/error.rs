//! What can go wrong when a model is built or run.

use std::error::Error;
use std::fmt::Display;

use crate::element::ElementType;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// A buffer would be larger than memory can be.
    #[error("a buffer of {len} elements of {element_type:?} is larger than memory can be")]
    TooLarge {
        /// Elements.
        len: usize,
        /// What they are.
        element_type: ElementType,
    },
    /// The host's allocator refused a buffer.
    #[error(
        "a buffer of {len} elements of {element_type:?} takes {num_bytes} bytes, which this host does not have: free memory, or run something \
         smaller"
    )]
    OutOfMemory {
        /// Elements.
        len: usize,
        /// What they are.
        element_type: ElementType,
        /// Bytes of all of them.
        num_bytes: usize,
    },
    /// A device computes no more.
    #[error("the device has failed: {reason}")]
    Device {
        /// What it says.
        reason: String,
    },
    /// What the user gave cannot be a layer, such as a module that fails when it is tried.
    #[error("layer {name}: {error}")]
    Layer {
        /// The layer.
        name: String,
        /// What is wrong with it.
        error: Box<dyn Error + Send + Sync>,
    },
    /// A model's shape breaks one of its rules.
    #[error("{value}: {rule}")]
    Shape {
        /// The value as the user gave it, with its name.
        value: String,
        /// The rule that it breaks, and a repair.
        rule: String,
    },
}

/// Refuses the value of `name` by `rule` unless that holds.
///
/// # Errors
/// [`ModelError::Shape`].
pub(crate) fn require(
    holds: bool,
    name: &str,
    value: impl Display,
    rule: impl Into<String>,
) -> Result<(), ModelError> {
    if holds {
        Ok(())
    } else {
        Err(ModelError::Shape { value: format!("{name} = {value}"), rule: rule.into() })
    }
}
