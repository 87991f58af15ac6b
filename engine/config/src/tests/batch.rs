//! The batch equation, against every combination of its keys.

use expect_test::expect;

use super::{RESOURCES, check_each, file, listed, run};
use crate::{HostGpu, PartOfJob, Resources, Run, RunFile};

const GRID: (&str, &str) = ("parallel", r#"{"pipeline": 2, "data": 2}"#);

/// Every triple of small values, absent ones included: the outcome is the one solution of the equation, if it has one
/// with the defaults that DeepSpeed gives, and an error otherwise.
#[test]
fn any_two_imply_the_third() {
    let values = [None, Some(1), Some(2), Some(3), Some(4), Some(6), Some(8), Some(12)];
    for data in [1_usize, 2, 3] {
        let mut solved = 0;
        for train in values {
            for micro in values {
                for steps in values {
                    let spelled =
                        |value: Option<usize>| value.map_or("\"auto\"".to_owned(), |value| value.to_string());
                    let text = file(&[
                        ("train_batch_size", &*spelled(train)),
                        ("train_micro_batch_size_per_gpu", &spelled(micro)),
                        ("gradient_accumulation_steps", &spelled(steps)),
                        ("parallel", &format!("{{\"data\": {data}}}")),
                    ]);
                    let resolved = RunFile::parse("run.json", &text).unwrap().resolve(super::RESOURCES);
                    match solve(train, micro, steps, data) {
                        Some(expected) => {
                            let batch = resolved.unwrap().0.batch;
                            let found =
                                (batch.train_batch_size, batch.micro_batch_size, batch.num_micro_batches);
                            assert_eq!(found, expected, "{text}");
                            solved += 1;
                        }
                        None => assert!(resolved.is_err(), "{text}"),
                    }
                }
            }
        }
        assert!(solved > 50, "the values leave enough to solve: {solved}");
    }
}

/// Brute force: the only `(train, micro, steps)` below 200 that agrees with what is given.
fn solve(
    train: Option<usize>,
    micro: Option<usize>,
    steps: Option<usize>,
    data: usize,
) -> Option<(usize, usize, usize)> {
    let steps = match (train, micro, steps) {
        (None, None, _) => return None,
        (Some(_), None, None) | (None, Some(_), None) => Some(1),
        _ => steps,
    };
    let range = |value: Option<usize>| value.map_or(1..=200, |value| value..=value);
    let mut solutions = Vec::new();
    for micro in range(micro) {
        for steps in range(steps) {
            let product = micro * steps * data;
            if train.is_none_or(|train| train == product) {
                solutions.push((product, micro, steps));
            }
        }
    }
    assert!(solutions.len() <= 1);
    solutions.pop()
}

#[test]
fn contradictions_show_their_arithmetic() {
    check_each(
        &[
            &[GRID, ("train_micro_batch_size_per_gpu", "4"), ("gradient_accumulation_steps", "3")],
            &[GRID, ("train_micro_batch_size_per_gpu", "3")],
            &[GRID, ("gradient_accumulation_steps", "3")],
            &[GRID, ("train_batch_size", "7")],
            &[GRID, ("train_batch_size", "1"), ("train_micro_batch_size_per_gpu", "4")],
        ],
        expect![[r#"
            run.json:4:23: `train_batch_size` is 8, but `train_micro_batch_size_per_gpu` 4 x `gradient_accumulation_steps` 3 x data degree 2 = 24; use 24, or leave one of the three out
            run.json:4:23: `train_batch_size` is 8, but `train_micro_batch_size_per_gpu` 3 x data degree 2 = 6 does not divide it: every data rank gets the same share; use a multiple such as 6
            run.json:4:23: `train_batch_size` is 8, but `gradient_accumulation_steps` 3 x data degree 2 = 6 does not divide it: every data rank gets the same share; use a multiple such as 6
            run.json:4:23: `train_batch_size` is 7, but data degree 2 does not divide it: every data rank gets the same share; use a multiple such as 6
            run.json:4:23: `train_batch_size` is 1, but `train_micro_batch_size_per_gpu` 4 x data degree 2 = 8 does not divide it: every data rank gets the same share; use a multiple such as 8
        "#]],
    );
}

#[test]
fn missing_and_invalid_batch_sizes_are_refused() {
    check_each(
        &[
            &[("train_batch_size", "")],
            &[("train_batch_size", ""), ("gradient_accumulation_steps", "4")],
            &[("train_batch_size", "0")],
            &[("train_batch_size", "-8")],
            &[("train_batch_size", "8.5")],
            &[("train_batch_size", "\"eight\"")],
            &[("train_micro_batch_size_per_gpu", "0"), ("gradient_accumulation_steps", "0")],
        ],
        expect![[r#"
            run.json:1:1: `train_batch_size` is missing: one of the two batch sizes is needed; add `train_batch_size` or `train_micro_batch_size_per_gpu`
            run.json:1:1: `train_batch_size` is missing: one of the two batch sizes is needed; add `train_batch_size` or `train_micro_batch_size_per_gpu`
            run.json:4:23: `train_batch_size` is 0, but it must be at least 1; use 1 or more
            run.json:4:23: `train_batch_size` is -8, but it must not be negative; use a positive number
            run.json:4:23: `train_batch_size` must be a whole number or "auto", but is 8.5; write 9
            run.json:4:23: `train_batch_size` must be a whole number or "auto", but is the string "eight"; write a value such as 8
            run.json:6:37: `train_micro_batch_size_per_gpu` is 0, but it must be at least 1; use 1 or more
              run.json:7:34: `gradient_accumulation_steps` is 0, but it must be at least 1; use 1 or more
        "#]],
    );
}

#[test]
fn auto_everywhere_is_reported_where_it_stands() {
    let auto = "\"auto\"";
    let all = [
        ("train_batch_size", auto),
        ("train_micro_batch_size_per_gpu", auto),
        ("gradient_accumulation_steps", auto),
    ];
    check_each(
        &[
            &all,
            &[
                ("train_batch_size", ""),
                ("train_micro_batch_size_per_gpu", auto),
                ("gradient_accumulation_steps", "4"),
            ],
        ],
        expect![[r#"
            run.json:4:23: `train_batch_size` is "auto", but one of `train_batch_size` and `train_micro_batch_size_per_gpu` must be a number: no trainer fills them in here, and nothing else says how large a batch is; write a number for one of the two
            run.json:5:37: `train_micro_batch_size_per_gpu` is "auto", but one of `train_batch_size` and `train_micro_batch_size_per_gpu` must be a number: no trainer fills them in here, and nothing else says how large a batch is; write a number for one of the two
        "#]],
    );
    assert_eq!(run(&[all[0], ("train_micro_batch_size_per_gpu", "2"), all[2]]).batch.train_batch_size, 2);
}

#[test]
fn numbers_that_cannot_be_counted_are_refused() {
    let huge = "18446744073709551615";
    check_each(
        &[
            &[
                ("train_batch_size", ""),
                ("train_micro_batch_size_per_gpu", huge),
                ("gradient_accumulation_steps", "3"),
            ],
            &[("train_batch_size", huge)],
            &[("train_batch_size", "1e400")],
            &[("steps", huge)],
            &[("parallel", r#"{"data": 8589934592}"#)],
            &[(
                "model",
                r#"{"family": "gpt2", "num_layers": 4, "hidden_size": 1e15, "num_attention_heads": 1, "seq_length": 16}"#,
            )],
            &[(
                "model",
                r#"{"family": "gpt2", "num_layers": 4, "hidden_size": 32, "num_attention_heads": 1, "seq_length": 1e14}"#,
            )],
        ],
        expect![[r#"
            run.json:5:37: `train_micro_batch_size_per_gpu` is 18446744073709551615, but `train_micro_batch_size_per_gpu` 18446744073709551615 x `gradient_accumulation_steps` 3 x data degree 1 is more than 2^64; use smaller numbers
            run.json:4:23: `train_batch_size` is 18446744073709551615, but the largest activation of a micro-batch, 18446744073709551615 sequences x 16 tokens x 256 values, would have more than 2^53 elements, too many to count exactly; use fewer or shorter sequences
              run.json:5:12: `steps` is 10, but with 18446744073709551615 sequences of 16 tokens a step that is more than 2^53 tokens, which cannot be counted exactly; use fewer
            run.json:4:23: `train_batch_size` is 1e400, but whole numbers end at 2^64 - 1, which is 18446744073709551615; use a smaller one
            run.json:5:12: `steps` is 18446744073709551615, but with 8 sequences of 16 tokens a step that is more than 2^53 tokens, which cannot be counted exactly; use fewer
            run.json:6:24: `parallel.data` is 8589934592, but with `parallel.pipeline` 1 that is more than 2^32 ranks; use a smaller grid
            run.json:2:3: `model` is 4.8e31 parameters large, but a model may have at most 2^53 parameters; use smaller sizes
            run.json:2:107: `model.seq_length` is 100000000000000, but the largest activation of a micro-batch, 8 sequences x 100000000000000 tokens x 256 values, would have more than 2^53 elements, too many to count exactly; use shorter or fewer sequences
        "#]],
    );
}

#[test]
fn whole_numbers_may_be_spelled_with_an_exponent() {
    assert_eq!(run(&[("train_batch_size", "1.6e1")]).batch.train_batch_size, 16);
    assert_eq!(run(&[("train_batch_size", "16.0")]).batch.train_batch_size, 16);
}

/// Of the process's cores each of its ranks takes its share: of a launcher's process its one rank takes them all.
#[test]
fn the_launchers_ranks_fix_the_data_degree() {
    let resolve = |parallel: &str, ranks| {
        let text = file(&[
            ("parallel", parallel),
            ("train_batch_size", ""),
            ("train_micro_batch_size_per_gpu", "1"),
        ]);
        let resources = Resources { cores: 8, memory_bytes: None, gpu: HostGpu::Absent, ranks, part: None };
        let resolved = RunFile::parse("run.json", &text).unwrap().resolve(resources);
        resolved.map(|(run, _)| (run.parallel.data, run.batch.train_batch_size, run.threads))
    };
    assert_eq!(resolve(r#"{"pipeline": 2}"#, None).unwrap(), (1, 1, 4));
    assert_eq!(resolve(r#"{"pipeline": 2}"#, Some(6)).unwrap(), (3, 3, 8));
    assert_eq!(resolve(r#"{"pipeline": 2, "data": "auto"}"#, Some(4)).unwrap(), (2, 2, 8));
    assert_eq!(resolve(r#"{"pipeline": 2, "data": 3}"#, Some(6)).unwrap(), (3, 3, 8));
    // Of an engine on some ranks of a job: these fix it, and cores are shared by all that the job has.
    let on = |parallel: &str, size, num_ranks| {
        let text = file(&[
            ("parallel", parallel),
            ("train_batch_size", ""),
            ("train_micro_batch_size_per_gpu", "1"),
        ]);
        let part = Some(PartOfJob { first: 2, size, num_ranks });
        let (run, _) =
            RunFile::parse("run.json", &text).unwrap().resolve(Resources { part, ..RESOURCES }).unwrap();
        assert_eq!(run.comm.first_rank, Some(2));
        (run.parallel.data, run.threads)
    };
    assert_eq!(on(r#"{"pipeline": 2}"#, Some(2), 4), (1, 2));
    assert_eq!(on(r#"{"pipeline": 2, "data": "auto"}"#, Some(4), 8), (2, 1));
    assert_eq!(on(r#"{"pipeline": 2, "data": 3}"#, None, 2), (3, 1));
    let errors = [
        resolve(r#"{"pipeline": 2}"#, Some(5)).unwrap_err().to_string(),
        resolve(r#"{"pipeline": 2, "data": 3}"#, Some(8)).unwrap_err().to_string(),
    ];
    expect![[r#"
        run.json:5:28: `parallel.pipeline` is 2, but the launcher started 5 ranks, which it does not divide; start a multiple of 2, or use a divisor of 5
        run.json:5:39: `parallel.data` is 3, but with `parallel.pipeline` 2 that is 6 ranks, and the launcher started 8; start 6 ranks, or write "auto"
    "#]]
    .assert_eq(&listed(errors));
}

/// Every batch of micro-batches that a run of another data degree may go on with: a step has the sequences that it had, or the run is refused.
#[test]
fn a_resumed_run_keeps_the_sequences_of_a_step() {
    let (mut kept, mut refused) = (0, 0);
    for (micro, steps, before, now) in [1, 2, 3, 4]
        .into_iter()
        .flat_map(|micro| [1, 2, 6].map(|steps| (micro, steps)))
        .flat_map(|(micro, steps)| {
            [1, 2, 3].into_iter().flat_map(move |before| [1, 2, 4, 5].map(|now| (micro, steps, before, now)))
        })
    {
        let batch: usize = micro * steps * before;
        let [written, spelled] = [micro, steps].map(|number| number.to_string());
        for (train, steps) in [("", &*spelled), ("", ""), (&*batch.to_string(), &*spelled)] {
            let text = file(&[
                ("train_batch_size", train),
                ("train_micro_batch_size_per_gpu", &written),
                ("gradient_accumulation_steps", steps),
                ("parallel", &format!("{{\"data\": {now}}}")),
            ]);
            let run = RunFile::parse("run.json", &text).unwrap().keeping_batch(batch);
            let resolved = run.resolve(super::RESOURCES);
            assert_eq!(resolved.is_ok(), batch.is_multiple_of(micro * now), "{text}");
            let Ok((Run { batch: found, .. }, _)) = resolved else {
                refused += 1;
                continue;
            };
            let expected = (batch, micro, batch / (micro * now));
            assert_eq!((found.train_batch_size, found.micro_batch_size, found.num_micro_batches), expected);
            // As the run directory has it.
            let argument = run.kept_batch(&found).unwrap();
            assert_eq!(argument, format!("gradient_accumulation_steps={}", found.num_micro_batches));
            let written = RunFile::parse("run.json", &text).unwrap().set(&[argument]).unwrap();
            assert_eq!(written.resolve(super::RESOURCES).unwrap().0.batch, found);
            kept += 1;
        }
    }
    assert!(kept > 100 && refused > 100, "{kept} {refused}");
}

#[test]
fn a_batch_that_is_written_or_set_is_not_kept() {
    let said = |changes: &[(&str, &str)], arguments: &[&str]| {
        let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let run =
            RunFile::parse("run.json", &file(changes)).unwrap().set(&arguments).unwrap().keeping_batch(6);
        match run.resolve(RESOURCES) {
            Ok((run, notices)) => {
                let notices: String = notices.iter().map(|notice| format!("{notice}\n")).collect();
                format!(
                    "{} = {} x {}\n{notices}",
                    run.batch.train_batch_size, run.batch.micro_batch_size, run.batch.num_micro_batches
                )
            }
            Err(errors) => format!("{errors}\n"),
        }
    };
    let micro = [
        ("train_batch_size", ""),
        ("train_micro_batch_size_per_gpu", "2"),
        ("gradient_accumulation_steps", "4"),
    ];
    let all = [
        ("train_batch_size", "8"),
        ("train_micro_batch_size_per_gpu", "2"),
        ("gradient_accumulation_steps", "4"),
    ];
    let large = [("train_batch_size", ""), ("train_micro_batch_size_per_gpu", "4")];
    expect![[r#"
        8 = 8 x 1
          run.json:1:1: default: `gradient_clipping`: not written, so it is 1.0, as in DeepSpeed since 0.19.3, June 2026; before, it was 0, which does not clip
        6 = 2 x 3
          run.json:1:1: default: `gradient_clipping`: not written, so it is 1.0, as in DeepSpeed since 0.19.3, June 2026; before, it was 0, which does not clip
          run.json:6:34: hint: `gradient_accumulation_steps`: 3 is used: steps of the resumed run keep their 6 sequences, 3 x `train_micro_batch_size_per_gpu` 2 x data degree 1; for steps of another size add --set gradient_accumulation_steps=4
        10 = 2 x 5
          run.json:1:1: default: `gradient_clipping`: not written, so it is 1.0, as in DeepSpeed since 0.19.3, June 2026; before, it was 0, which does not clip
        8 = 2 x 4
          run.json:1:1: default: `gradient_clipping`: not written, so it is 1.0, as in DeepSpeed since 0.19.3, June 2026; before, it was 0, which does not clip
        4 = 1 x 4
          run.json:1:1: default: `gradient_clipping`: not written, so it is 1.0, as in DeepSpeed since 0.19.3, June 2026; before, it was 0, which does not clip
        6 = 2 x 3
          run.json:1:1: default: `gradient_clipping`: not written, so it is 1.0, as in DeepSpeed since 0.19.3, June 2026; before, it was 0, which does not clip
          run.json:6:34: hint: `gradient_accumulation_steps`: 3 is used: steps of the resumed run keep their 6 sequences, 3 x `train_micro_batch_size_per_gpu` 2 x data degree 1; for steps of another size add --set gradient_accumulation_steps=4
        8 = 2 x 4
          run.json:1:1: default: `gradient_clipping`: not written, so it is 1.0, as in DeepSpeed since 0.19.3, June 2026; before, it was 0, which does not clip
        run.json:5:37: `train_micro_batch_size_per_gpu` is 4, but 4 x data degree 1 = 4 does not divide 6, the sequences of a step that the resumed run keeps; write 3, or use another data degree; for steps of another size add --set gradient_accumulation_steps=1
        run.json:5:37: `train_micro_batch_size_per_gpu` is 2, but 2 x data degree 4 = 8 does not divide 6, the sequences of a step that the resumed run keeps; use a data degree that divides 6; for steps of another size add --set gradient_accumulation_steps=4
    "#]].assert_eq(&listed([
        said(&[], &[]),
        said(&micro, &[]),
        said(&micro, &["gradient_accumulation_steps=5"]),
        said(&micro, &["train_batch_size=8", "gradient_accumulation_steps=null"]),
        said(&micro, &["train_micro_batch_size_per_gpu=1"]),
        said(&micro, &["steps=20"]),
        said(&all, &[]),
        said(&large, &[]),
        said(&micro, &["parallel.data=4"]),
    ]));
}
