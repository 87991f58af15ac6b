//! Runs tests for a GPU on a fake GPU: fake CUDA libraries that compute in the host's memory. The tests run in processes of their own.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Whether nothing that the fake GPU runs has changed since all tests passed in full: then its tests run in one order of its streams.
pub fn is_unchanged() -> bool {
    std::env::var("PIPEZERO_TESTS").is_ok_and(|value| value == "unchanged")
}

/// The folder of the fake CUDA libraries, built on the first call; `None` where there is no compiler for them.
pub fn fake_gpu() -> Option<&'static Path> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOLDER.get_or_init(|| built("fake-gpu", None)).as_deref()
}

/// The same, with every read and write of a kernel checked.
pub fn checked_fake_gpu() -> Option<&'static Path> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOLDER.get_or_init(|| built("checked-fake-gpu", Some("checked"))).as_deref()
}

fn built(name: &str, checked: Option<&str>) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    if Command::new("g++").arg("--version").output().is_err() {
        assert!(env::var_os("PIPEZERO_SKIP_NOTHING").is_none(), "there is no g++, which builds the fake GPU");
        println!("skipped: there is no g++, which builds the fake GPU");
        return None;
    }
    let folder = root.join("../target").join(name);
    let kernels = root.join("../models/src/queue/cuda/kernels");
    let output = Command::new("sh")
        .arg(root.join("fake_gpu/build.sh"))
        .args([&folder, &kernels])
        .args(checked)
        .output()
        .expect("a shell runs the script");
    assert!(output.status.success(), "build.sh: {}", String::from_utf8_lossy(&output.stderr));
    Some(folder)
}

/// Settings of the fake GPU.
#[derive(Clone, Copy, Debug)]
pub struct FakeGpuSettings {
    /// Devices.
    pub num_devices: usize,
    /// From which the orders of streams are drawn.
    pub seed: u64,
    /// The call that fails, counted from 1.
    pub fail_at: Option<u64>,
}

/// Runs the ignored tests of this binary whose names begin so, on the fake GPU, with no cache of compiled kernels.
///
/// # Panics
/// If one fails, or there is none.
pub fn run_on_fake_gpu(folder: &Path, tests: &str, settings: FakeGpuSettings) {
    run_on_fake_gpu_with(folder, tests, settings, &[]);
}

/// The same with other variables of the environment.
///
/// # Panics
/// As [`run_on_fake_gpu`].
pub fn run_on_fake_gpu_with(
    folder: &Path,
    tests: &str,
    settings: FakeGpuSettings,
    variables: &[(&str, &Path)],
) {
    let mut command = on_the_fake_gpu(folder, tests, settings);
    command.envs(variables.iter().copied());
    let output = command.output().expect("the test's own program starts");
    let (printed, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{tests}, {settings:?}: {}\n{printed}\n{errors}", output.status);
    assert!(!printed.contains("running 0 tests"), "there is no test {tests}");
}

/// The command that runs them.
pub fn on_the_fake_gpu(folder: &Path, tests: &str, settings: FakeGpuSettings) -> Command {
    let mut command = Command::new(env::current_exe().expect("a test is a program"));
    command
        .args([tests, "--ignored", "--test-threads=1"])
        .env("LD_LIBRARY_PATH", folder)
        .env("PIPEZERO_CACHE", "")
        .env("CUDA_DEVICE_MAX_CONNECTIONS", "32")
        .env("FAKE_GPU_SEED", settings.seed.to_string())
        .env("FAKE_GPU_DEVICES", settings.num_devices.to_string());
    if let Some(number) = settings.fail_at {
        command.env("FAKE_GPU_FAIL_AT", number.to_string());
    }
    command
}
