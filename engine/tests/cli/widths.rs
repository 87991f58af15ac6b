//! What is printed fits the terminal: the same commands on 80, 120 and 200 columns.

use expect_test::expect_file;

use crate::command::{Home, Printed};

/// Commands with mistakes, notices, tables, grids and a run.
const COMMANDS: [&str; 7] = [
    "check run.json --set zero_optimization.reduce_bucket_size=5e8 --set train_batch_size=auto --set train_micro_batch_size_per_gpu=2",
    "check run.json --set zero_optimization.stage=4 --set model.hidden_sizes=8",
    "check run.json --set zero_optimization.unit_layers=4 --set parallel.partition=uniform",
    "plan run.json --set gradient_accumulation_steps=1",
    "show run.json --set zero_optimization.stage=0 --set gradient_accumulation_steps=8 --set train_batch_size=32",
    "simulate run.json --device h100 --speed 1=0.5",
    "train run.json --out out --overwrite",
];

/// What a command prints, but for times and rates, which differ from run to run.
fn printed(home: &Home, columns: usize, command: &str) -> String {
    let output = home.command(command).env("COLUMNS", columns.to_string()).output().unwrap();
    let printed = Printed::new(output, home.path("run.json").parent().unwrap());
    let both = format!("{}{}", printed.stdout, printed.stderr);
    if !command.starts_with("train") {
        return both;
    }
    let is_timed =
        |line: &&str| line.starts_with("step ") || line.starts_with("run ") || line.starts_with("     ");
    both.lines().filter(|line| !is_timed(line)).flat_map(|line| [line, "\n"]).collect()
}

#[test]
fn everything_fits_80_120_and_200_columns() {
    let home = Home::new();
    for columns in [80, 120, 200] {
        let mut all = String::new();
        for command in COMMANDS {
            let text = printed(&home, columns, command);
            let too_long: Vec<&str> = text.lines().filter(|line| line.chars().count() > columns).collect();
            assert!(too_long.is_empty(), "{command}, {columns} columns:\n{}", too_long.join("\n"));
            all += &format!("$ {command}\n{text}\n");
        }
        expect_file![format!("../widths/{columns}.txt")].assert_eq(&all);
    }
}

/// Neither colours nor cursor movements reach a pipe, whatever the environment says of colours.
#[test]
fn pipes_get_no_escape_sequences() {
    let home = Home::new();
    for command in COMMANDS {
        for (name, value) in [("NO_COLOR", "1"), ("TERM", "xterm-256color"), ("PIPEZERO_LOG", "trace")] {
            let output = home.command(command).env_remove("NO_COLOR").env(name, value).output().unwrap();
            assert!(![output.stdout, output.stderr].concat().contains(&0x1b), "{command} {name}={value}");
        }
    }
}
