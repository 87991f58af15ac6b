//! Things that other users can put in the place of a file, and rules that a command keeps which meets one.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::command::Home;

/// A text as programs have that keep passwords: of no use for this program.
const SECRET: &str = "swordfish:$6$x1:19000:0:99999:7:::\n";
/// And one in JSON, which files of settings are.
const SECRET_JSON: &str = "{\"auths\": {\"example.org\": \"swordfish\"}}\n";
const NAMES: [&str; 2] = ["secret", "secret.json"];
const TWIN: &str = "twin";

/// A thing in the place of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StandIn {
    /// A link to a file that only its owner may read.
    LinkToSecret,
    LinkToSecretJson,
    /// A link to a file elsewhere with the same contents.
    LinkToTwin,
    /// A link to where nothing is.
    LinkToNothing,
    LinkToFolder,
    /// Nobody writes it.
    Pipe,
    /// It never ends. Only the superuser can make one; another user makes a link to one.
    Device,
    /// A link to a file of the kernel, which waits.
    LinkToKernel,
    Folder,
    /// The same contents, of another user, who has closed the file to others; only the superuser can make one.
    Others,
}

impl StandIn {
    pub(crate) const ALL: [Self; 10] = [
        Self::LinkToSecret,
        Self::LinkToSecretJson,
        Self::LinkToTwin,
        Self::LinkToNothing,
        Self::LinkToFolder,
        Self::Pipe,
        Self::Device,
        Self::LinkToKernel,
        Self::Folder,
        Self::Others,
    ];

    fn put(self, home: &Home, path: &Path) {
        if self == Self::Others {
            // A user who is not the superuser keeps the file, closed to others.
            drop(chown(path, Some(1234), Some(1234)));
            return drop(path.is_file().then(|| fs::set_permissions(path, Permissions::from_mode(0o600))));
        }
        if self == Self::LinkToTwin {
            let mut contents = fs::read(path).unwrap_or_default();
            if path.extension().is_some_and(|ending| ending == "jsonl") {
                contents.extend(b"{\"step\": 1, \"owner\": \"swordfish\"}\n");
            }
            home.write(TWIN, contents);
        }
        match fs::symlink_metadata(path) {
            Ok(found) if found.is_dir() => fs::remove_dir_all(path).unwrap(),
            Ok(_) => fs::remove_file(path).unwrap(),
            Err(_) => fs::create_dir_all(path.parent().unwrap()).unwrap(),
        }
        match self {
            Self::LinkToSecret => symlink(home.path(NAMES[0]), path).unwrap(),
            Self::LinkToSecretJson => symlink(home.path(NAMES[1]), path).unwrap(),
            Self::LinkToTwin => symlink(home.path(TWIN), path).unwrap(),
            Self::LinkToNothing => symlink(home.path("nothing"), path).unwrap(),
            Self::LinkToFolder => symlink(home.path("elsewhere"), path).unwrap(),
            Self::LinkToKernel => symlink("/proc/kmsg", path).unwrap(),
            Self::Folder => fs::create_dir(path).unwrap(),
            Self::Pipe => assert!(Command::new("mkfifo").arg(path).status().unwrap().success()),
            Self::Device => {
                let made =
                    Command::new("mknod").arg(path).args(["c", "1", "5"]).stderr(Stdio::null()).status();
                if !made.is_ok_and(|status| status.success()) {
                    symlink("/dev/zero", path).unwrap();
                }
            }
            Self::Others => {}
        }
    }
}

/// Adds secrets, and a folder of something else.
pub(crate) fn add_targets(home: &Home) {
    for (name, text) in NAMES.into_iter().zip([SECRET, SECRET_JSON]) {
        home.write(name, text);
        fs::set_permissions(home.path(name), Permissions::from_mode(0o600)).unwrap();
    }
    fs::create_dir(home.path("elsewhere")).unwrap();
    home.write("elsewhere/thesis", "years of work");
}

/// All files in a folder and below, links not followed.
pub(crate) fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        found.push(entry.path());
        if entry.file_type().unwrap().is_dir() {
            files(&entry.path(), found);
        }
    }
}

/// A command that another program starts, with the folder for temporary files inside of the home.
pub(crate) fn within(home: &Home, starter: &[&str], line: &str) -> Command {
    let program = home.command(line);
    let mut command = Command::new(starter[0]);
    command.args(&starter[1..]).arg(program.get_program()).args(program.get_args());
    program.get_envs().for_each(|(name, value)| match value {
        Some(value) => drop(command.env(name, value)),
        None => drop(command.env_remove(name)),
    });
    command.env("OMPI_MCA_btl_vader_backing_directory", home.path(TEMPORARY));
    command.env("TMPDIR", home.path(TEMPORARY)).current_dir(home.path("")).stdin(Stdio::null());
    command
}

/// The folder for temporary files of a command.
pub(crate) const TEMPORARY: &str = "tmp";

/// Seconds that no command may wait for anybody. A run takes a fraction of one.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(3);

/// Runs a command where something stands in the place of a file, and looks at what it must not have touched. Returns how long the
/// command took.
#[track_caller]
pub(crate) fn check(home: &Home, line: &str, path: &str, stand_in: StandIn) -> Duration {
    let case = format!("pipezero {line}, with {path} as {stand_in:?}");
    let of = |name: &str| {
        let found = fs::metadata(home.path(name)).ok()?;
        let identity =
            (found.ino(), found.mode(), found.len(), found.mtime(), found.mtime_nsec(), found.nlink());
        Some((identity, fs::read(home.path(name)).unwrap()))
    };
    let targets = || [NAMES[0], NAMES[1], TWIN, "elsewhere/thesis"].map(of);
    stand_in.put(home, &home.path(path));
    let before = targets();
    // A command that waits for a pipe would wait for ever.
    let mut command = within(home, &["timeout", "--signal=KILL", "20"], line);
    let began = Instant::now();
    let output = command.output().unwrap();
    let took = began.elapsed();
    let said =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    let status = output.status.code();
    assert!(matches!(status, Some(0..=2)), "{case}: status {status:?}: {said}");
    let num_errors = said.lines().filter(|line| line.starts_with("error: ")).count();
    assert_eq!(num_errors, usize::from(status != Some(0)), "{case}: status {status:?}: {said}");
    assert!(!said.contains("panicked"), "{case}: {said}");
    assert!(!said.contains("swordfish"), "{case} shows the secret: {said}");
    assert!(targets() == before, "{case} changes the target of a link: {said}");
    assert!(!home.path("nothing").exists(), "{case} makes the target of a link: {said}");
    assert_eq!(home.names_in("elsewhere"), ["thesis"], "{case} writes elsewhere: {said}");
    let mut all = Vec::new();
    files(&home.path(""), &mut all);
    for path in all.iter().filter(|path| ![NAMES[0], NAMES[1], TWIN].iter().any(|name| path.ends_with(name)))
    {
        if fs::symlink_metadata(path).unwrap().is_file() {
            let text = String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
            assert!(!text.contains("swordfish"), "{case} copies the secret to {}", path.display());
        }
    }
    took
}
