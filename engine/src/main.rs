//! The `pipezero` binary.

use std::process::ExitCode;

use pipezero_models::memory::LimitedMemory;

/// If the system gives no more memory, the program ends with an error line and a status instead of a signal.
#[global_allocator]
static MEMORY: LimitedMemory = LimitedMemory::new();

fn main() -> ExitCode {
    pipezero_cli::main()
}
