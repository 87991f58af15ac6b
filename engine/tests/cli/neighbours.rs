//! What other users can put in the place of a file that a command reads or writes: a link to a secret, a pipe, a device, a folder, a file of
//! theirs. The target of a link never changes, no secret is copied or shown, and no command waits.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use crate::command::Home;

const SECRET: &str = "swordfish:$6$x1:19000:0:99999:7:::\n";

/// What stands in the place of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stands {
    /// A link to a file that only its owner may read.
    LinkToSecret,
    /// A link to where nothing is.
    LinkToNothing,
    LinkToFolder,
    /// Nobody writes it.
    Pipe,
    /// A link to a device that never ends.
    LinkToDevice,
    /// A link to a file of the kernel, which waits.
    LinkToKernel,
    Folder,
    /// The same contents, of another user, whom only the superuser can name.
    Others,
}

impl Stands {
    const ALL: [Self; 8] = [
        Self::LinkToSecret,
        Self::LinkToNothing,
        Self::LinkToFolder,
        Self::Pipe,
        Self::LinkToDevice,
        Self::LinkToKernel,
        Self::Folder,
        Self::Others,
    ];

    fn put(self, home: &Home, path: &Path) {
        if self == Self::Others {
            // Who is not the superuser tries it with a file of its own.
            return drop(chown(path, Some(1234), Some(1234)));
        }
        match fs::symlink_metadata(path) {
            Ok(found) if found.is_dir() => fs::remove_dir_all(path).unwrap(),
            Ok(_) => fs::remove_file(path).unwrap(),
            Err(_) => {}
        }
        match self {
            Self::LinkToSecret => symlink(home.path("secret"), path).unwrap(),
            Self::LinkToNothing => symlink(home.path("nothing"), path).unwrap(),
            Self::LinkToFolder => symlink(home.path("elsewhere"), path).unwrap(),
            Self::LinkToDevice => symlink("/dev/zero", path).unwrap(),
            Self::LinkToKernel => symlink("/proc/kmsg", path).unwrap(),
            Self::Folder => fs::create_dir(path).unwrap(),
            Self::Pipe => assert!(Command::new("mkfifo").arg(path).status().unwrap().success()),
            Self::Others => {}
        }
    }
}

/// A folder with a secret, a folder of something else, and what `made` adds.
fn home(made: impl Fn(&Home)) -> Home {
    let home = Home::new();
    home.write("secret", SECRET);
    fs::set_permissions(home.path("secret"), Permissions::from_mode(0o600)).unwrap();
    fs::create_dir(home.path("elsewhere")).unwrap();
    home.write("elsewhere/thesis", "years of work");
    made(&home);
    home
}

/// All files in a folder and below, links not followed.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        found.push(entry.path());
        if entry.file_type().unwrap().is_dir() {
            files(&entry.path(), found);
        }
    }
}

/// Runs a command where something stands in the place of a file, and looks at what it must not have touched.
#[track_caller]
fn check(home: &Home, line: &str, path: &str, stands: Stands) {
    let case = format!("pipezero {line}, with {path} as {stands:?}");
    let of_secret = || {
        let found = fs::metadata(home.path("secret")).unwrap();
        (found.ino(), found.mode(), found.len(), found.mtime(), found.mtime_nsec(), found.nlink())
    };
    let before = of_secret();
    stands.put(home, &home.path(path));
    let program = home.command(line);
    // A command takes a fraction of a second; a machine with other work takes longer. Who waits for a pipe waits for ever.
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", "20"]).arg(program.get_program()).args(program.get_args());
    program.get_envs().for_each(|(name, value)| match value {
        Some(value) => drop(command.env(name, value)),
        None => drop(command.env_remove(name)),
    });
    command.current_dir(home.path("")).stdin(std::process::Stdio::null());
    let output = command.output().unwrap();
    let said =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    let status = output.status.code();
    assert!(matches!(status, Some(0..=2)), "{case}: status {status:?}: {said}");
    assert!(!said.contains("panicked"), "{case}: {said}");
    assert!(!said.contains("swordfish"), "{case} shows the secret: {said}");
    assert_eq!(of_secret(), before, "{case} changes the secret");
    assert_eq!(home.read("secret"), SECRET, "{case} changes the secret");
    assert!(!home.path("nothing").exists(), "{case} makes the target of a link: {said}");
    assert_eq!(home.names_in("elsewhere"), ["thesis"], "{case} writes elsewhere: {said}");
    let mut all = Vec::new();
    files(&home.path(""), &mut all);
    for path in all.iter().filter(|path| !path.ends_with("secret")) {
        if fs::symlink_metadata(path).unwrap().is_file() {
            let text = String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
            assert!(!text.contains("swordfish"), "{case} copies the secret to {}", path.display());
        }
    }
}

