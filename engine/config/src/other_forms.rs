//! Forms of configuration that other systems have: YAML, a key with several configurations, several files. Each is answered with one error that shows the form which is read here.

use std::path::Path;

use pipezero_files::json::{Entry, Node, Source, Value, shorten};

use super::error::{ConfigError, Problem};
use super::place::Place;
use super::several::{MasterProblem, NameOf, is_name};

/// Keys by which other systems name several configurations in one file.
const SEVERAL: [&str; 2] = ["deepspeed_configs", "deepspeed_plugins"];

/// Engines that an answer shows at most.
const SHOWN_MAX: usize = 4;

/// Shows what converts YAML.
const OF_YAML: &str = "write {\"model\": {\"family\": \"gpt2\", ...}, \"train_batch_size\": 8, \"steps\": 100}, and for several models a master file, \
     {\"engines\": {\"a\": \"a.json\", ...}, \"tasks\": {\"all\": {\"train\": [\"a\", ...]}}}; `python3 -c 'import json, sys, yaml; \
     json.dump(yaml.safe_load(sys.stdin), sys.stdout, indent=2)' < FILE.yaml > FILE.json` converts a file";

/// The mistake that a text is YAML: by the file's name, or by the first line that is no comment.
pub(super) fn is_yaml(name: &str, text: &str) -> Option<ConfigError> {
    let is_content = |line: &&str| !line.is_empty() && !line.starts_with('#');
    let first = text.lines().map(str::trim_start).find(is_content)?;
    let ending = Path::new(name).extension();
    let is_named_so =
        ending.is_some_and(|ending| ["yaml", "yml"].iter().any(|of| ending.eq_ignore_ascii_case(of)));
    let is_json = first.starts_with(['{', '[', '/']);
    if is_json || !(is_named_so || begins_yaml(first)) {
        return None;
    }
    let message = "this is YAML, and run files and master files are JSON".to_owned();
    let place = Place { path: String::new(), span: Source::relaxed_file(name, text).span(0, 0) };
    Some(ConfigError::new(place, Problem::Syntax { message, repair: Some(OF_YAML.to_owned()) }))
}

/// `---`, `%YAML 1.2`, or `key: value`.
fn begins_yaml(line: &str) -> bool {
    let is_key = |key: &str| {
        let mut letters = key.chars();
        letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
            && letters.all(|letter| letter.is_ascii_alphanumeric() || "_-.".contains(letter))
    };
    let is_value = |value: &str| value.is_empty() || value.starts_with(char::is_whitespace);
    line.trim_end() == "---"
        || line.starts_with("%YAML")
        || line.split_once(':').is_some_and(|(key, value)| is_key(key) && is_value(value))
}

/// The mistake that a file has a key of another system with several configurations.
pub(super) fn has_several(root: &Node) -> Option<ConfigError> {
    let Value::Object(entries) = &root.value else { return None };
    let entry = entries.iter().find(|entry| SEVERAL.contains(&entry.key.as_str()))?;
    let place = Place { path: entry.key.clone(), span: entry.key_span.clone() };
    let problem = MasterProblem::SeveralConfigs { master: master_of(&configs(&entry.node)) };
    Some(ConfigError::new(place, Problem::Master(problem)))
}

/// The configurations in a map or a list: a name, and a file where one is named.
fn configs(node: &Node) -> Vec<(String, Option<String>)> {
    let file = |node: &Node| match &node.value {
        Value::String(path) => Some(path.clone()),
        _ => None,
    };
    let of_map = |entry: &Entry| (entry.key.clone(), file(&entry.node));
    let of_list = |node: &Node| (file(node).map(|file| stem(&file)).unwrap_or_default(), file(node));
    match &node.value {
        Value::Object(entries) => entries.iter().map(of_map).collect(),
        Value::Array(elements) => elements.iter().map(of_list).collect(),
        _ => Vec::new(),
    }
}

/// A master file with these run files as engines, which a task trains together.
fn master_of_files(files: &[&str]) -> String {
    let configs: Vec<_> = files.iter().map(|file| (stem(file), Some((*file).to_owned()))).collect();
    master_of(&configs)
}

