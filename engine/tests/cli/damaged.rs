//! Damaged run directories: `eval` and `generate` say which file is wrong, and why.

use expect_test::expect;

use crate::command::Home;

/// Both commands refuse the directory with the same error.
#[track_caller]
fn refused(home: &Home) -> String {
    let generate = home.run("generate out --prompt the").failure(2);
    assert_eq!(home.run("eval out").failure(2), generate);
    generate
}

#[test]
fn damaged_weights() {
    let home = Home::trained();
    let weights = std::fs::read(home.path("out/weights.safetensors")).unwrap();
    for (bytes, expected) in [
        (&weights[..weights.len() - 1], "its header describes 74112 bytes, the file has 74111"),
        (&weights[..5], "it has 5 bytes, a header 8 or more"),
        (&[0xff; 64], "its header claims 18446744073709551615 bytes, the file has 64"),
    ] {
        home.write("out/weights.safetensors", bytes);
        let expected =
            format!("error: out/weights.safetensors: {expected}; it is not a complete safetensors file\n");
        assert_eq!(refused(&home), expected);
    }
}

#[test]
fn weights_of_another_model() {
    let home = Home::trained();
    let run = home.read("out/run.json");
    for (from, to, expected) in [
        (
            "\"hidden_size\": 16",
            "\"hidden_size\": 32",
            "`wte.weight` is F32 [256, 16], the model has F32 [256, 32]",
        ),
        ("\"num_layers\": 4", "\"num_layers\": 6", "it has no tensor `h.4.ln_1.weight`"),
    ] {
        home.write("out/run.json", run.replace(from, to));
        let expected = format!(
            "error: out/weights.safetensors: {expected}; the weights belong to another model than the run file describes\n"
        );
        assert_eq!(refused(&home), expected);
    }
}

#[test]
fn missing_files() {
    let without_weights = Home::trained();
    std::fs::remove_file(without_weights.path("out/weights.safetensors")).unwrap();
    for (home, file) in [(without_weights, "weights.safetensors"), (Home::new(), "run.json")] {
        let expected = format!(
            "error: out is not a run directory: it has no {file}; name the folder that `pipezero train` wrote\n"
        );
        assert_eq!(refused(&home), expected);
    }
}

#[test]
fn a_damaged_run_file() {
    let home = Home::trained();
    let run = home.read("out/run.json");
    home.write("out/run.json", &run[..20]);
    expect![[r#"
            error: not a valid run, 1 mistake:
              x this string is never closed: the text ends before its `"`
               ,-[out/run.json:3:5]
             2 |   "model": {
             3 |     "
               :     ^
               `----
        "#]]
    .assert_eq(&refused(&home));
}
