//! Reading the repository: its files, its code without comments and tests, the tables of its pages.

use std::path::{Path, PathBuf};

/// The repository's root, or the folder that `TIDY_ROOT` names: what holds here can be counted in an older tree too.
pub(super) fn root() -> PathBuf {
    if let Some(other) = std::env::var_os("TIDY_ROOT") {
        return other.into();
    }
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().expect("the crate `tests` is a folder of the repository").to_owned()
}

/// A file of the repository, by its path from the root.
pub(super) fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Folders that hold what tools made, not what was written.
const MADE: [&str; 2] = ["target", "runs"];

/// Every file below `folder` (from the root, "" for all) with this ending, as paths from the root, sorted.
pub(super) fn files(folder: &str, ending: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in
            std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        {
            let path = entry.expect("an entry of a readable folder").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                if !name.starts_with('.') && !MADE.contains(&name.as_str()) {
                    folders.push(path);
                }
            } else if name.ends_with(ending) {
                let path = path.strip_prefix(root()).expect("found below the root");
                found.push(path.to_string_lossy().replace('\\', "/"));
            }
        }
    }
    found.sort();
    found
}

/// Whether a source file holds tests or what only tests use.
pub(super) fn is_test(path: &str) -> bool {
    let folder_or_file =
        |name: &str| path.contains(&format!("/{name}/")) || path.ends_with(&format!("/{name}.rs"));
    path.starts_with("tests/") || folder_or_file("tests") || folder_or_file("testing")
}

/// A source file's lines with what is neither code nor for users blanked: comments, and modules of tests.
///
/// Line numbers stay. Code is formatted (`cargo fmt`), so a module of tests ends with the first brace in column 0.
pub(super) fn code(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> =
        text.lines().map(|line| &line[..line.find("//").unwrap_or(line.len())]).collect();
    let mut index = 0;
    while index + 1 < lines.len() {
        if lines[index] == "#[cfg(test)]" && lines[index + 1].ends_with('{') {
            let length =
                lines[index..].iter().position(|&line| line == "}").unwrap_or(lines.len() - index - 1);
            lines[index..=index + length].fill("");
        }
        index += 1;
    }
    lines
}

/// What `find` says of lines of code, given a file's path and a line, each with its place.
pub(super) fn findings_in_code(
    paths: impl IntoIterator<Item = String>,
    find: impl Fn(&str, &str) -> Option<String>,
) -> Vec<String> {
    let mut findings = Vec::new();
    for path in paths {
        for (number, line) in (1..).zip(code(&read(&path))) {
            findings.extend(find(&path, line).map(|finding| format!("{path}:{number}: {finding}")));
        }
    }
    findings
}

/// The rows of the table under `heading` in a page, each as its cells without backticks.
pub(super) fn table(page: &str, heading: &str) -> Vec<Vec<String>> {
    let text = read(page);
    let (_, section) = text.split_once(heading).unwrap_or_else(|| panic!("{page} has no `{heading}`"));
    let lines = section.lines().skip_while(|line| !line.starts_with('|'));
    let rows = lines.take_while(|line| line.starts_with('|')).skip(2);
    let cells = |row: &str| {
        row.trim_matches('|').split('|').map(|cell| cell.trim().replace('`', "")).collect::<Vec<String>>()
    };
    rows.map(cells).collect()
}

/// The items of a cell: names between commas, none for "-".
pub(super) fn items(cell: &str) -> Vec<String> {
    let mut items: Vec<String> = cell
        .split(',')
        .map(|item| item.trim().to_owned())
        .filter(|item| item != "-" && !item.is_empty())
        .collect();
    items.sort();
    items
}

/// Fails with every finding at once, so that one run shows all there is to repair.
#[track_caller]
pub(super) fn report(findings: &[String]) {
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}
