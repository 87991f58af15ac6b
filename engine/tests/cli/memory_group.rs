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
    fn new(name: &str) -> Option<Self> {
        let versions = [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];
        let made = versions.into_iter().find_map(|(root, limit)| {
            let folder = Path::new(root).join(format!("pipezero-test-{name}-{}", process::id()));
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
    let Some(group) = Group::new("alone") else { return };
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

/// Two processes in one group, which has room for either of them but not for both. With room for both, and for MPI, they train.
#[cfg(feature = "mpi")]
#[test]
fn processes_of_a_host_are_refused_where_they_need_too_much_together() {
    let Some(group) = Group::new("together") else { return };
    let home = Home::with(&[
        ("\"hidden_size\": 16", "\"hidden_size\": 512"),
        ("\"num_layers\": 4", "\"num_layers\": 8"),
        ("{ \"pipeline\": 2, \"data\": 2 }", "{ \"pipeline\": 2 }"),
        ("\"stage\": 3", "\"stage\": 1"),
        ("\"steps\": 3", "\"steps\": 1, \"comm\": {\"backend\": \"mpi\"}"),
    ]);
    let of_one = home.json("plan run.json --json")["process"]["bytes"].as_u64().unwrap();
    // MPI and `launch` take less than this.
    let beside = 128 << 20;
    assert!(of_one > beside, "{of_one}: a process has enough below, and two have not");
    let line = "launch -n 2 -- train run.json --out out";
    let refused = group.run(&home, of_one + beside, line);
    assert_ne!(refused.status, Some(0));
    let said = |words: &str| refused.stderr.matches(words).count();
    assert_eq!(said("error: the 2 processes on host `"), 1, "{}", refused.stderr);
    assert_eq!(said("is available to their control group `"), 1, "{}", refused.stderr);
    assert!(!home.path("out/metrics.jsonl").exists());
    let trained = group.run(&home, 2 * of_one + beside, line);
    assert_eq!(trained.status, Some(0), "with {of_one} bytes for each: {}", trained.stderr);
}
