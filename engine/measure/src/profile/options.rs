//! How much a profile records.

/// How much is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfileOptions {
    /// Steps that are not recorded: the first touch memory for the first time.
    pub num_warm_up_steps: u64,
    /// Steps that are recorded, of which the middle half by their time counts.
    pub num_steps: u64,
    /// Whether the kernels of one more step are timed, where the ranks compute on GPUs.
    pub times_kernels: bool,
}

impl Default for ProfileOptions {
    fn default() -> Self {
        Self { num_warm_up_steps: 2, num_steps: 12, times_kernels: false }
    }
}
