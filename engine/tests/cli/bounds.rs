//! Questions that would take longer than seconds are refused with the bound, the value and the repair.

use crate::command::{Home, RUN};

/// A refusal of `check`, as one line.
fn refused(home: &Home, status: i32) -> String {
    let printed = home.run("check run.json");
    assert_eq!(printed.status, Some(status), "{}", printed.stderr);
    printed.stderr.replace('|', " ").split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn steps_layers_and_patterns_beyond_the_bounds_are_refused() {
    let home = Home::new();
    let write = |changes: &[(&str, &str)]| {
        let text = changes.iter().fold(RUN.to_owned(), |text, (from, to)| {
            assert!(text.contains(from), "{from}");
            text.replace(from, to)
        });
        std::fs::write(home.path("run.json"), text).unwrap();
    };
    let micro_batches = |number: &str, stage: &str| {
        let sequences = format!("\"train_batch_size\": {number}");
        let steps = "\"train_micro_batch_size_per_gpu\": 1";
        write(&[
            ("\"train_batch_size\": 8", &sequences),
            ("\"gradient_accumulation_steps\": 2", steps),
            ("\"stage\": 3", stage),
        ]);
    };
    micro_batches("100000", "\"stage\": 3, \"unit_layers\": 1");
    let text = refused(&home, 1);
    assert!(
        text.contains("at most 600000 are planned under ZeRO-3: use fewer micro-batches (about "),
        "{text}"
    );
    micro_batches("2000000", "\"stage\": 1");
    let text = refused(&home, 1);
    assert!(text.contains("at most 2500000 are planned: use fewer micro-batches (about "), "{text}");
    write(&[("\"num_layers\": 4", "\"num_layers\": 65535")]);
    let text = refused(&home, 2);
    assert!(text.contains("a model has at most 32768, so that a plan takes seconds"), "{text}");
    let patterns = |number: usize| format!("\"stage\": 3, \"parameters\": {:?}", vec!["whole:h"; number]);
    write(&[("\"stage\": 3", &patterns(257))]);
    let text = refused(&home, 2);
    assert!(text.contains("is a list of 257 entries, but it has at most 256"), "{text}");
    write(&[("\"stage\": 3", &patterns(200)), ("\"num_layers\": 4", "\"num_layers\": 1000")]);
    let text = refused(&home, 2);
    assert!(
        text.contains("is a list of 200 patterns, but each is looked for in the names of 1000 layers"),
        "{text}"
    );
}

/// A file with many unknown keys gets an error that shows the first of them; a file with more values than are read is refused.
#[test]
fn a_file_of_many_values_is_answered_and_one_of_more_is_refused() {
    let home = Home::new();
    let answer = |num_keys: usize| {
        let keys: String = (0..num_keys).map(|key| format!("\"key{key}\": {key},\n")).collect();
        std::fs::write(home.path("run.json"), RUN.replacen('{', &format!("{{{keys}"), 1)).unwrap();
        refused(&home, 2)
    };
    let text = answer(90_000);
    assert!(text.contains("more than 100 mistakes") && text.contains("unknown key `key0`"), "{text}");
    let text = answer(600_000);
    assert!(text.contains("values, and a run file has at most 100000"), "{text}");
}

/// An order with more rows than a pipeline has ranks.
#[test]
fn an_order_of_too_many_rows_is_refused() {
    let home = Home::new();
    let rows: String = (0..3000).map(|rank| format!("{rank}F0,{rank}B0\n")).collect();
    std::fs::write(home.path("order.csv"), rows).unwrap();
    let parallel = "\"pipeline\": 3000, \"schedule\": {\"file\": \"order.csv\"}";
    let text = RUN.replace("\"pipeline\": 2", parallel).replace("\"num_layers\": 4", "\"num_layers\": 3000");
    std::fs::write(home.path("run.json"), text).unwrap();
    let text = refused(&home, 2);
    assert!(text.contains("it has 3000 rows, and a pipeline has at most 2048 ranks"), "{text}");
}