/// Where a command writes: each of these files, and each that an earlier start has left.
fn names_of(home: &Home, folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    files(&home.path(folder), &mut found);
    let root = home.path("");
    let mut names: Vec<String> =
        found.iter().map(|path| path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

const CHECKPOINTS: &str = r#" --set checkpoint={"every":1}"#;

fn trained(home: &Home) {
    home.run(format!("train run.json --out out --trace{CHECKPOINTS}")).success();
}

/// A run directory in which each file, one after the other, is something else, and every command that reads or writes it.
#[test]
fn in_the_place_of_any_file_of_a_run() {
    let example = home(trained);
    let mut names = names_of(&example, "out");
    // One of several files of a kind.
    names.retain(|name| {
        !name.contains("step-00000002") && !name.contains("rank-00001") && !name.contains("rank-00002")
    });
    assert!(names.len() > 12, "{names:?}");
    thread::scope(|scope| {
        for kinds in Stands::ALL.chunks(4) {
            let (names, example) = (&names, &example);
            scope.spawn(move || kinds.iter().for_each(|&stands| every_name(stands, names, example)));
        }
    });
}

fn every_name(stands: Stands, names: &[String], example: &Home) {
    let resumed = format!("train run.json --out out --resume --set steps=4{CHECKPOINTS}");
    let lines: &[&str] = match stands {
        // Whatever reads opens files as the first of these commands does.
        Stands::LinkToFolder | Stands::Folder | Stands::LinkToNothing => &[&resumed],
        _ => &[&resumed, "eval out --batches 1", "checkpoint verify out", "compare out"],
    };
    let home = home(|_| {});
    for name in names {
        for line in lines {
            let _ = fs::remove_dir_all(home.path("out"));
            let copied = Command::new("cp").arg("-a").args([example.path("out"), home.path("out")]).status();
            assert!(copied.unwrap().success());
            check(&home, line, name, stands);
        }
    }
}

/// Names that a first start writes, in a folder that a neighbour has made before.
#[test]
fn in_the_place_of_what_a_first_start_writes() {
    let example = home(trained);
    let mut names = names_of(&example, "out");
    names.retain(|name| !name.starts_with("out/checkpoints/") && !name.starts_with("out/trace/"));
    assert!(names.len() > 5, "{names:?}");
    for stands in Stands::ALL.into_iter().filter(|&stands| stands != Stands::Others) {
        for name in &names {
            let home = home(|home| fs::create_dir(home.path("out")).unwrap());
            for line in ["train run.json --out out --trace", "train run.json --out out --trace --overwrite"] {
                check(&home, line, name, stands);
            }
        }
    }
}

/// What is read besides: the text and the run file.
#[test]
fn in_the_place_of_what_a_run_reads() {
    for stands in Stands::ALL {
        for (line, name) in [
            ("check run.json", "run.json"),
            ("check run.json", "text.txt"),
            ("train run.json --out out", "text.txt"),
            ("train out.json --out out", "out.json"),
            ("simulate run.json --costs costs.json", "costs.json"),
            ("simulate run.json --out step.json --overwrite", "step.json"),
            ("man --out pages", "pages"),
            ("tokenize text.txt --tokenizer tokenizer.json --out data", "tokenizer.json"),
            ("check tokens.json", "tokens.bin"),
        ] {
            let home = home(|home| {
                for name in ["out.json", "costs.json", "step.json", "pages", "tokenizer.json", "tokens.bin"] {
                    home.write(name, "{}");
                }
                home.write(
                    "tokens.json",
                    home.read("run.json").replace("\"text\": \"text.txt\"", "\"tokens\": \"tokens.bin\""),
                );
            });
            let is_followed = match name {
                // A folder that the user names is written to, wherever it is.
                "pages" => stands == Stands::LinkToFolder,
                // A text that the user names is learned, wherever it is.
                "text.txt" => stands == Stands::LinkToSecret,
                _ => false,
            };
            if is_followed {
                continue;
            }
            check(&home, line, name, stands);
        }
    }
}

/// People keep a run, or its checkpoints, on another disk.
#[test]
fn links_to_folders_of_the_same_user_are_followed_and_said() {
    let home = home(|home| {
        fs::create_dir_all(home.path("disk/checkpoints")).unwrap();
        fs::create_dir(home.path("disk/run")).unwrap();
        symlink(home.path("disk/run"), home.path("out")).unwrap();
        symlink(home.path("disk/checkpoints"), home.path("disk/run/checkpoints")).unwrap();
    });
    let line = format!("train run.json --out out{CHECKPOINTS}");
    let refused = |line: &str| {
        let said = home.run(line);
        assert!(matches!(said.status, Some(1 | 2)), "{}", said.stderr);
        said.stderr
    };
    refused(&line);
    fs::remove_file(home.path("disk/run/checkpoints")).unwrap();
    let said = home.run(&line);
    assert!(
        said.stderr.contains("out is a link: what the run writes there goes to ~/disk/run"),
        "{}",
        said.stderr
    );
    said.success();
    // The checkpoints move to another disk.
    fs::rename(home.path("disk/run/checkpoints"), home.path("disk/moved")).unwrap();
    symlink(home.path("disk/moved"), home.path("disk/run/checkpoints")).unwrap();
    let said = home.run(format!("{line} --resume --set steps=5"));
    assert!(said.stderr.contains("out/checkpoints is a link"), "{}", said.stderr);
    said.success();
    assert!(home.path("disk/moved/step-00000005").is_dir());
    // Replaced, the links stay, and what no run wrote.
    home.run(format!("{line} --overwrite")).success();
    assert!(home.path("out").is_symlink() && home.path("disk/run/checkpoints").is_symlink());
    assert_eq!(home.names_in("disk/moved"), ["step-00000002", "step-00000003"]);
    home.write("disk/moved/thesis", "years of work");
    let said = refused(&format!("{line} --overwrite"));
    assert!(said.contains("which no run wrote"), "{said}");
    // Of another user's: only the superuser can give a folder away.
    if chown(home.path("disk/moved"), Some(1234), None).is_ok() {
        let said = refused(&format!("{line} --resume --set steps=9"));
        assert!(said.contains("that folder belongs to user 1234"), "{said}");
        assert!(!home.path("disk/moved/step-00000009").exists());
    }
}

/// A link in a folder that somebody else made: what it leads to does not travel into the run directory.
#[test]
fn a_link_beside_a_tokenizer_is_not_copied() {
    let tokenizer = r#"{"version":"1.0","added_tokens":[],"model":{"type":"WordLevel","vocab":{"the":0,"[UNK]":1},"unk_token":"[UNK]"},"pre_tokenizer":{"type":"Whitespace"}}"#;
    for name in ["chat_template.jinja", "generation_config.json", "special_tokens_map.json"] {
        let home = home(|home| {
            fs::create_dir(home.path("theirs")).unwrap();
            home.write("theirs/tokenizer.json", tokenizer);
            home.write(
                "run.json",
                home.read("run.json").replace("\"text.txt\",", "\"text.txt\", \"tokenizer\": \"theirs\","),
            );
        });
        home.run("train run.json --out whole").success();
        let path = format!("theirs/{name}");
        check(&home, "train run.json --out out", &path, Stands::LinkToSecret);
        let said = home.run("train run.json --out out").stderr;
        assert!(said.contains(&format!("{name}: it is a link to ~/secret, outside of its folder")), "{said}");
    }
}
