//! What the driver and its libraries say, for messages.

use std::fmt::Display;

/// An error in words. cudarc prints errors as Rust does: of `DriverError(CUDA_ERROR_NO_DEVICE, "no device")` this makes `no device
/// (CUDA_ERROR_NO_DEVICE)`, and of `NvrtcError(NVRTC_ERROR_COMPILATION)` the name alone.
pub(super) fn said(error: &impl Display) -> String {
    let text = error.to_string();
    let kinds = ["DriverError(", "NvrtcError(", "CublasError("];
    let inside = kinds.iter().find_map(|kind| text.strip_prefix(kind)?.strip_suffix(')'));
    let Some(inside) = inside else { return text };
    match inside.strip_suffix('"').and_then(|inside| inside.split_once(", \"")) {
        Some((name, words)) if words != name => format!("{words} ({name})"),
        Some((name, _)) => name.to_owned(),
        None => inside.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::said;

    #[test]
    fn errors_of_the_driver_are_words_with_their_name() {
        for (printed, expected) in [
            ("DriverError(CUDA_ERROR_NO_DEVICE, \"no device\")", "no device (CUDA_ERROR_NO_DEVICE)"),
            ("DriverError(CUDA_ERROR_UNKNOWN, \"CUDA_ERROR_UNKNOWN\")", "CUDA_ERROR_UNKNOWN"),
            ("DriverError(CUDA_ERROR_UNKNOWN)", "CUDA_ERROR_UNKNOWN"),
            ("NvrtcError(NVRTC_ERROR_COMPILATION)", "NVRTC_ERROR_COMPILATION"),
            ("CUBLAS_STATUS_NOT_SUPPORTED", "CUBLAS_STATUS_NOT_SUPPORTED"),
        ] {
            assert_eq!(said(&printed), expected);
        }
    }
}
