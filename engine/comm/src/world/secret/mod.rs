//! The secret of a job, where its processes do not find it in their environment.

#[cfg(feature = "mpi")]
pub(super) mod over_mpi;

use pipezero_files::host::JobSecret;

/// The warning of a job that has none.
pub(super) fn missing() -> String {
    format!(
        "{name} is not set: any program that reaches the port of rank 0 while the job starts can take a rank's place. Give all processes the same secret; \
         in a batch script, before the line that starts them: export {name}=$(head -c 32 /dev/urandom | base64)",
        name = JobSecret::VARIABLE
    )
}
