//! Every key that a DeepSpeed configuration may have, at its default: it takes effect, or asks for nothing, or one line
//! says what decides it here. `tests/golden/scripts/deepspeed_fields.py` lists the keys from DeepSpeed's sources.

use std::collections::BTreeSet;

use pipezero_files::json::join;
use serde_json::{Value, json};

use super::{RESOURCES, file, said};
use crate::RunFile;
use crate::keys::{self, ForeignKey, Meaning};
use crate::raw::RawRun;
use crate::section::Section;

/// Sections whose keys DeepSpeed does not read itself: it hands them on as they are.
const PASSED_ON: [&str; 2] = ["amp", "curriculum_learning"];

/// Sections that ask for what is not offered as soon as they are there; their keys have a default only then.
const SWITCHES: [&str; 1] = ["zero_optimization.zenflow"];

/// Keys of older releases in sections that have an effect neither way.
const OLDER: [&str; 4] = ["aio.thread_count", "compile.backend", "compile.enabled", "compile.kwargs"];

struct Field {
    section: String,
    name: String,
    default: Value,
}

impl Field {
    fn path(&self) -> String {
        join(&self.section, &self.name)
    }
}

/// Every name of every key.
fn fields() -> Vec<Field> {
    let list: Value = serde_json::from_str(include_str!("../../tests/deepspeed/fields.json")).unwrap();
    let names = |entry: &Value| {
        let second = entry["names"].as_array().unwrap().clone();
        let field = |name: &Value| Field {
            section: entry["section"].as_str().unwrap().to_owned(),
            name: name.as_str().unwrap().to_owned(),
            default: entry["default"].clone(),
        };
        std::iter::once(&entry["key"]).chain(&second).map(field).collect::<Vec<_>>()
    };
    list["fields"].as_array().unwrap().iter().flat_map(names).collect()
}

/// The sections of the list, and those around them.
fn sections() -> BTreeSet<String> {
    let paths: Vec<String> = fields().into_iter().map(|field| field.section).collect();
    let around = |path: &String| path.rsplit_once('.').map(|(around, _)| around.to_owned());
    paths.iter().filter_map(around).chain(paths.iter().cloned()).collect()
}

/// Paths of the keys and sections that have an effect.
fn effective() -> BTreeSet<String> {
    let run = RawRun::spec();
    let mut paths = BTreeSet::new();
    for section in run.all() {
        paths.extend(section.keys.iter().map(|key| join(section.path, key.name)));
        paths.extend(section.sections.iter().map(|(name, _)| join(section.path, name)));
    }
    paths
}

/// The outcome of the valid file with one more key, whose parents are objects.
fn outcome(path: &str, value: &Value) -> Result<String, String> {
    let mut run: Value = serde_json::from_str(&file(&[])).unwrap();
    let mut place = &mut run;
    for name in path.split('.') {
        place = place.as_object_mut().unwrap().entry(name).or_insert_with(|| json!({}));
    }
    *place = value.clone();
    let resolved = RunFile::parse("run.json", &run.to_string()).unwrap().resolve(RESOURCES);
    if resolved.is_ok() { Ok(said(resolved)) } else { Err(said(resolved)) }
}

/// The outermost key without effect on the way to `path`, with its own path.
fn governing(path: &str) -> Option<(String, &'static ForeignKey)> {
    let mut section = String::new();
    for name in path.split('.') {
        if let Some(key) = keys::foreign(&section).iter().find(|key| key.name == name) {
            return Some((join(&section, name), key));
        }
        section = join(&section, name);
    }
    None
}

/// Second names of keys that have an effect.
const SECOND_NAMES: [&str; 3] = [
    "bfloat16",
    "zero_optimization.model_persistence_threshold",
    "zero_optimization.param_persistence_threshold",
];

#[test]
fn every_key_of_deepspeed_is_accepted_at_its_default() {
    let effective = effective();
    let (mut in_effect, mut hints, mut off) = (0, 0, 0);
    let fields = fields();
    for field in &fields {
        let path = field.path();
        let is_effective = effective.contains(&path);
        // No default, or one that stands for an absent key.
        let is_left_out = is_effective && field.default.is_null();
        if is_left_out {
            in_effect += 1;
            continue;
        }
        if SWITCHES.contains(&field.section.as_str()) {
            let errors = outcome(&path, &field.default).expect_err(&path);
            let is_of_section = errors.contains(&format!("`{}` is an object, but", field.section));
            assert!(is_of_section && errors.lines().count() == 1, "{path}: {errors}");
            off += 1;
            continue;
        }
        let said = outcome(&path, &field.default).unwrap_or_else(|errors| panic!("{path}: {errors}"));
        if is_effective || SECOND_NAMES.iter().any(|name| path.starts_with(name)) {
            in_effect += 1;
            continue;
        }
        let (key_path, key) = governing(&path).unwrap_or_else(|| panic!("{path} is swallowed"));
        match key.meaning {
            Meaning::Hint(_) => {
                // A key of ZeRO-3 alone is named without its section, in one warning about all of them.
                let is_told =
                    said.contains(&format!("`{key_path}`")) || said.contains(&format!("`{}`", key.name));
                assert!(is_told, "{path}: {said}");
                hints += 1;
            }
            Meaning::NotOffered { .. } => off += 1,
            Meaning::Silent => panic!("{path} is passed over in silence"),
        }
    }
    println!("{} keys: {in_effect} in effect, {hints} with a hint, {off} switched off", fields.len());
    assert!(fields.len() > 150 && in_effect > 20 && hints > 100 && off > 100, "{in_effect} {hints} {off}");
}

#[test]
fn a_key_that_deepspeed_does_not_know_is_told_in_every_section() {
    let sections = sections();
    assert!(sections.len() > 30, "{sections:?}");
    for section in sections.iter().filter(|section| !PASSED_ON.contains(&section.as_str())) {
        let path = join(section, "nonsense");
        let errors = outcome(&path, &json!(1)).expect_err(&path);
        assert!(errors.contains(&format!("unknown key `{path}`")), "{errors}");
    }
    let is_known_as = |field: &Field| SECOND_NAMES.iter().any(|name| field.path().starts_with(name));
    for field in
        fields().iter().filter(|field| !PASSED_ON.contains(&field.section.as_str()) && !is_known_as(field))
    {
        let slip = format!("{}{}", field.path(), &field.name[field.name.len() - 1..]);
        let errors = outcome(&slip, &field.default).expect_err(&slip);
        assert!(errors.contains("unknown key `") && errors.contains("`; did you mean `"), "{slip}: {errors}");
    }
}

/// The lists of inner keys hold nothing that DeepSpeed has not.
#[test]
fn every_known_key_of_a_section_without_effect_is_one_of_deepspeed() {
    let known: BTreeSet<String> = fields().iter().map(Field::path).chain(sections()).collect();
    for section in sections() {
        for name in keys::inner(&section).unwrap_or_default() {
            let path = join(&section, name);
            assert!(known.contains(&path) || OLDER.contains(&path.as_str()), "{path}");
        }
    }
}
