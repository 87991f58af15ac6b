//! Tests that run in every process of a job.

/// Ends the process if it panics, and with it the job: the other processes would wait for this one.
#[derive(Debug)]
pub struct EndOnPanic;

impl Drop for EndOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::exit(101);
        }
    }
}
