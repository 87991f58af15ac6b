//! Lengths and constructs of every source file.

use super::tree::{code, files, findings_in_code, is_test, read, report};

/// Lines of a source file at most: one concept per file.
const FILE_LINES_MAX: usize = 500;

/// Lines of a function at most: what fits a screen.
const FUNCTION_LINES_MAX: usize = 70;

/// Every source file that somebody wrote, tests included.
pub(super) fn sources() -> Vec<String> {
    let sources = files("", ".rs");
    assert!(sources.len() > 100, "only {} sources were found", sources.len());
    sources
}

#[test]
fn files_are_short_and_say_what_they_are() {
    let mut findings = Vec::new();
    for path in sources() {
        let text = read(&path);
        let num_lines = text.lines().count();
        if num_lines > FILE_LINES_MAX {
            findings
                .push(format!("{path}: {num_lines} lines, at most {FILE_LINES_MAX}; split it by concept"));
        }
        if !text.starts_with("//! ") && !is_test(&path) {
            findings.push(format!("{path}: its first line does not say what it is (`//! ...`)"));
        }
    }
    report(&findings);
}

#[test]
fn a_module_with_files_of_its_own_is_a_folder_with_a_mod_rs() {
    let sources = sources();
    let beside = sources.iter().filter(|path| {
        let folder = format!("{}/", path.trim_end_matches(".rs"));
        sources.iter().any(|other| other.starts_with(&folder))
    });
    report(
        &beside
            .map(|path| format!("{path}: beside a folder of this name; make it its `mod.rs`"))
            .collect::<Vec<_>>(),
    );
}

/// The name in a line that begins a function.
fn function_name(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("fn ")?;
    let is_declaration = before.split_whitespace().all(|word| {
        word.starts_with("pub")
            || ["const", "async", "unsafe", "extern"].contains(&word)
            || word.ends_with(')')
    });
    is_declaration.then(|| after.split(['(', '<']).next().unwrap_or(after))
}

/// Every function of formatted code with its first line's index and its length: it ends with the first line that is a
/// brace at its own indentation, or without a body with its parameters.
fn functions<'a>(lines: &[&'a str]) -> Vec<(&'a str, usize, usize)> {
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else { continue };
        let indentation = &line[..line.len() - line.trim_start().len()];
        let end = format!("{indentation}}}");
        let parameters = format!("{indentation})");
        let ends = |line: &str| line == end || (line.starts_with(&parameters) && line.ends_with(';'));
        // A declaration without a body, or a body on one line, ends where it begins.
        let length = if line.ends_with(';') || line.ends_with('}') {
            0
        } else {
            lines[start + 1..].iter().take_while(|&&line| !ends(line)).count() + 1
        };
        found.push((name, start, length + 1));
    }
    found
}

#[test]
fn functions_fit_a_screen() {
    let (mut findings, mut num_functions) = (Vec::new(), 0);
    for path in sources().into_iter().filter(|path| !is_test(path)) {
        let text = read(&path);
        for (name, start, length) in functions(&code(&text)) {
            num_functions += 1;
            if length > FUNCTION_LINES_MAX {
                findings.push(format!(
                    "{path}:{}: `{name}` has {length} lines, at most {FUNCTION_LINES_MAX}",
                    start + 1
                ));
            }
        }
    }
    assert!(num_functions > 500, "only {num_functions} functions were found");
    report(&findings);
}

#[test]
fn lengths_of_functions_are_counted_from_the_first_line_to_the_closing_brace() {
    let lines = [
        "impl A {",
        "    pub(crate) fn one(&self) -> u8 {",
        "        if true {",
        "        }",
        "        1",
        "    }",
        "    fn two() {}",
        "}",
        "trait B {",
        "    fn three(&self);",
        "}",
    ];
    assert_eq!(functions(&lines), [("one", 1, 5), ("two", 6, 1), ("three", 9, 1)]);
}

/// What may not stand in code for users, with the repair. Each is written in two halves, so that this file is not reported.
const BANNED: [(&str, &str); 4] = [
    (concat!("to", "do!("), "write it, or leave it out"),
    (concat!("unimplemented", "!("), "write it, or leave it out"),
    (concat!("dbg", "!("), "use `tracing`"),
    (concat!("#[allow", "(dead_code"), "remove what nothing uses"),
];

/// How a test fails, and code for users must not.
const UNWRAP: (&str, &str) =
    (concat!(".unw", "rap()"), "use `?`, or `expect` with the reason why it cannot fail");

