//! All files that are JSON are read alike: what is not JSON, keys that are unknown or stand twice, and values of another kind
//! are refused at their line and column.

use pipezero_config::{HostGpu, Resources, RunFile};
use pipezero_measure::recording::Recording;
use pipezero_plan::Plan;
use pipezero_plan::costs::CostsFile;
use pipezero_train::RunDir;
use tests::{Case, small_run};

fn run_file(text: &str) -> String {
    let resources = Resources { cores: 1, memory_bytes: None, gpu: HostGpu::Absent, ranks: None, part: None };
    RunFile::parse("a.json", text).and_then(|file| file.resolve(resources)).unwrap_err().to_string()
}

fn costs_file(text: &str) -> String {
    CostsFile::parse("a.json", text).unwrap_err().to_string()
}

fn trace(text: &str) -> String {
    let plan = Plan::new(small_run(Case::ONE_RANK)).unwrap();
    Recording::from_json(&plan, text).map(|_| ()).unwrap_err().to_string()
}

fn summary(text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let directory = RunDir::create(&folder.path().join("out"), false).unwrap();
    std::fs::write(directory.file(RunDir::SUMMARY), text).unwrap();
    directory.measured().unwrap_err().to_string()
}

/// Reads a text as a kind of file, and says what refuses it.
type Reader = fn(&str) -> String;

#[test]
fn mistakes_are_refused_at_line_and_column() {
    let word = "a.json:{line}:{column}: ";
    let words = "line {line}, column {column}: ";
    let trace_head = r#"{"format": "pipezero-trace", "version": 1"#;
    // How a kind of file is read, how it says a place, how a text of it begins, a key that is a number or list in it, and
    // what it says of an unknown key; of a summary only some keys are read.
    let kinds: [(Reader, _, _, _, _); 4] = [
        (run_file, word, r#"{"seed": 1"#, "steps", "unknown key `zz`; remove it"),
        (costs_file, word, r#"{"version": 1"#, "step_overhead_ns", "`zz` is an unknown key; remove it"),
        (trace, words, trace_head, "step_ns", "`zz` is an unknown key; remove it"),
        (summary, words, r#"{"steps": 1"#, "ranks", ""),
    ];
    for (read, form, head, key, unknown) in kinds {
        let refuses = |rest: &str, line: usize, column: usize, rule: &str| {
            let text = format!("{head},\r\n{rest}");
            let place = form.replace("{line}", &line.to_string()).replace("{column}", &column.to_string());
            // Editors put a mark before the text, which is in no column.
            for text in [format!("\u{feff}{text}"), text] {
                let error = read(&text);
                assert!(error.contains(&format!("{place}{rule}")), "{text}\n{error}\n{place}{rule}");
            }
        };
        let first = head.find('"').unwrap() + 1;
        let twice = &head[first..head[first..].find('"').unwrap() + first];
        let first = format!("`{twice}` stands twice, first at 1:2; keep one of the two");
        refuses(&format!("  \"{twice}\": 2}}"), 2, 3, &first);
        refuses(
            "  \"é\": {\"a\": 1, \"a\": 2}}",
            2,
            17,
            "`é.a` stands twice, first at 2:9; keep one of the two",
        );
        refuses(&format!(" \"{key}\": true}}"), 2, key.len() + 6, &format!("`{key}` must be "));
        refuses(&format!(" \"{key}\": {{}}}}"), 2, key.len() + 6, &format!("`{key}` must be "));
        // A run file may have both, as DeepSpeed's.
        if key != "steps" {
            refuses(" \"a\": 1,}", 2, 8, "a comma behind the last part is not JSON; remove it");
            refuses(" \"a\": 1 // b\n}", 2, 9, "comments are not JSON; remove it");
        }
        let deep = "lists and objects are more than 128 deep within each other";
        refuses(&format!(" \"a\": {}", "[".repeat(1000)), 2, 7 + 127, deep);
        if !unknown.is_empty() {
            refuses("  \"zz\": 1}", 2, 3, unknown);
        }
    }
}
