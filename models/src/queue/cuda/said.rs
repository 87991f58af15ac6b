//! What the driver and its libraries say, for messages.

use std::fmt::Display;

/// An error in words. cudarc prints those of the driver as Rust does, `DriverError(CUDA_ERROR_NO_DEVICE, "no device")`, of which this
/// makes `no device (CUDA_ERROR_NO_DEVICE)`.
pub(super) fn said(error: &impl Display) -> String {
    let text = error.to_string();
    let inside = text.strip_prefix("DriverError(").and_then(|rest| rest.strip_suffix("\")"));
    match inside.and_then(|inside| inside.split_once(", \"")) {
        Some((name, words)) => format!("{words} ({name})"),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::said;

    #[test]
    fn errors_of_the_driver_are_words_with_their_name() {
        for (printed, expected) in [
            ("DriverError(CUDA_ERROR_NO_DEVICE, \"no device\")", "no device (CUDA_ERROR_NO_DEVICE)"),
            ("DriverError(CUDA_ERROR_UNKNOWN)", "DriverError(CUDA_ERROR_UNKNOWN)"),
            ("CUBLAS_STATUS_NOT_SUPPORTED", "CUBLAS_STATUS_NOT_SUPPORTED"),
        ] {
            assert_eq!(said(&printed), expected);
        }
    }
}
