//! Manifests against the tables of `docs/ARCHITECTURE.md`, in both directions, and what code in a folder must not name.

use std::collections::{BTreeMap, BTreeSet};

use super::tree::{files, findings_in_code, is_test, items, read, report, table};

const PAGE: &str = "docs/ARCHITECTURE.md";

/// The folders of the workspace's crates, as the manifest at its root lists them.
fn members() -> Vec<String> {
    let manifest = read("Cargo.toml");
    let (_, list) = manifest.split_once("members = [").expect("a workspace has members");
    let (list, _) = list.split_once(']').expect("the list ends");
    let names = list.split('"').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    assert!(names.len() > 10, "only {names:?} were found");
    names
}

/// The folder of a package of this workspace, by its path in the manifest at the root.
fn folder_of(package: &str) -> Option<String> {
    let manifest = read("Cargo.toml");
    let line = manifest.lines().find(|line| line.starts_with(&format!("{package} = {{ path = ")))?;
    line.split('"').nth(1).map(str::to_owned)
}

/// The dependencies in a crate's manifest, without those of its tests.
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

/// The compiler holds the arrows; this holds the page that shows them.
#[test]
fn the_architecture_shows_the_arrows_of_the_manifests() {
    let rows = table(PAGE, "## Crates");
    let mut findings = Vec::new();
    let members = members();
    for folder in &members {
        let names = dependencies(folder);
        let found: BTreeSet<String> = names.iter().filter_map(|name| folder_of(name)).collect();
        let Some(row) = rows.iter().find(|row| row[0] == format!("{folder}/")) else {
            findings.push(format!("{PAGE}: the table of crates has no row `{folder}/`"));
            continue;
        };
        let said: BTreeSet<String> = items(&row[2]).into_iter().collect();
        if found != said {
            findings.push(format!("{folder}/Cargo.toml depends on {found:?}, {PAGE} says {said:?}"));
        }
    }
    assert_eq!(rows.len(), members.len(), "{PAGE} has a row for each crate and no other");
    report(&findings);
}

/// No crate is used that the page does not account for, and none is accounted for in vain.
#[test]
fn every_dependency_has_its_reason_in_the_architecture() {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for folder in members().into_iter().filter(|folder| folder != "tests" && folder != "benches") {
        for name in dependencies(&folder).into_iter().filter(|name| folder_of(name).is_none()) {
            let short = folder.strip_prefix("engine/").unwrap_or(&folder).to_owned();
            found.entry(name).or_default().insert(short);
        }
    }
    let said: BTreeMap<String, BTreeSet<String>> = table(PAGE, "## Dependencies")
        .iter()
        .flat_map(|row| items(&row[0]).into_iter().map(|name| (name, items(&row[1]).into_iter().collect())))
        .collect();
    assert_eq!(found, said, "manifests to the left, the table of dependencies in {PAGE} to the right");
}

/// Worlds name instructions in reports.
const WORLDS: &str = "engine/comm/src/world/";

/// `(folder, words, why)`: what code in a folder must not name.
const UNKNOWN_TO: [(&str, &[&str], &str); 6] = [
    ("engine/run/src/executor", &["ZeroLevel", "ZeroConfig"], "the program and the plan say what is sharded"),
    ("engine/comm/src", &["pipezero_schedule", "Stage(", "Unit("], "a communicator knows buffers and ranks"),
    (
        "models/src",
        &["pipezero::", "pipezero_", "PipelineRank", "shard_"],
        "models know nothing of ranks, stages or shards",
    ),
    (
        "models/candle/src",
        &["pipezero::", "PipelineRank", "shard_"],
        "layers of candle's modules know of none either",
    ),
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
        let paths =
            files(folder, ".rs").into_iter().filter(|path| !is_test(path) && !path.starts_with(WORLDS));
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
            "engine/cli/",
            "engine/config/",
            "engine/examples/",
            "engine/plan/src/from_file.rs",
            "engine/plan/src/lib.rs",
            "engine/src/lib.rs",
            "engine/tests/",
            "engine/train/src/origin.rs",
            "engine/train/src/recorded_run.rs",
            "engine/train/src/trained.rs",
            "engine/train/src/weights_run.rs",
        ];
        !is_test(path) && !may_read.iter().any(|start| path.starts_with(start))
    };
    let paths = files("engine", ".rs").into_iter().filter(below);
    let take = |_: &str, line: &str| line.contains("RunFile").then(|| "take a resolved `Run`".to_owned());
    report(&findings_in_code(paths, take));
}
