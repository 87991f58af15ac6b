//! Who may use whom: manifests and modules against the tables of `docs/ARCHITECTURE.md`, in both directions.

use std::collections::{BTreeMap, BTreeSet};

use super::tree::{code, files, findings_in_code, is_test, items, read, report, table};

const PAGE: &str = "docs/ARCHITECTURE.md";

/// The crates of the workspace, by folder.
const FOLDERS: [&str; 7] = ["schedule", "partition", "models", "models/candle", "engine", "tests", "benches"];

/// What a crate depends on, beside what only its tests need.
fn dependencies(folder: &str) -> Vec<String> {
    let manifest = read(&format!("{folder}/Cargo.toml"));
    let Some((_, section)) = manifest.split_once("\n[dependencies]\n") else { return Vec::new() };
    let lines = section.lines().take_while(|line| !line.starts_with('['));
    let mut names: Vec<String> =
        lines.filter_map(|line| Some(line.split_once(['.', ' ', '='])?.0.to_owned())).collect();
    names.retain(|name| !name.is_empty() && !name.starts_with('#'));
    names.sort();
    names
}

/// A workspace crate's folder by its package name, as `pipezero-schedule` is `schedule`.
fn folder_of(package: &str) -> Option<&str> {
    match package {
        "pipezero" => Some("engine"),
        "pipezero-candle" => Some("models/candle"),
        _ => package.strip_prefix("pipezero-"),
    }
}

#[test]
fn crates_depend_on_what_the_architecture_says() {
    let rows = table(PAGE, "## Crates");
    let mut findings = Vec::new();
    for folder in FOLDERS {
        let names = dependencies(folder);
        let found: BTreeSet<String> =
            names.iter().filter_map(|name| folder_of(name)).map(str::to_owned).collect();
        let Some(row) = rows.iter().find(|row| row[0] == format!("{folder}/")) else {
            findings.push(format!("{PAGE}: the table of crates has no row `{folder}/`"));
            continue;
        };
        let said: BTreeSet<String> = items(&row[2]).into_iter().collect();
        if found != said {
            findings.push(format!("{folder}/Cargo.toml depends on {found:?}, {PAGE} says {said:?}"));
        }
    }
    let manifest = read("Cargo.toml");
    let members = manifest.lines().find(|line| line.starts_with("members")).expect("a workspace has members");
    assert_eq!(members.matches('"').count() / 2, FOLDERS.len(), "a new crate belongs here too: {members}");
    report(&findings);
}

/// No crate is used that the page does not account for, and none is accounted for in vain.
#[test]
fn every_dependency_has_its_reason_in_the_architecture() {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for folder in FOLDERS.into_iter().filter(|&folder| folder != "tests" && folder != "benches") {
        for name in dependencies(folder).into_iter().filter(|name| folder_of(name).is_none()) {
            found.entry(name).or_default().insert(folder.to_owned());
        }
    }
    let said: BTreeMap<String, BTreeSet<String>> = table(PAGE, "## Dependencies")
        .iter()
        .flat_map(|row| items(&row[0]).into_iter().map(|name| (name, items(&row[1]).into_iter().collect())))
        .collect();
    assert_eq!(found, said, "manifests to the left, the table of dependencies in {PAGE} to the right");
}

/// The folder of `engine/src` whose own folders are modules with a row each.
const WITH_MODULES: &str = "run";

/// The module of a path below `engine/src`, given as its parts: one folder, or two within `run`.
fn module<'a>(mut parts: impl Iterator<Item = &'a str>) -> Option<String> {
    let first = parts.next().map(|part| part.trim_end_matches(".rs"))?;
    if first != WITH_MODULES {
        return Some(first.to_owned());
    }
    let second = parts.next()?.trim_end_matches(".rs");
    let is_module = second != "mod" && second.starts_with(char::is_lowercase);
    is_module.then(|| format!("{first}/{second}"))
}

