//! The files that a command names to the system, found by tracing its system calls: a file that a command begins to read or to write is found
//! by itself.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::command::Home;
use crate::stand_ins::within;

/// The paths that a command has named.
#[derive(Debug, Default)]
pub(crate) struct Named {
    /// Names below the folder in which it ran, also of files that were not there.
    pub(crate) inside: BTreeSet<String>,
    /// Paths elsewhere that it has changed or opened to write.
    pub(crate) changed_elsewhere: BTreeSet<PathBuf>,
}

/// Whether system calls can be traced; if not, the test is left out, which is said.
pub(crate) fn has_strace() -> bool {
    let found = Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).status();
    let is_found = found.is_ok_and(|status| status.success());
    if !is_found {
        assert!(env::var_os("PIPEZERO_SKIP_NOTHING").is_none(), "strace is not installed, or may not trace");
        eprintln!("left out: strace is not installed, or may not trace");
    }
    is_found
}

/// Runs a command with `strace`, and its children too.
pub(crate) fn traced(home: &Home, line: &str) -> Named {
    let trace = home.path("strace.txt");
    let mut command = within(
        home,
        &[
            "strace",
            "-f",
            "-qq",
            "--seccomp-bpf",
            "-y",
            "-s",
            "4096",
            "-e",
            "trace=%file",
            "-o",
            "strace.txt",
        ],
        line,
    );
    let output = command.output().expect("strace is installed");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "strace of pipezero {line}: {:?}: {said}", output.status);
    let text = String::from_utf8_lossy(&fs::read(&trace).unwrap()).into_owned();
    fs::remove_file(trace).unwrap();
    let mut named = Named::default();
    text.lines().for_each(|call| named.add(call, &home.path("")));
    assert!(text.contains("execve("), "pipezero {line} is traced");
    named
}

impl Named {
    /// Adds the paths of a line, such as `7 openat(5</top/out>, "run.json", O_RDONLY) = 6</top/out/run.json>`.
    fn add(&mut self, call: &str, home: &Path) {
        let Some((name, arguments)) = call.split_once('(') else { return };
        let name = name.rsplit(' ').next().unwrap_or(name);
        let changes = ["O_WRONLY", "O_RDWR", "O_CREAT"].iter().any(|flag| arguments.contains(flag))
            || [
                "mkdir", "rename", "unlink", "rmdir", "link", "symlink", "chmod", "chown", "truncate",
                "mknod",
            ]
            .iter()
            .any(|change| name.starts_with(change) || name.starts_with(&format!("f{change}")));
        let pieces: Vec<&str> = arguments.split('"').collect();
        // The first argument of a program that is started is its path, and the others may be anything.
        let num_paths = if name.starts_with("exec") { 1 } else { 2 };
        for pair in pieces.chunks(2).take(num_paths).filter(|pair| pair.len() == 2) {
            let [before, path] = [pair[0], pair[1]];
            let folder =
                before.rsplit_once('<').and_then(|(_, rest)| rest.rsplit_once('>')).map(|(folder, _)| folder);
            let path = cleaned(&folder.map_or(home, Path::new).join(path));
            // Programs that make folders try those above too, which are there.
            let is_made = changes && !call.contains(" = -1 ") && !home.starts_with(&path);
            if let Ok(inside) = path.strip_prefix(cleaned(home)) {
                self.inside.insert(inside.to_str().unwrap().to_owned());
            } else if is_made {
                self.changed_elsewhere.insert(path);
            }
        }
    }
}

/// A path without `.` and `..`.
fn cleaned(path: &Path) -> PathBuf {
    let mut cleaned = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(cleaned.pop()),
            Component::CurDir => {}
            part => cleaned.push(part),
        }
    }
    cleaned
}

#[test]
fn paths_of_system_calls_are_read() {
    let mut named = Named::default();
    for call in [
        r#"12 openat(AT_FDCWD</top/a>, "run.json", O_RDONLY|O_CLOEXEC) = 3</top/a/run.json>"#,
        r#"12 openat(5</top/a/out>, "run.json.partial", O_WRONLY|O_CREAT|O_EXCL, 0666) = 6</top/a/out/run.json.partial>"#,
        r#"13 renameat(5</top/a/out>, "x.partial", 5</top/a/out>, "../y") = 0"#,
        r#"13 statx(AT_FDCWD</top/a>, "./out/z", AT_STATX_SYNC_AS_STAT, STATX_ALL, 0x7f) = -1 ENOENT (No such file)"#,
        r#"14 mkdir("out/checkpoints", 0777 <unfinished ...>"#,
        r#"14 execve("/bin/p", ["p", "check", "run.json"], 0x7ffd /* 35 vars */) = 0"#,
        r#"14 open("/dev/null", O_RDWR) = 3</dev/null>"#,
        r#"14 open("/etc/passwd", O_RDONLY) = 3</etc/passwd>"#,
        r#"+++ exited with 0 +++"#,
    ] {
        named.add(call, Path::new("/top/a/"));
    }
    let inside = ["out/checkpoints", "out/run.json.partial", "out/x.partial", "out/z", "run.json", "y"];
    assert_eq!(named.inside.into_iter().collect::<Vec<_>>(), inside);
    assert_eq!(named.changed_elsewhere.into_iter().collect::<Vec<_>>(), [Path::new("/dev/null")]);
}
