//! What this host is made of.

use std::fs;

/// What its processor is called; `None` where the system does not say (any but Linux).
pub fn cpu_model() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let value = |key: &str| {
        let line = text.lines().find(|line| line.starts_with(key))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    value("model name").or_else(|| value("CPU part").map(|part| format!("ARM, part {part}")))
}

/// Cores of the host, whether or not this process may use them; `None` where the system does not say (any but Linux).
pub fn host_cores() -> Option<usize> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    Some(text.lines().filter(|line| line.starts_with("processor")).count()).filter(|&cores| cores > 0)
}

/// The operating system: its name, release and architecture.
pub fn system() -> String {
    let system = rustix::system::uname();
    let parts = [system.sysname(), system.release(), system.machine()];
    parts.map(|part| part.to_string_lossy().into_owned()).join(" ")
}
