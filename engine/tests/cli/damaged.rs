//! Run directories that are not what `train` wrote: `eval` and `generate` say what is wrong with which file.

use expect_test::{Expect, expect};

use crate::command::Home;

/// Both commands refuse the directory with the same words.
#[track_caller]
fn refused(home: &Home, status: i32, expected: Expect) {
    let generate = home.run(&["generate", "out", "--prompt", "the"]).failure(status);
    let eval = home.run(&["eval", "out"]).failure(status);
    assert_eq!(eval, generate);
    expected.assert_eq(&eval);
}

#[test]
fn weights_cut_off() {
    let home = Home::trained();
    let weights = std::fs::read(home.path("out/weights.safetensors")).unwrap();
    home.write("out/weights.safetensors", &weights[..weights.len() - 1]);
    refused(
        &home,
        2,
        expect![[r#"
            error: out/weights.safetensors: its header describes 74112 bytes, the file has 74111; it is not a complete safetensors file
        "#]],
    );
    home.write("out/weights.safetensors", &weights[..5]);
    refused(
        &home,
        2,
        expect![[r#"
            error: out/weights.safetensors: it has 5 bytes, a header 8 or more; it is not a complete safetensors file
        "#]],
    );
    home.write("out/weights.safetensors", [0xff; 64]);
    refused(
        &home,
        2,
        expect![[r#"
            error: out/weights.safetensors: its header claims 18446744073709551615 bytes, the file has 64; it is not a complete safetensors file
        "#]],
    );
}

#[test]
fn weights_missing() {
    let home = Home::trained();
    std::fs::remove_file(home.path("out/weights.safetensors")).unwrap();
    refused(
        &home,
        2,
        expect![[r#"
            error: out is no run directory: it has no weights.safetensors; give the folder that `pipezero train` wrote
        "#]],
    );
}

#[test]
fn weights_of_another_model() {
    let home = Home::trained();
    let run = home.read("out/run.json");
    home.write("out/run.json", run.replace("\"hidden_size\": 16", "\"hidden_size\": 32"));
    refused(
        &home,
        2,
        expect![[r#"
            error: out/weights.safetensors: `wte.weight` is F32 [256, 16], the model has F32 [256, 32]; the weights belong to another model than the run file describes
        "#]],
    );
    home.write("out/run.json", run.replace("\"num_layers\": 4", "\"num_layers\": 6"));
    refused(
        &home,
        2,
        expect![[r#"
            error: out/weights.safetensors: it has no tensor `h.4.ln_1.weight`; the weights belong to another model than the run file describes
        "#]],
    );
}

#[test]
fn run_file_broken() {
    let home = Home::trained();
    let run = home.read("out/run.json");
    home.write("out/run.json", &run[..20]);
    refused(
        &home,
        2,
        expect![[r#"
            error: not a valid run, 1 mistake:
              x this string is never closed: the text ends before its `"`
               ,-[out/run.json:3:5]
             2 |   "model": {
             3 |     "
               :     ^
               `----
        "#]],
    );
}

#[test]
fn no_run_directory_at_all() {
    refused(
        &Home::new(),
        2,
        expect![[r#"
            error: out is no run directory: it has no run.json; give the folder that `pipezero train` wrote
        "#]],
    );
}
