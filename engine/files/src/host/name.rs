//! What this host is called.

/// Its name, as the system has it.
pub fn name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