/// The module of `engine/src` that a file belongs to; none for `lib.rs`, `main.rs` and the files that only introduce.
fn module_of(path: &str) -> Option<String> {
    let path = path.strip_prefix("engine/src/")?;
    module(path.split('/')).filter(|module| !["lib", "main"].contains(&module.as_str()))
}

/// What a line of code names after `crate::`.
fn modules_named(line: &str) -> impl Iterator<Item = String> {
    let names = line.split("crate::").skip(1);
    names.filter_map(|rest| {
        module(rest.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|n| !n.is_empty()))
    })
}

#[test]
fn modules_of_the_engine_use_what_the_architecture_says() {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for path in files("engine/src", ".rs") {
        let Some(module) = module_of(&path) else { continue };
        let used = found.entry(module.clone()).or_default();
        if is_test(&path) {
            continue;
        }
        let text = read(&path);
        for name in code(&text).iter().flat_map(|line| modules_named(line)) {
            assert!(!name.is_empty(), "{path}: write one `use` per module, so that arrows can be read");
            if name != module {
                used.insert(name);
            }
        }
    }
    let said: BTreeMap<String, BTreeSet<String>> = table(PAGE, "**`engine/`**")
        .iter()
        .map(|row| (row[0].clone(), items(&row[2]).into_iter().collect()))
        .collect();
    let modules = |map: &BTreeMap<String, BTreeSet<String>>| map.keys().cloned().collect::<Vec<_>>();
    assert_eq!(
        modules(&found),
        modules(&said),
        "modules of engine/src to the left, rows in {PAGE} to the right"
    );
    let mut findings = Vec::new();
    for (module, used) in &found {
        if *used != said[module] {
            findings.push(format!("`{module}` uses {used:?}, {PAGE} says {:?}", said[module]));
        }
    }
    report(&findings);
}

/// `(folder, words, why)`: what code in a folder must not name.
const UNKNOWN_TO: [(&str, &[&str], &str); 6] = [
    ("engine/run/src/executor", &["ZeroLevel", "ZeroConfig"], "the program and the plan say what is sharded"),
    ("engine/comm/src", &["pipezero_schedule", "Stage(", "Unit("], "a communicator knows buffers and ranks"),
    (
        "models/src",
        &["pipezero::", "pipezero_", "PipelineRank", "shard_"],
        "models know nothing of ranks, stages or shards",
    ),
    ("models/candle/src", &["pipezero::", "PipelineRank", "shard_"], "so do layers of candle's modules"),
    ("schedule/src", &["std::", "pipezero::", "pipezero_"], "programs know no file, clock, thread or tensor"),
    (
        "partition/src",
        &["std::fs", "std::io", "std::thread", "std::time", "pipezero::", "pipezero_"],
        "formulas do no IO",
    ),
];

#[test]
fn what_a_folder_must_not_know_is_not_named_there() {
    let mut findings = Vec::new();
    for (folder, words, why) in UNKNOWN_TO {
        let paths = files(folder, ".rs").into_iter().filter(|path| !is_test(path));
        findings.extend(findings_in_code(paths, |_, line| {
            let word = words.iter().find(|&&word| line.contains(word))?;
            Some(format!("names `{word}`; {why}"))
        }));
    }
    report(&findings);
}

#[test]
fn only_listed_files_read_the_raw_run_file() {
    let below = |path: &String| {
        let may_read = [
            "engine/cli/src/",
            "engine/config/src/",
            "engine/src/lib.rs",
            "engine/plan/src/from_file.rs",
            "engine/plan/src/lib.rs",
            "engine/train/src/recorded_run.rs",
            "engine/train/src/trained.rs",
            "engine/train/src/weights_run.rs",
        ];
        !is_test(path) && !may_read.iter().any(|start| path.starts_with(start))
    };
    let paths = files("engine/src", ".rs").into_iter().filter(below);
    let take = |_: &str, line: &str| line.contains("RunFile").then(|| "take a resolved `Run`".to_owned());
    report(&findings_in_code(paths, take));
}
