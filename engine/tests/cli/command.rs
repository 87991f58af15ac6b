//! A temporary folder with a run file and a text, and the binary started in it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use expect_test::Expect;
use serde_json::Value;
use tempfile::TempDir;

/// A run of a few milliseconds: two stages, two data ranks, ZeRO-3.
pub(crate) const RUN: &str = r#"{
  "model": {
    "family": "gpt2",
    "num_layers": 4,
    "hidden_size": 16,
    "num_attention_heads": 2,
    "seq_length": 16
  },
  "data": { "text": "text.txt", "validation": 0.2 },
  "evaluation": { "every": 2, "batches": 1 },
  "parallel": { "pipeline": 2, "data": 2 },
  "zero_optimization": { "stage": 3 },
  "train_batch_size": 8,
  "gradient_accumulation_steps": 2,
  "optimizer": { "type": "AdamW", "params": { "lr": 0.01 } },
  "threads": 1,
  "steps": 3,
  "seed": 3
}
"#;

/// The output of the binary.
#[derive(Debug)]
pub(crate) struct Printed {
    pub(crate) status: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Printed {
    /// The output of a process that has ended; the path of the folder is replaced by `~`.
    pub(crate) fn new(output: Output, home: &Path) -> Self {
        let text = |bytes: Vec<u8>| {
            let text = String::from_utf8(bytes).expect("the binary prints text");
            text.replace(&home.display().to_string(), "~")
        };
        let (stdout, stderr) = (text(output.stdout), text(output.stderr));
        assert!(!stderr.contains("panicked"), "{stderr}");
        Self { status: output.status.code(), stdout, stderr }
    }

    /// Stdout of a command that succeeded.
    #[track_caller]
    pub(crate) fn success(self) -> String {
        assert_eq!(self.status, Some(0), "{}", self.stderr);
        self.stdout
    }

    /// Stderr of a command that failed with `status` and printed no result.
    #[track_caller]
    pub(crate) fn failure(self, status: i32) -> String {
        assert_eq!(self.status, Some(status), "{}", self.stderr);
        assert_eq!(self.stdout, "");
        self.stderr
    }
}

/// The folder, and one for what the binary writes for a while: what it leaves there when it is killed goes with the folder.
#[derive(Debug)]
pub(crate) struct Home(TempDir, TempDir);

impl Home {
    /// A folder with `run.json` and a text of 40 KiB.
    pub(crate) fn new() -> Self {
        let [folder, temporary] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let home = Self(folder, temporary);
        home.write("run.json", RUN);
        let words = ["the ", "cat ", "sat ", "on a ", "mat, ", "and "];
        let text: Vec<&str> = (0..10_000_usize).map(|index| words[index * index % 7 % 6]).collect();
        home.write("text.txt", text.concat());
        home
    }

    /// A folder whose run file has some text replaced.
    #[track_caller]
    pub(crate) fn with(changes: &[(&str, &str)]) -> Self {
        let home = Self::new();
        let changed = changes.iter().fold(RUN.to_owned(), |text, (from, to)| {
            assert_eq!(text.matches(from).count(), 1, "`{from}` stands once in the run file");
            text.replace(from, to)
        });
        home.write("run.json", changed);
        home
    }

    /// A folder with a trained model in `out`.
    pub(crate) fn trained() -> Self {
        let home = Self::new();
        home.run("train run.json --out out").success();
        home
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, contents: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), contents).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// What is in the folder, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        self.names_in("")
    }

    /// What is in a folder of it, sorted.
    pub(crate) fn names_in(&self, folder: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(folder)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    /// The binary in this folder with arguments that have no spaces, with piped output so wide that no line is broken and an
    /// environment that does not colour it.
    pub(crate) fn command(&self, line: impl AsRef<str>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pipezero"));
        command.args(line.as_ref().split_whitespace()).current_dir(self.0.path()).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
            .env("TMPDIR", self.1.path())
            .env("OMPI_MCA_btl_vader_backing_directory", self.1.path())
            .env("COLUMNS", "1000")
            .env("NO_COLOR", "1")
            .env_remove("FORCE_COLOR")
            .env_remove("CLICOLOR_FORCE");
        command
    }

    /// Runs the binary to its end.
    pub(crate) fn run(&self, line: impl AsRef<str>) -> Printed {
        Printed::new(self.command(line).output().unwrap(), self.0.path())
    }

    /// The JSON that a command prints.
    pub(crate) fn json(&self, line: impl AsRef<str>) -> Value {
        serde_json::from_str(&self.run(line).success()).expect("stdout is one JSON value")
    }

    /// Runs each command that stands behind a `$` in the expected text, after the same beginning, and compares its status and
    /// its error: what follows the run file's own notices, without clap's advice at the end.
    #[track_caller]
    pub(crate) fn refuses(&self, beginning: &str, expected: Expect) {
        let commands: Vec<&str> =
            expected.data().lines().filter_map(|line| line.trim_start().strip_prefix("$ ")).collect();
        assert!(!commands.is_empty(), "a command stands behind each `$`");
        let mut found = String::new();
        for command in commands {
            let printed = self.run(format!("{beginning} {command}"));
            let status = printed.status.unwrap_or_default();
            let stderr = printed.failure(status);
            let error = &stderr[stderr.find("error: ").expect("an error")..];
            let error = error.trim_end_matches("\n\nFor more information, try '--help'.\n").trim_end();
            found += &format!("$ {command}\n[{status}] {error}\n");
        }
        expected.assert_eq(&found);
    }
}
