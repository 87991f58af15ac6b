//! Pages: each is linked from the front page, and every file that one names exists.

use std::collections::BTreeSet;

use super::tree::{files, read, report, root};

/// The targets of a page's links `[text](target)`, without anchors.
fn links(page: &str) -> Vec<String> {
    let text = read(page);
    let targets = text.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
    let inside = targets.filter(|target| !target.contains("://") && !target.starts_with('#'));
    inside.map(|target| target.split('#').next().unwrap_or(target).to_owned()).collect()
}

/// A link's target as a path from the root, which goes up by `..` at most as often as the page is deep.
fn resolve(page: &str, target: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." | "" => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[test]
fn links_lead_somewhere_and_every_page_is_linked() {
    let pages = files("", ".md");
    let (mut findings, mut linked) = (Vec::new(), BTreeSet::from(["README.md".to_owned()]));
    for page in &pages {
        for target in links(page).iter().map(|target| resolve(page, target)) {
            if !root().join(&target).exists() {
                findings.push(format!("{page}: links to `{target}`, which is not there"));
            }
            if page == "README.md" || page == "docs/ARCHITECTURE.md" {
                linked.insert(target);
            }
        }
    }
    let lost = pages.iter().filter(|page| !linked.contains(*page));
    findings
        .extend(lost.map(|page| format!("{page}: neither README.md nor docs/ARCHITECTURE.md links to it")));
    report(&findings);
}

/// Folders of the repository that paths in pages begin with.
const FOLDERS: [&str; 7] = ["schedule/", "partition/", "models/", "engine/", "tests/", "benches/", "docs/"];

#[test]
fn paths_that_pages_name_exist() {
    let (mut findings, mut num_paths) = (Vec::new(), 0);
    for page in files("", ".md") {
        for (index, line) in read(&page).lines().enumerate() {
            // Every second part of a line that is split at backticks is code.
            for path in line.split('`').skip(1).step_by(2) {
                let is_path =
                    FOLDERS.iter().any(|folder| path.starts_with(folder)) && !path.contains([' ', '*', '<']);
                num_paths += usize::from(is_path);
                let path = path.split(':').next().unwrap_or(path);
                // Pages may name a module's file without its ending.
                if is_path && !root().join(path).exists() && !root().join(format!("{path}.rs")).exists() {
                    findings.push(format!("{page}:{}: `{path}` is not there", index + 1));
                }
            }
        }
    }
    assert!(num_paths > 20, "only {num_paths} paths were found");
    report(&findings);
}

/// The code map names files of a folder by their last part: `lanes.rs`, or `nccl/lanes.rs`.
#[test]
fn files_that_the_code_map_names_exist() {
    let page = read("docs/ARCHITECTURE.md");
    let sources = files("", ".rs");
    let code = page.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    let named: BTreeSet<&str> = code.filter(|name| name.ends_with(".rs") && !name.contains(' ')).collect();
    assert!(named.len() > 100, "only {} files were found", named.len());
    let is_there = |name: &str| {
        let name = name.trim_start_matches("…/");
        sources.iter().any(|path| path == name || path.ends_with(&format!("/{name}")))
    };
    let lost = named.into_iter().filter(|name| !is_there(name));
    report(&lost.map(|name| format!("docs/ARCHITECTURE.md: `{name}` is not there")).collect::<Vec<_>>());
}

#[test]
fn every_example_is_explained_somewhere() {
    let pages: String = files("", ".md").iter().map(|page| read(page)).collect();
    let examples = files("engine/configs", ".json");
    assert!(!examples.is_empty());
    let unknown = examples.iter().filter(|path| !pages.contains(path.as_str()));
    report(&unknown.map(|path| format!("{path}: no page names it")).collect::<Vec<_>>());
}