#[test]
fn code_for_users_has_no_stubs_and_no_shortcuts() {
    report(&findings_in_code(sources(), |path, line| {
        let mut banned = BANNED.into_iter().chain((!is_test(path)).then_some(UNWRAP));
        let (construct, repair) = banned.find(|(construct, _)| line.contains(construct))?;
        Some(format!("`{construct}`; {repair}"))
    }));
}

/// Inline modules of tests are searched too for tests that do not run. Those for a GPU, and those of a job's processes, are run by others.
#[test]
fn no_test_is_switched_off() {
    let construct = concat!("#[ign", "ore");
    let is_of_job = |path: &str| {
        path == "tests/collectives/mod.rs" || path.starts_with("tests/mpi/") && path.ends_with("/in_a_job.rs")
    };
    let is_run_by_others = |path: &String| path.starts_with("tests/cuda/on_a_device/") || is_of_job(path);
    let sources = sources().into_iter().filter(|path| !is_run_by_others(path));
    let switched_off = sources.filter(|path| read(path).contains(construct));
    report(&switched_off.map(|path| format!("{path}: `{construct}`")).collect::<Vec<_>>());
}

/// What a device computes with lies in its memory: code that makes buffers of the host, or reads elements, would run on the host alone.
#[test]
fn only_kernels_of_the_host_read_elements() {
    let (mut findings, mut num_reads) = (Vec::new(), 0);
    let hosts = [
        "models/src/kernels/",
        "models/src/memory/",
        "models/src/queue/",
        "models/src/buffer.rs",
        // What it asks a queue for are kernels of the host.
        "models/candle/",
        // So are those that it hands to `Queue::on_host`.
        "engine/examples/custom_loss/",
        "engine/examples/rlhf/losses.rs",
        "benches/",
    ];
    let is_of_host = |path: &String| hosts.iter().any(|host| path.starts_with(host));
    let reads =
        [".slice()", ".slice::<", ".host()", ".host_mut()", ".host_as", ".host_mut_as", "Buffer::from_vec"];
    for path in sources().into_iter().filter(|path| !is_test(path)) {
        for (index, line) in code(&read(&path)).into_iter().enumerate() {
            let Some(form) = reads.iter().find(|form| line.contains(**form)) else { continue };
            num_reads += 1;
            if !is_of_host(&path) {
                let line = index + 1;
                findings.push(format!("{path}:{line}: `{form}` is the host's memory; ask a queue"));
            }
        }
    }
    assert!(num_reads > 0, "kernels of the host read elements; the search is broken");
    report(&findings);
}

#[test]
fn unsafe_code_is_where_it_has_to_be_and_says_why_it_is_sound() {
    let (mut findings, mut num_blocks) = (Vec::new(), 0);
    for path in sources() {
        let text = read(&path);
        let all: Vec<&str> = text.lines().collect();
        for (index, line) in code(&text).into_iter().enumerate() {
            let is_unsafe = ["unsafe {", "unsafe impl", "unsafe fn"].iter().any(|form| line.contains(form));
            if !is_unsafe || path == "tests/tidy/source.rs" {
                continue;
            }
            num_blocks += 1;
            if ![
                "models/src/kernels/",
                "models/src/memory/",
                "models/src/queue/cuda/",
                "models/src/queue/deferred/queue.rs",
                "engine/comm/src/mpi/",
            ]
            .iter()
            .any(|folder| path.starts_with(folder))
            {
                findings.push(format!(
                    "{path}:{}: unsafe code belongs to kernels, memory and what calls C libraries",
                    index + 1
                ));
            }
            // A function says what its callers owe it.
            let is_explanation = |line: &str| line.starts_with("// SAFETY:") || line == "/// # Safety";
            let is_explained = all[..index].iter().rev().take(8).map(|line| line.trim()).any(is_explanation);
            if !is_explained {
                findings.push(format!("{path}:{}: unsafe code without `// SAFETY:` before it", index + 1));
            }
        }
    }
    assert!(num_blocks > 0, "kernels have unsafe code; the search is broken");
    report(&findings);
}

/// Where somebody's own machine shows through.
const HOMES: [&str; 4] =
    [concat!("/ho", "me/"), concat!("/Us", "ers/"), concat!("/ro", "ot/"), concat!("C:", "\\Users")];

#[test]
fn no_file_names_a_home_folder() {
    let mut findings = Vec::new();
    for ending in [".rs", ".md", ".json", ".toml", ".py", ".sh"] {
        for path in files("", ending) {
            let text = read(&path);
            if let Some(home) = HOMES.iter().find(|&&home| text.contains(home)) {
                findings.push(format!("{path}: a path below `{home}`"));
            }
        }
    }
    report(&findings);
}
