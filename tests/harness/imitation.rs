//! Runs tests for a GPU on an imitation of one: CUDA's libraries in the host's memory, in processes of their own.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The folder of the imitation's libraries, built on the first call; `None` where there is no compiler for them.
pub fn imitation() -> Option<&'static Path> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOLDER.get_or_init(|| built("imitation", None)).as_deref()
}

/// The same, with every read and write of a kernel checked.
pub fn checked_imitation() -> Option<&'static Path> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOLDER.get_or_init(|| built("checked-imitation", Some("checked"))).as_deref()
}

fn built(name: &str, checked: Option<&str>) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    if Command::new("g++").arg("--version").output().is_err() {
        assert!(
            env::var_os("PIPEZERO_SKIP_NOTHING").is_none(),
            "there is no g++, which builds the imitation of a GPU"
        );
        println!("skipped: there is no g++, which builds the imitation of a GPU");
        return None;
    }
    let folder = root.join("../target").join(name);
    let kernels = root.join("../models/src/queue/cuda/kernels");
    let output = Command::new("sh")
        .arg(root.join("imitation/build.sh"))
        .args([&folder, &kernels])
        .args(checked)
        .output()
        .expect("a shell runs the script");
    assert!(output.status.success(), "build.sh: {}", String::from_utf8_lossy(&output.stderr));
    Some(folder)
}

/// What the imitation is told.
#[derive(Clone, Copy, Debug)]
pub struct Imitated {
    /// Devices.
    pub num_devices: usize,
    /// From which the orders of streams are drawn.
    pub seed: u64,
    /// The call that fails, counted from 1.
    pub fail_at: Option<u64>,
}

/// Runs the ignored tests of this binary whose names begin so, on the imitation, with no cache of compiled kernels.
///
/// # Panics
/// If one fails, or there is none.
pub fn run_on_imitation(folder: &Path, tests: &str, imitated: Imitated) {
    run_on_imitation_with(folder, tests, imitated, &[]);
}

/// The same with other variables of the environment.
///
/// # Panics
/// As [`run_on_imitation`].
pub fn run_on_imitation_with(folder: &Path, tests: &str, imitated: Imitated, variables: &[(&str, &Path)]) {
    let mut command = on_the_imitation(folder, tests, imitated);
    command.envs(variables.iter().copied());
    let output = command.output().expect("the test's own program starts");
    let (printed, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{tests}, {imitated:?}: {}\n{printed}\n{errors}", output.status);
    assert!(!printed.contains("running 0 tests"), "there is no test {tests}");
}

/// The command that runs them.
pub fn on_the_imitation(folder: &Path, tests: &str, imitated: Imitated) -> Command {
    let mut command = Command::new(env::current_exe().expect("a test is a program"));
    command
        .args([tests, "--ignored", "--test-threads=1"])
        .env("LD_LIBRARY_PATH", folder)
        .env("PIPEZERO_CACHE", "")
        .env("CUDA_DEVICE_MAX_CONNECTIONS", "32")
        .env("IMITATION_SEED", imitated.seed.to_string())
        .env("IMITATION_DEVICES", imitated.num_devices.to_string());
    if let Some(number) = imitated.fail_at {
        command.env("IMITATION_FAIL_AT", number.to_string());
    }
    command
}
