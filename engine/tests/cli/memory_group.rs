//! A run in a control group that bounds memory: it lives under what `plan` says that its process needs, and does not start with less.

#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, process};

use crate::command::{Home, Printed};

/// A group of its own, removed when it is dropped.
struct Group {
    folder: PathBuf,
    limit: &'static str,
}

impl Group {
    /// `None` where this process may make none, which is said.
    fn new() -> Option<Self> {
        let versions = [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];
        let made = versions.into_iter().find_map(|(root, limit)| {
            let folder = Path::new(root).join(format!("pipezero-test-{}", process::id()));
            fs::create_dir(&folder).ok()?;
            let group = Self { folder, limit };
            // A folder of another kind of group has no such file.
            group.folder.join(limit).is_file().then_some(group)
        });
        if made.is_none() {
            println!("skipped: this process may not make a control group");
        }
        made
    }

    /// The binary in the group, with so many bytes.
    fn run(&self, home: &Home, num_bytes: u64, line: &str) -> Printed {
        fs::write(self.folder.join(self.limit), num_bytes.to_string()).unwrap();
        let own = home.command(line);
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$ > \"$0\"; exec \"$@\""]).arg(self.folder.join("cgroup.procs"));
        command.arg(own.get_program()).args(own.get_args()).current_dir(own.get_current_dir().unwrap());
        command.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.stdin(Stdio::null());
        Printed::new(command.output().unwrap(), &home.path(""))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.folder);
    }
}

#[test]
fn a_run_lives_under_what_is_planned_for_its_process_and_is_refused_below() {
    let Some(group) = Group::new() else { return };
    let home = Home::with(&[
        ("\"hidden_size\": 16", "\"hidden_size\": 256"),
        ("\"num_layers\": 4", "\"num_layers\": 8"),
    ]);
    let planned = home.json("plan run.json --json")["process"]["bytes"].as_u64().unwrap();
    let refused = group.run(&home, planned / 20 * 19, "train run.json --out out").failure(1);
    let error = refused.lines().find(|line| line.starts_with("error: ")).unwrap();
    assert!(
        error.contains(" of memory (ranks: 4), but ") && error.contains("its control group"),
        "{refused}"
    );
    assert!(!home.path("out").exists());
    let trained = group.run(&home, planned.next_multiple_of(1 << 20), "train run.json --out out");
    assert_eq!(trained.status, Some(0), "with {planned} bytes: {}", trained.stderr);
}
