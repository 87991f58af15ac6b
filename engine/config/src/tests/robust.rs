//! Nothing that a file may hold makes the reader panic, and a value of the wrong type is reported where it stands.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{RESOURCES, file};
use crate::raw::RawRun;
use crate::section::{Section, SectionSpec};
use crate::{HostGpu, Problem, Resources, RunFile, keys};

/// Paths of all sections, but the whole file, and of all keys that have an effect.
fn paths() -> Vec<String> {
    let run = RawRun::spec();
    let of_section = |section: &SectionSpec| {
        let names =
            section.keys.iter().map(|key| key.name).chain(section.sections.iter().map(|(name, _)| *name));
        names.map(|name| pipezero_files::json::join(section.path, name)).collect::<Vec<_>>()
    };
    run.all().into_iter().flat_map(of_section).collect()
}

#[test]
fn a_value_of_the_wrong_type_is_reported_where_it_stands() {
    let found = paths();
    assert!(found.len() > 50, "every section is visited: {}", found.len());
    for path in found {
        let mut root: Value = serde_json::from_str(&file(&[])).unwrap();
        let mut value = &mut root;
        for key in path.split('.') {
            value = value.as_object_mut().unwrap().entry(key).or_insert_with(|| json!({}));
        }
        *value = json!([[null]]);
        let text = serde_json::to_string(&root).unwrap();
        // A base is read with the file.
        let errors = RunFile::parse("run.json", &text).and_then(|file| file.resolve(RESOURCES)).unwrap_err();
        let wrong: Vec<_> =
            errors.iter().filter(|error| matches!(error.problem(), Problem::WrongType { .. })).collect();
        assert_eq!(wrong.len(), 1, "{path}: {errors}");
        // In a list it is the element that is wrong.
        let element = wrong[0].path().strip_prefix(&path).unwrap_or_else(|| panic!("{path}: {errors}"));
        assert!(["", "[0]"].contains(&element), "{path}: {errors}");
        let (line, column) = wrong[0].line_column().unwrap();
        let start = text.find("[[null]]").unwrap() + 1 + element.len() / 3;
        assert_eq!((line, column), (1, start), "{path}");
        // Nothing else is said of the value that could not be read, other than what needs it.
        assert!(
            errors.iter().filter(|error| error.path() == wrong[0].path()).count() == 1,
            "{path}: {errors}"
        );
    }
}

/// Any key that the reader knows, or one that it does not.
fn key() -> impl Strategy<Value = String> {
    let run = RawRun::spec();
    let foreign = run
        .all()
        .into_iter()
        .flat_map(|section| keys::foreign(section.path).iter().map(|key| key.name.to_owned()));
    let own = paths().into_iter().map(|path| path.rsplit('.').next().unwrap_or_default().to_owned());
    let known: Vec<String> = own.chain(foreign).collect();
    prop_oneof![9 => proptest::sample::select(known), 1 => ".{0,12}"]
}

fn leaf() -> impl Strategy<Value = Value> {
    let words = [
        "auto",
        "gpt2",
        "mlp",
        "timed",
        "1f1b",
        "interleaved",
        "type:h[",
        "1.5GiB",
        "strict",
        "all",
        "stage",
        "AdamW",
        "SGD",
        "WarmupLR",
        "WarmupCosineLR",
        "a.md",
    ];
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0_u64..6).prop_map(Value::from),
        prop_oneof![Just(u64::MAX), Just(u64::from(u32::MAX)), Just(1_u64 << 53)].prop_map(Value::from),
        prop_oneof![any::<f64>(), -1.0..2.0].prop_map(Value::from),
        proptest::sample::select(words.to_vec()).prop_map(Value::from),
        Just(json!({ "file": "no.csv" })),
        ".{0,12}".prop_map(Value::from),
    ]
}

/// Objects of known keys, a few levels deep.
fn tree() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(3, 64, 12, |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            4 => prop::collection::vec((key(), inner), 0..12).prop_map(|entries| Value::Object(Map::from_iter(entries))),
        ]
    })
}

/// A valid file whose sections are filled with whatever is at hand: it reaches further than arbitrary text does.
fn nearly_valid() -> impl Strategy<Value = Value> {
    prop::collection::vec((0..64_usize, leaf()), 1..8).prop_map(|changes| {
        let found = paths();
        let mut root: Value = serde_json::from_str(&file(&[])).unwrap();
        for (index, leaf) in changes {
            let mut value = &mut root;
            for key in found[index % found.len()].split('.') {
                if !value.is_object() {
                    *value = json!({});
                }
                value = value.as_object_mut().unwrap().entry(key).or_insert_with(|| json!({}));
            }
            *value = leaf;
        }
        root
    })
}

/// Reads, resolves and prints; the outcome does not matter here.
fn exercise(text: &str, ranks: Option<usize>) {
    let handler = miette::GraphicalReportHandler::new_themed(miette::GraphicalTheme::ascii());
    match RunFile::parse("run.json", text).and_then(|file| {
        file.resolve(Resources { cores: 0, memory_bytes: None, gpu: HostGpu::Absent, ranks, part: None })
    }) {
        Ok((run, notices)) => {
            let (batch, grid) = (run.batch, &run.parallel);
            assert_eq!(batch.train_batch_size, batch.micro_batch_size * batch.num_micro_batches * grid.data);
            assert!(run.threads >= 1 && grid.num_stages() <= run.model.num_layers());
            notices.iter().for_each(|notice| assert!(!notice.to_string().is_empty()));
        }
        Err(errors) => {
            assert!(errors.iter().next().is_some() && !errors.to_string().is_empty());
            assert!(!errors.render(&handler).is_empty());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn arbitrary_text_never_panics(text in ".{0,80}") {
        exercise(&text, None);
    }

    #[test]
    fn arbitrary_json_never_panics(tree in tree(), ranks in proptest::option::of(0_usize..9)) {
        exercise(&tree.to_string(), ranks);
    }

    #[test]
    fn nearly_valid_files_never_panic(tree in nearly_valid(), ranks in proptest::option::of(0_usize..9)) {
        exercise(&tree.to_string(), ranks);
    }

    #[test]
    fn arbitrary_arguments_never_panic(argument in "[a-z.=\"{}\\[\\]0-9é]{0,24}") {
        let file = RunFile::parse("run.json", &file(&[])).unwrap();
        if let Err(errors) = file.set(&[argument]).and_then(|file| file.resolve(RESOURCES)) {
            prop_assert!(!errors.to_string().is_empty());
        }
    }
}