fn stem(file: &str) -> String {
    Path::new(file).file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

/// A name that cannot be an engine's, or is that of another, is replaced.
fn master_of(configs: &[(String, Option<String>)]) -> String {
    let mut names: Vec<String> = Vec::new();
    let mut engines = Vec::new();
    for (number, (name, file)) in configs.iter().take(SHOWN_MAX).enumerate() {
        let is_usable = is_name(name, NameOf::Engine) && !names.contains(name);
        let name = if is_usable { name.clone() } else { format!("model-{}", number + 1) };
        let of_engine = match file {
            Some(file) => serde_json::Value::from(shorten(file)).to_string(),
            None => "{...}".to_owned(),
        };
        engines.push(format!("\"{name}\": {of_engine}"));
        names.push(name);
    }
    if engines.is_empty() {
        engines = vec!["\"a\": \"a.json\"".to_owned(), "\"b\": \"b.json\"".to_owned()];
        names = vec!["a".to_owned(), "b".to_owned()];
    }
    let more = if configs.len() > SHOWN_MAX { ", ..." } else { "" };
    let names: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    format!(
        "{{\"engines\": {{{}{more}}}, \"tasks\": {{\"all\": {{\"train\": [{}{more}]}}}}}}",
        engines.join(", "),
        names.join(", ")
    )
}

/// The answer to a name that is a list of files, if no file has this name.
pub(super) fn is_list_of_files(path: &Path) -> Option<String> {
    let files: Vec<&str> = path.to_str()?.split(',').map(str::trim).filter(|file| !file.is_empty()).collect();
    (files.len() > 1).then(|| takes_one_file(&files))
}

/// Why a command does not take these files, and what it takes.
pub fn takes_one_file(files: &[&str]) -> String {
    format!(
        "a command takes one file; of several models that is a master file, which `train`, `check` and `plan` take: {}",
        master_of_files(files)
    )
}

#[cfg(test)]
mod tests {
    use std::fs;

    use expect_test::expect;

    use crate::GivenFile;

    /// What is said of files with these names and texts.
    fn said(files: &[(&str, &str)]) -> String {
        let home = tempfile::tempdir().unwrap();
        let of_home = format!("{}/", home.path().display());
        let said = |(name, text): &(&str, &str)| {
            let path = home.path().join(name);
            if !text.is_empty() {
                fs::write(&path, text).unwrap();
            }
            match GivenFile::load(&path) {
                Ok(_) => format!("{name}: read\n"),
                Err(errors) => format!("{errors}\n").replace(&of_home, ""),
            }
        };
        files.iter().map(said).collect()
    }

    #[test]
    fn several_configurations_are_answered_with_a_master_file() {
        let expected = expect![[r#"
            map.json:1:2: `deepspeed_configs` is a key of other systems; here several models are engines of a master file; write {"engines": {"student": "s.json", "model-2": {...}}, "tasks": {"all": {"train": ["student", "model-2"]}}}
            list.json:1:14: `deepspeed_configs` is a key of other systems; here several models are engines of a master file; write {"engines": {"zero2": "conf/zero2.json", "zero3": "conf/zero3.json", "model-3": "other/zero3.json"}, "tasks": {"all": {"train": ["zero2", "zero3", "model-3"]}}}
            beside.json:1:43: `deepspeed_plugins` is a key of other systems; here several models are engines of a master file; write {"engines": {"a": "a.json", "b": "b.json"}, "tasks": {"all": {"train": ["a", "b"]}}}
            many.json:1:2: `deepspeed_configs` is a key of other systems; here several models are engines of a master file; write {"engines": {"a": "a.json", "b": "b.json", "c": "c.json", "d": "d.json", ...}, "tasks": {"all": {"train": ["a", "b", "c", "d", ...]}}}
            inner.json: read
            x.json,y.json: cannot read the run file: a command takes one file; of several models that is a master file, which `train`, `check` and `plan` take: {"engines": {"x": "x.json", "y": "y.json"}, "tasks": {"all": {"train": ["x", "y"]}}}
            x.json,: cannot read the run file: No such file or directory (os error 2)
            there,too.json: read
        "#]];
        expected.assert_eq(&said(&[
            ("map.json", r#"{"deepspeed_configs": {"student": "s.json", "teacher model": {"stage": 3}}}"#),
            ("list.json", r#"{"steps": 3, "deepspeed_configs": ["conf/zero2.json", "conf/zero3.json", "other/zero3.json"]}"#),
            ("beside.json", r#"{"engines": {"a": "a.json"}, "tasks": {}, "deepspeed_plugins": {}}"#),
            ("many.json", r#"{"deepspeed_configs": ["a.json", "b.json", "c.json", "d.json", "e.json"]}"#),
            ("inner.json", r#"{"model": {"deepspeed_configs": 1}}"#),
            // Files that are not there.
            ("x.json,y.json", ""),
            ("x.json,", ""),
            ("there,too.json", "{}"),
        ]));
    }

    #[test]
    fn yaml_is_answered_with_json() {
        let found = said(&[
            ("run.yaml", "steps: 3\n"),
            ("run.yml", "- 1\n"),
            ("run.YAML", "# why\n\nmodel:\n  family: gpt2\n"),
            ("plain.json", "# why\nmodel:\n  family: gpt2\n"),
            ("start.json", "---\nsteps: 3\n"),
            ("version.json", "%YAML 1.2\n"),
        ]);
        let answer = found.lines().next().unwrap_or_default().strip_prefix("run.yaml:1:1: ").unwrap();
        assert_eq!(found.matches(answer).count(), 6, "{found}");
        let expected = expect![[r#"
            this is YAML, and run files and master files are JSON; write {"model": {"family": "gpt2", ...}, "train_batch_size": 8, "steps": 100}, and for several models a master file, {"engines": {"a": "a.json", ...}, "tasks": {"all": {"train": ["a", ...]}}}; `python3 -c 'import json, sys, yaml; json.dump(yaml.safe_load(sys.stdin), sys.stdout, indent=2)' < FILE.yaml > FILE.json` converts a file
        "#]];
        expected.assert_eq(&format!("{answer}\n"));
        // JSON is what it is, whatever its name says, and other texts are no YAML.
        let expected = expect![[r#"
            json.yaml: read
            comment.yml: read
            password.json:1:1: this is no file of JSON: it does not begin with `{`
            words.json:1:1: this is no file of JSON: it does not begin with `{`
            other.json:1:1: this is no file of JSON: it does not begin with `{`
        "#]];
        expected.assert_eq(&said(&[
            ("json.yaml", r#"{"steps": 3}"#),
            ("comment.yml", "// why\n{\"steps\": 3}"),
            ("password.json", "root:x:0:0:root:/root\n"),
            ("words.json", "a text with: a colon\n"),
            ("other.json", "steps = 3\n"),
        ]));
    }
}
