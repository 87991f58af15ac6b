//! How long each kernel of a device took.

/// The calls of one kernel, at one size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelTime {
    /// Its name, as the device has it: of a kernel's source, or of a library's call.
    pub kernel: String,
    /// Its element types and size: of a kernel's source how many blocks it has and how many threads each of them; of a product `rows x columns x inner`.
    pub size: String,
    /// How often it was called.
    pub num_calls: u64,
    /// Nanoseconds of all calls together, from when the device came to a call to when it had done it.
    pub ns: u64,
}
