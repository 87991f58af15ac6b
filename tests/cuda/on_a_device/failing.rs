//! A device that fails: the run ends with an error that says what failed, and nobody waits for ever.

use std::env;
use std::sync::Arc;

use pipezero_config::{DeviceName, Run};
use pipezero_models::Device;
use pipezero_models::queue::{Cuda, F32Products, NoCuda};
use tests::{Case, Mask, train_on_devices, two_steps};

/// The answer of fake libraries that were told to fail.
const ANSWERS: [&str; 3] = ["CUDA_ERROR_UNKNOWN", "CUBLAS_STATUS_INTERNAL_ERROR", "FAKE_GPU_FAIL_AT"];

fn assert_says_what_failed(message: &str) {
    assert!(ANSWERS.iter().any(|answer| message.contains(answer)), "{message}");
}

/// Where no call is told to fail, or one that the run does not make, it trains.
#[test]
#[ignore = "needs a GPU, or the fake GPU"]
fn a_run_trains_or_ends_with_an_error_that_says_what_failed() {
    let devices = match Cuda::open_all(F32Products::Whole) {
        Ok(devices) => devices,
        Err(error @ NoCuda::Refused { .. }) => return assert_says_what_failed(&error.to_string()),
        // The driver itself does not begin, or its devices do not reach each other.
        Err(error) => return assert!(env::var_os("FAKE_GPU_FAIL_AT").is_some(), "{error}"),
    };
    let devices: Vec<Arc<dyn Device>> = devices.into_iter().map(|device| Arc::new(device) as _).collect();
    let case = Case { pipeline: 2, data: 2, ..Case::ONE_RANK };
    let run = Run { device: DeviceName::Cuda, ..two_steps(case) };
    if let Err(error) = train_on_devices(&devices, run, Mask::None) {
        assert_says_what_failed(&error.to_string());
    }
}

/// Compilers would refuse an older GPU with pages of messages; `PIPEZERO_LACK` says what the device lacks.
#[test]
#[ignore = "needs a fake GPU of another kind"]
fn a_device_that_lacks_something_is_an_error() {
    let Ok(lack) = env::var("PIPEZERO_LACK") else { return };
    let error = Cuda::open_all(F32Products::Whole).unwrap_err();
    assert!(matches!(error, NoCuda::Unfit { ordinal: 0, .. }), "{error}");
    assert!(error.to_string().contains(&lack), "{error}");
}

/// `PIPEZERO_UNUSABLE` names a library that is another one.
#[test]
#[ignore = "needs libraries of other names"]
fn a_library_that_is_another_one_is_an_error() {
    let Ok(library) = env::var("PIPEZERO_UNUSABLE") else { return };
    let error = Cuda::open_all(F32Products::Whole).unwrap_err();
    assert!(!error.is_absence(), "{error}");
    let message = error.to_string();
    assert!(message.starts_with(&format!("library `{library}` ")), "{message}");
    assert!(message.contains("cannot be used: it has no function `"), "{message}");
}
