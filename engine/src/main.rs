//! The `pipezero` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    pipezero_cli::main()
}
