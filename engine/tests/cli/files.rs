//! Mistakes in the run file: each is one error at its place, all of them at once, exit status 2, and no folder is made.

use expect_test::{Expect, expect};

use crate::command::Home;

/// `train` refuses a run file with some text replaced.
#[track_caller]
fn refused(changes: &[(&str, &str)], expected: Expect) {
    let home = Home::with(changes);
    home.refuses(&["train", "run.json", "--out", "out"], 2, expected);
    assert!(!home.path("out").exists());
}

#[test]
fn an_unknown_key_has_a_nearest_one() {
    refused(
        &[("\"hidden_size\"", "\"hiden_size\"")],
        expect![[r#"
            error: not a valid run, 2 mistakes:
              x `model.hidden_size` is missing: the model's size is yours to choose
               ,-[run.json:2:3]
             1 | {
             2 |   "model": {
               :   ^^^^^^^
             3 |     "family": "gpt2",
               `----
              help: add it

              x unknown key `model.hiden_size`
               ,-[run.json:5:5]
             4 |     "num_layers": 4,
             5 |     "hiden_size": 16,
               :     ^^^^^^^^^^^^
             6 |     "num_attention_heads": 2,
               `----
              help: did you mean `hidden_size`?
        "#]],
    );
}

#[test]
fn a_value_has_a_type() {
    refused(
        &[("\"num_layers\": 4", "\"num_layers\": \"four\"")],
        expect![[r#"
            error: not a valid run, 1 mistake:
              x `model.num_layers` must be a whole number, but is the string "four"
               ,-[run.json:4:19]
             3 |     "family": "gpt2",
             4 |     "num_layers": "four",
               :                   ^^^^^^
             5 |     "hidden_size": 16,
               `----
        "#]],
    );
}

#[test]
fn batch_sizes_must_not_contradict() {
    let both = "\"train_batch_size\": 8, \"train_micro_batch_size_per_gpu\": 3";
    refused(
        &[("\"train_batch_size\": 8", both)],
        expect![[r#"
            error: not a valid run, 1 mistake:
              x `train_batch_size` is 8, but `train_micro_batch_size_per_gpu` 3 x `gradient_accumulation_steps` 2 x data degree 2 = 12
                ,-[run.json:13:23]
             12 |   "zero_optimization": { "stage": 3 },
             13 |   "train_batch_size": 8, "train_micro_batch_size_per_gpu": 3,
                :                       ^
             14 |   "gradient_accumulation_steps": 2,
                `----
              help: use 12, or leave one of the three out
        "#]],
    );
}

#[test]
fn a_pipeline_is_no_longer_than_its_layers() {
    refused(
        &[("\"pipeline\": 2", "\"pipeline\": 5")],
        expect![[r#"
            error: not a valid run, 1 mistake:
              x `parallel.pipeline` is 5, but the model has 4 layers: every stage needs at least one
                ,-[run.json:11:29]
             10 |   "evaluation": { "every": 2, "batches": 1 },
             11 |   "parallel": { "pipeline": 5, "data": 2 },
                :                             ^
             12 |   "zero_optimization": { "stage": 3 },
                `----
              help: use at most 4
        "#]],
    );
}

#[test]
fn heads_divide_the_width() {
    refused(
        &[("\"num_attention_heads\": 2", "\"num_attention_heads\": 3")],
        expect![[r#"
            error: not a valid run, 1 mistake:
              x `model.num_attention_heads` is 3, but `model.hidden_size` is 16, which 3 does not divide: every head has the same width
               ,-[run.json:6:28]
             5 |     "hidden_size": 16,
             6 |     "num_attention_heads": 3,
               :                            ^
             7 |     "seq_length": 16
               `----
              help: use a divisor such as 2
        "#]],
    );
}

#[test]
fn zero_2_with_a_pipeline_is_refused_with_its_numbers() {
    refused(
        &[("\"stage\": 3", "\"stage\": 2")],
        expect![[r#"
            error: not a valid run, 1 mistake:
              x `zero_optimization.stage`: ZeRO-2 is incompatible with pipeline parallelism (`parallel.pipeline` is 2): gradients would either accumulate unsharded over the micro-batches, which is ZeRO-1's
              | memory, or be reduced after every one of them, which is ZeRO-3's reductions without freeing weights
                ,-[run.json:12:35]
             11 |   "parallel": { "pipeline": 2, "data": 2 },
             12 |   "zero_optimization": { "stage": 2 },
                :                                   ^
             13 |   "train_batch_size": 8,
                `----
              help: write "stage": 1, or "stage": 3 with units smaller than a stage, or "pipeline": 1

                      per rank                                                         parameters  gathered  gradients  optimizer      total  sent per step
                      refused: ZeRO-2, pipeline 2 x data 2, reduced once per step        55.6 KiB       0 B   55.6 KiB   55.6 KiB  166.9 KiB       55.6 KiB
                      refused: ZeRO-2, pipeline 2 x data 2, reduced every micro-batch    55.6 KiB       0 B   59.8 KiB   55.6 KiB  171.1 KiB       83.4 KiB
                      ZeRO-1, pipeline 2 x data 2                                        55.6 KiB       0 B   55.6 KiB   55.6 KiB  166.9 KiB       55.6 KiB
                      ZeRO-3, pipeline 2 x data 2, units of 1 layer                      27.8 KiB  29.9 KiB   59.8 KiB   55.6 KiB  173.1 KiB      138.0 KiB
                      ZeRO-2, pipeline 1 x data 4                                        69.0 KiB       0 B   53.2 KiB   34.5 KiB  156.8 KiB      115.5 KiB
        "#]],
    );
}

#[test]
fn zero_3_of_whole_stages_is_refused_with_its_numbers() {
    refused(
        &[
            ("\"stage\": 3", "\"stage\": 3, \"unit_layers\": 2"),
            ("\"pipeline\": 2", "\"pipeline\": 2, \"partition\": \"uniform\""),
        ],
        expect![[r#"
            error: not a valid run, 1 mistake:
              x `zero_optimization.unit_layers`: ZeRO-3 with one unit for all layers of a rank is incompatible with pipeline parallelism (`parallel.pipeline` is 2, and the uniform split leaves pipeline rank 0 a
              | single unit of layers, wpe to h.1.mlp): everything would be gathered for every micro-batch, and the peak memory is that of no sharding
                ,-[run.json:12:53]
             11 |   "parallel": { "pipeline": 2, "partition": "uniform", "data": 2 },
             12 |   "zero_optimization": { "stage": 3, "unit_layers": 2 },
                :                                                     ^
             13 |   "train_batch_size": 8,
                `----
              help: write "stage": 1, or "unit_layers": 1, or "unit_layers": 0.5

                      per rank                                                  parameters  gathered  gradients  optimizer      total  sent per step
                      refused: ZeRO-3, pipeline 2 x data 2, one unit on a rank    21.3 KiB  42.6 KiB   74.6 KiB   42.6 KiB  181.1 KiB       63.9 KiB
                      ZeRO-3, pipeline 2 x data 2, units of 1 layer               21.4 KiB  32.0 KiB   53.4 KiB   42.8 KiB  149.5 KiB       85.5 KiB
                      ZeRO-3, pipeline 2 x data 2, units of half a layer          21.4 KiB  32.0 KiB   53.4 KiB   42.8 KiB  149.5 KiB      105.8 KiB
                      ZeRO-1, pipeline 2 x data 2                                 42.6 KiB       0 B   42.6 KiB   42.6 KiB  127.9 KiB       42.6 KiB
                      ZeRO-2, pipeline 1 x data 4                                 68.5 KiB       0 B   74.6 KiB   34.2 KiB  177.4 KiB      114.8 KiB
        "#]],
    );
}

#[test]
fn a_schedule_says_how_many_stages_it_runs_on_a_rank() {
    refused(
        &[("\"pipeline\": 2", "\"pipeline\": 2, \"schedule\": \"interleaved\"")],
        expect![[r#"
            error: not a valid run, 1 mistake:
              x `parallel.virtual_stages` is missing: "interleaved" runs several stages on each rank
                ,-[run.json:11:3]
             10 |   "evaluation": { "every": 2, "batches": 1 },
             11 |   "parallel": { "pipeline": 2, "schedule": "interleaved", "data": 2 },
                :   ^^^^^^^^^^
             12 |   "zero_optimization": { "stage": 3 },
                `----
              help: add 2 or more, or use the schedule "1f1b"
        "#]],
    );
    refused(
        &[("\"pipeline\": 2", "\"pipeline\": 2, \"virtual_stages\": 2")],
        expect![[r#"
            error: not a valid run, 1 mistake:
              x `parallel.virtual_stages` is 2, but "1f1b" runs one stage on each rank
                ,-[run.json:11:50]
             10 |   "evaluation": { "every": 2, "batches": 1 },
             11 |   "parallel": { "pipeline": 2, "virtual_stages": 2, "data": 2 },
                :                                                  ^
             12 |   "zero_optimization": { "stage": 3 },
                `----
              help: set 1, or use "interleaved" or "bfs"
        "#]],
    );
}

#[test]
fn a_schedule_file_is_shown_with_its_mistake() {
    let home =
        Home::with(&[("\"pipeline\": 2", "\"pipeline\": 2, \"schedule\": { \"file\": \"order.csv\" }")]);
    home.write("order.csv", "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B2\n");
    home.refuses(&["check", "run.json"], 2, expect![[r#"
        error: not a valid run, 1 mistake:
          x `parallel.schedule` is file "order.csv", but it is no schedule: end of row 1: `0F2` is missing: every stage runs every micro-batch, forward and backward; add it
            ,-[run.json:11:44]
         10 |   "evaluation": { "every": 2, "batches": 1 },
         11 |   "parallel": { "pipeline": 2, "schedule": { "file": "order.csv" }, "data": 2 },
            :                                            ^^^^^^^^^^^^^^^^^^^^^^^
         12 |   "zero_optimization": { "stage": 3 },
            `----
          help: name a file in PyTorch's pipelining CSV: a row per rank, such as `0F0,0F1,0B0,0B1`
    "#]]);
    home.write("order.csv", "0F0,0F1,0F2,0B0,0B1,0B2\n1F0,1B0,1F1,1B1,1F2,1B2\n");
    home.refuses(
        &["check", "run.json"],
        2,
        expect![[r#"
            error: not a valid run, 1 mistake:
              x `parallel.schedule` is file "order.csv", but it has 3 micro-batches and a step of this run has 2
                ,-[run.json:11:44]
             10 |   "evaluation": { "every": 2, "batches": 1 },
             11 |   "parallel": { "pipeline": 2, "schedule": { "file": "order.csv" }, "data": 2 },
                :                                            ^^^^^^^^^^^^^^^^^^^^^^^
             12 |   "zero_optimization": { "stage": 3 },
                `----
              help: set `gradient_accumulation_steps` to 3
        "#]],
    );
}

#[test]
fn offload_is_refused_by_name() {
    let offload = "\"stage\": 3, \"offload_optimizer\": { \"device\": \"cpu\", \"pin_memory\": true }";
    refused(
        &[("\"stage\": 3", offload)],
        expect![[r#"
            error: not a valid run, 1 mistake:
              x `zero_optimization.offload_optimizer` is an object, but offload of the optimizer is not offered
                ,-[run.json:12:59]
             11 |   "parallel": { "pipeline": 2, "data": 2 },
             12 |   "zero_optimization": { "stage": 3, "offload_optimizer": { "device": "cpu", "pin_memory": true } },
                :                                                           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
             13 |   "train_batch_size": 8,
                `----
              help: remove it; more data ranks shard the optimizer further
        "#]],
    );
}

#[test]
fn a_vocabulary_holds_every_byte() {
    refused(
        &[("\"seq_length\": 16", "\"seq_length\": 16, \"vocab_size\": 100")],
        expect![[r#"
            error: not a valid run, 1 mistake:
              x `model.vocab_size` is 100, but text is read as bytes, which are 256 tokens
               ,-[run.json:7:37]
             6 |     "num_attention_heads": 2,
             7 |     "seq_length": 16, "vocab_size": 100
               :                                     ^^^
             8 |   },
               `----
              help: use at least 256
        "#]],
    );
}

#[test]
fn there_is_one_precision() {
    let both = "\"seed\": 3, \"fp16\": { \"enabled\": true }, \"bf16\": { \"enabled\": true }";
    refused(
        &[("\"seed\": 3", both)],
        expect![[r#"
            error: not a valid run, 1 mistake:
              x `fp16.enabled` is true, but `bf16.enabled` is true too, and a run computes in one type
                ,-[run.json:18:35]
             17 |   "steps": 3,
             18 |   "seed": 3, "fp16": { "enabled": true }, "bf16": { "enabled": true }
                :                                   ^^^^
             19 | }
                `----
              help: set one of the two to false
        "#]],
    );
}

#[test]
fn truncated_json_is_reported_where_it_ends() {
    let home = Home::new();
    let whole = home.read("run.json");
    home.write("run.json", &whole[..whole.find("\"optimizer\"").unwrap()]);
    home.refuses(
        &["check", "run.json"],
        2,
        expect![[r#"
            error: not a valid run, 1 mistake:
              x this object is never closed: the text ends before its `}`
               ,-[run.json:1:1]
             1 | {
               : ^
             2 |   "model": {
               `----
        "#]],
    );
}

#[test]
fn a_key_that_is_given_twice_is_an_error() {
    refused(
        &[("\"seed\": 3", "\"seed\": 3,\n  \"steps\": 4")],
        expect![[r#"
            error: not a valid run, 1 mistake:
              x `steps` stands twice, first at 17:3
                ,-[run.json:19:3]
             18 |   "seed": 3,
             19 |   "steps": 4
                :   ^^^^^^^
             20 | }
                `----
              help: keep one of the two
        "#]],
    );
}

#[test]
fn all_mistakes_are_reported_at_once() {
    refused(
        &[
            ("\"pipeline\": 2", "\"pipeline\": 9"),
            ("\"num_attention_heads\": 2", "\"num_attention_heads\": 3"),
            ("\"seed\"", "\"sed\""),
        ],
        expect![[r#"
            error: not a valid run, 3 mistakes:
              x `model.num_attention_heads` is 3, but `model.hidden_size` is 16, which 3 does not divide: every head has the same width
               ,-[run.json:6:28]
             5 |     "hidden_size": 16,
             6 |     "num_attention_heads": 3,
               :                            ^
             7 |     "seq_length": 16
               `----
              help: use a divisor such as 2

              x `parallel.pipeline` is 9, but the model has 4 layers: every stage needs at least one
                ,-[run.json:11:29]
             10 |   "evaluation": { "every": 2, "batches": 1 },
             11 |   "parallel": { "pipeline": 9, "data": 2 },
                :                             ^
             12 |   "zero_optimization": { "stage": 3 },
                `----
              help: use at most 4

              x unknown key `sed`
                ,-[run.json:18:3]
             17 |   "steps": 3,
             18 |   "sed": 3
                :   ^^^^^
             19 | }
                `----
              help: did you mean `seed`?
        "#]],
    );
}

#[test]
fn an_override_is_reported_as_an_argument() {
    let home = Home::new();
    home.refuses(
        &["check", "run.json", "--set", "parallel.pipelin=2"],
        2,
        expect![[r#"
            error: not a valid run, 1 mistake:
              x unknown key `parallel.pipelin`
               ,-[--set:1:1]
             1 | parallel.pipelin=2
               : ^^^^^^^^^^^^^^^^
               `----
              help: did you mean `pipeline`?
        "#]],
    );
    home.refuses(
        &["check", "run.json", "--set", "parallel.pipeline"],
        2,
        expect![[r#"
            error: not a valid run, 1 mistake:
              x it has no value
               ,-[--set:1:1]
             1 | parallel.pipeline
               : ^^^^^^^^^^^^^^^^^
               `----
              help: write --set parallel.pipeline=VALUE
        "#]],
    );
}

#[test]
fn a_missing_run_file_is_an_error() {
    Home::new().refuses(
        &["check", "nowhere.json"],
        2,
        expect![[r#"
            error: not a valid run, 1 mistake:
              x nowhere.json: cannot read the run file: No such file or directory (os error 2)
        "#]],
    );
}

#[test]
fn sizes_beyond_every_machine_are_errors() {
    refused(
        &[("\"num_layers\": 4", "\"num_layers\": 1000000000")],
        expect![[r#"
            error: not a valid run, 1 mistake:
              x `model.num_layers` is 1000000000, but a model has at most 131072, so that a plan takes seconds
               ,-[run.json:4:19]
             3 |     "family": "gpt2",
             4 |     "num_layers": 1000000000,
               :                   ^^^^^^^^^^
             5 |     "hidden_size": 16,
               `----
              help: use fewer
        "#]],
    );
    refused(
        &[("\"hidden_size\": 16", "\"hidden_size\": 1000000000000")],
        expect![[r#"
            error: not a valid run, 1 mistake:
              x `model` is 4.8e25 parameters large, but a model may have at most 2^53 parameters
               ,-[run.json:2:3]
             1 | {
             2 |   "model": {
               :   ^^^^^^^
             3 |     "family": "gpt2",
               `----
              help: use smaller sizes
        "#]],
    );
    refused(
        &[("\"seq_length\": 16", "\"seq_length\": 1000000000000")],
        expect![[r#"
            error: not a valid run, 1 mistake:
              x `model.seq_length` is 1000000000000, but the activations that 4 layers would keep for the backward of 2 micro-batches of 2 sequences of this length are more than 2^53 elements, too many to count
              | exactly
               ,-[run.json:7:19]
             6 |     "num_attention_heads": 2,
             7 |     "seq_length": 1000000000000
               :                   ^^^^^^^^^^^^^
             8 |   },
               `----
              help: use shorter or fewer sequences
        "#]],
    );
}

#[test]
fn sizes_beyond_this_machine_are_refused_with_their_numbers() {
    let home = Home::with(&[("\"hidden_size\": 16", "\"hidden_size\": 4194304")]);
    let printed = home.run(&["train", "run.json", "--out", "out"]);
    assert_eq!((printed.status, printed.stdout.as_str()), (Some(1), ""));
    let error = printed.stderr.lines().last().unwrap();
    // What is available differs from machine to machine.
    let (needed, available) = error.split_once(", but ").unwrap();
    expect!["error: the run needs 24.00 PiB of memory (ranks: 4)"].assert_eq(needed);
    let (_, repair) = available.split_once(" is available").unwrap();
    expect![" on this host or to its control group; of the changes that are tried, in schedule, residency, units, recomputation and micro-batches, none makes it fit: use a smaller model or sequence, or more ranks"].assert_eq(repair);
    assert!(!home.path("out").exists());
}
