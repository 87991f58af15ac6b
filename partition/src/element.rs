//! Bytes of an element: what the run's precision decides, and what stays f32 in every precision.
//!
//! Mixed precision keeps parameters and activations in 2 bytes and everything that is added up in 4: gradients, the
//! master copy of the parameters and the optimizer's state (Micikevicius et al., "Mixed Precision Training",
//! arXiv:1710.03740, section 3; ZeRO, arXiv:1910.02054, section 3.1, counts the same 2 + K bytes). Gradients are 4
//! bytes here, not ZeRO's 2: they are summed over micro-batches and data ranks, and a sum that is rounded to 2 bytes
//! at every addition would depend on how often it is reduced.

/// Bytes of gradients, master copies, optimizer state and workspaces, in every precision.
pub(crate) const F32_BYTES: u64 = 4;

/// Bytes of the elements whose type the precision decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ElementBytes {
    /// Of a parameter that computes: 4 in f32, 2 in bf16 and fp16.
    pub parameter: u64,
    /// Of an activation, and of its gradient where that crosses between stages: 4 or 2.
    pub activation: u64,
}

impl ElementBytes {
    /// f32 throughout; the parameters are their own master copy.
    pub const F32: Self = Self { parameter: 4, activation: 4 };

    /// bf16 or fp16 parameters and activations.
    pub const HALF: Self = Self { parameter: 2, activation: 2 };

    /// Whether the optimizer updates an f32 copy of the parameters that it owns, because those that compute are
    /// narrower.
    pub fn has_master_copy(self) -> bool {
        self.parameter < F32_BYTES
    }
}
