//! Files are read as they were written, and nothing else is.

use expect_test::expect;
use pipezero_plan::Plan;
use serde_json::{Value, json};

use super::fingerprint::fingerprint;
use crate::recording::Recording;
use crate::recording::testing::{costs, planned, plans, step};

#[test]
fn what_is_written_is_read() {
    for (seed, plan) in (0..).zip(plans()) {
        let recording = step(&plan, &costs(&plan, seed, 1_000_000));
        let again = Recording::from_json(&plan, &recording.to_json()).unwrap();
        assert_eq!((again.step(), again.step_ns()), (recording.step(), recording.step_ns()));
        assert!(recording.ranks().all(|rank| again.row_times(rank) == recording.row_times(rank)));
    }
}

/// Why a text is not a step of a plan.
fn refusal(plan: &Plan, text: &str) -> String {
    match Recording::from_json(plan, text) {
        // Not `unwrap_err`, which prints the whole step.
        Ok(_) => panic!("what is no step of the run was read"),
        Err(error) => error.to_string(),
    }
}

/// A file's text with another value of a field.
fn with(text: &str, field: &str, value: Value) -> String {
    let mut file: Value = serde_json::from_str(text).unwrap();
    file[field] = value;
    file.to_string()
}

#[test]
fn what_is_no_trace_of_the_run_is_refused() {
    let plan = planned("");
    let text = step(&plan, &costs(&plan, 7, 1_000_000)).to_json();
    let hash = fingerprint(plan.training().program());
    let texts = [
        String::new(),
        text[..text.len() / 2].to_owned(),
        format!("{text}{{}}"),
        with(&text, "format", json!("chrome")),
        with(&text, "version", json!(2)),
        with(&text, "more", json!(2)),
        with(&text, "step", json!(-1)),
        with(&text, "program", json!("0000000000000000")),
        with(&text, "data_degree", json!(1)),
        with(&text, "ranks", json!([])),
        with(&text, "ranks", json!([[[], [], [], [], []]])),
        text.replace("\"started\":[0,", "\"started\":[1.5,"),
    ];
    let refusals = texts.map(|text| {
        let refusal = refusal(&plan, &text).replace(&hash, "HASH");
        // Where in the text depends on the digits of its times.
        match refusal.split_once("line ") {
            Some((before, place)) => format!("{before}{}\n", place.split_once(": ").unwrap().1),
            None => refusal + "\n",
        }
    });
    expect![[r#"
        it is damaged or no trace: the file is empty; it must hold one JSON object; trace the run again
        it is damaged or no trace: this list is never closed: the text ends before its `]`; trace the run again
        it is damaged or no trace: this is not JSON: the end of the file belongs here, but `{` stands there; trace the run again
        its format is `chrome`, not `pipezero-trace`; trace the run again
        its version is 2, and 1 is what is read here; trace the run again
        it is damaged or no trace: `more` is an unknown key; remove it, or write `format`, `version`, `step`, `step_ns`, `program`, `data_degree` or `ranks`; trace the run again
        it is damaged or no trace: `step` must be a whole number from 0 to 18446744073709551615, but is -1; trace the run again
        it is of program 0000000000000000, the run's is HASH: the run file was changed since, or means something else on this host; trace the run again
        it is of 1 data ranks, the run has 2; trace the run again
        it is damaged: it has 0 ranks, the run has 4; trace the run again
        it is damaged or no trace: `ranks[0]` must be an object, but is a list; trace the run again
        it is damaged or no trace: `ranks[0].started[0]` must be a whole number from 0 to 18446744073709551615, but is 1.5; trace the run again
    "#]]
    .assert_eq(&refusals.concat());
}

/// The same run on another grid has another program.
#[test]
fn a_trace_of_another_run_is_refused() {
    let plan = planned("");
    let text = step(&plan, &costs(&plan, 7, 1_000_000)).to_json();
    for change in
        ["parallel.schedule=gpipe", "model.parameters_per_layer=256", "gradient_accumulation_steps=5"]
    {
        let error = refusal(&planned(change), &text);
        assert!(error.starts_with("it is of program "), "{change}: {error}");
    }
}
