//! Orders that run and orders that do not, against playing them without a program.

use std::collections::BTreeSet;
use std::string::{String, ToString};
use std::vec::Vec;

use expect_test::expect;

use super::*;
use crate::csv::CsvSite;
use crate::lower::Lack;
use crate::options::Residency;
use crate::testing::{order, units};

/// Every order of these cells.
fn permutations(cells: &[&str]) -> Vec<Vec<String>> {
    if cells.is_empty() {
        return vec![Vec::new()];
    }
    let first = |index: usize| {
        let rest = [&cells[..index], &cells[index + 1..]].concat();
        permutations(&rest).into_iter().map(move |rest| [vec![cells[index].to_string()], rest].concat())
    };
    (0..cells.len()).flat_map(first).collect()
}

/// What an action needs, with buffers without end: a stage's own forward or input gradient, and its neighbour's.
fn needs(cell: &str, num_stages: usize, is_split: bool) -> Vec<String> {
    let at = cell.find(|letter: char| letter.is_ascii_alphabetic()).unwrap();
    let (stage, micro_batch): (usize, &str) = (cell[..at].parse().unwrap(), &cell[at + 1..]);
    let backward = if is_split { 'I' } else { 'B' };
    let of = |stage: usize, kind: char| format!("{stage}{kind}{micro_batch}");
    match &cell[at..=at] {
        "F" if stage == 0 => vec![],
        "F" => vec![of(stage - 1, 'F')],
        "W" => vec![of(stage, 'I')],
        _ if stage + 1 == num_stages => vec![of(stage, 'F')],
        _ => vec![of(stage, 'F'), of(stage + 1, backward)],
    }
}

/// The cells that run when every row goes on as far as it can.
fn played(rows: &[Vec<String>], num_stages: usize, is_split: bool) -> BTreeSet<String> {
    let mut done = BTreeSet::new();
    let mut next = vec![0; rows.len()];
    loop {
        let before = done.len();
        for (row, next) in rows.iter().zip(&mut next) {
            while let Some(cell) = row.get(*next)
                && needs(cell, num_stages, is_split).iter().all(|cell| done.contains(cell))
            {
                done.insert(cell.clone());
                *next += 1;
            }
        }
        if done.len() == before {
            return done;
        }
    }
}

/// The cell that an error is about and the one that it names, each with its text.
fn named(error: &CsvError) -> [(CsvPlace, String); 2] {
    let CsvSite::Cell { place: at, text } = &error.site else { panic!("{error}") };
    let (other, place) = match &error.rule {
        CsvRule::RunsBefore { needed, place } => (*needed, *place),
        CsvRule::Stuck(cycle) => cycle[0].awaited,
        _ => panic!("{error}"),
    };
    [(*at, text.clone()), (place, other.to_string())]
}

/// Up to two micro-batches no message waits for a buffer, so an order runs exactly if its needs can be met one after the
/// other. The cell of an error does not run, and needs the one that is named.
#[test]
fn orders_run_exactly_if_playing_them_ends() {
    let grids: [&[&[&str]]; 6] = [
        &[&["0F0", "0B0", "0F1", "0B1"], &["1F0", "1B0", "1F1", "1B1"]],
        &[&["0F0", "0B0", "1F0", "1B0"]],
        &[&["0F0", "0B0"], &["1F0", "1B0"], &["2F0", "2B0"]],
        &[&["0F0", "0B0", "2F0", "2B0"], &["1F0", "1B0"]],
        &[&["0F0", "0I0", "0W0"], &["1F0", "1I0", "1W0"]],
        &[&["0F0", "1F0", "0F1", "1F1"], &["2F0", "2F1"]],
    ];
    let mut num_running = [0; 2];
    for grid in grids {
        let num_stages = 1 + grid.iter().flat_map(|row| row.iter()).map(|cell| stage_of(cell)).max().unwrap();
        let is_split = grid[0].contains(&"0I0");
        for rows in every_order(grid) {
            let text = text(&rows);
            let done = played(&rows, num_stages, is_split);
            let runs = done.len() == rows.iter().map(Vec::len).sum::<usize>();
            num_running[usize::from(runs)] += 1;
            match ComputeOrder::from_csv(&text) {
                Ok(_) => assert!(runs, "{text}"),
                Err(error) => {
                    let [(at, cell), (place, other)] = named(&error);
                    assert!(!runs && !done.contains(&cell), "{text}{error}");
                    assert!(needs(&cell, num_stages, is_split).contains(&other), "{text}{error}");
                    assert_eq!(rows[at.row - 1][at.column - 1], cell, "{text}{error}");
                    assert_eq!(rows[place.row - 1][place.column - 1], other, "{text}{error}");
                }
            }
        }
    }
    assert!(num_running.iter().all(|&found| found > 20), "{num_running:?}");
}

/// With more micro-batches a message may find its buffers taken for ever. One unit in each stage shows it as
/// well as three with sharded weights do.
#[test]
fn units_and_zero_change_no_answer() {
    let grids: [&[&[&str]]; 2] = [
        &[&["0F0", "0F1", "0F2", "0F3"], &["1F0", "1F1", "1F2", "1F3"]],
        &[&["0F0", "0F1", "0F2"], &["1F0", "1F1", "1F2", "1B0", "1B1", "1B2"]],
    ];
    let backwards = ["0B0", "0B1", "0B2", "0B3", "1B0", "1B1", "1B2", "1B3"].map(ToString::to_string);
    let mut num_running = [0; 2];
    for (grid, later) in grids.into_iter().zip([[&backwards[..4], &backwards[4..]], [&backwards[..3], &[]]]) {
        for mut rows in every_order(grid) {
            rows.iter_mut().zip(later).for_each(|(row, later)| row.extend_from_slice(later));
            let text = text(&rows);
            let cells: Vec<String> = rows.iter().map(|row| row.join(" ")).collect();
            let order = order(&[0, 1], grid[0].len() as u32, &[&cells[0], &cells[1]]);
            let units = units(2, 3, false);
            let options = LowerOptions::zero_3(Residency::Strict, 1);
            let runs =
                lower(&order, &units, &options).is_ok_and(|program| CheckedProgram::new(program).is_ok());
            num_running[usize::from(runs)] += 1;
            assert_eq!(check(&order, &text).is_ok(), runs, "{text}");
            assert_eq!(ComputeOrder::from_csv(&text).is_ok(), runs, "{text}");
        }
    }
    assert!(num_running.iter().all(|&found| found > 20), "{num_running:?}");
}

fn stage_of(cell: &str) -> usize {
    cell[..1].parse().unwrap()
}

fn text(rows: &[Vec<String>]) -> String {
    rows.iter().map(|row| row.join(",") + "\n").collect()
}

/// Every order of every row.
fn every_order(grid: &[&[&str]]) -> Vec<Vec<Vec<String>>> {
    grid.iter().fold(vec![Vec::new()], |orders, row| {
        let with = |order: &Vec<Vec<String>>| {
            let order = order.clone();
            permutations(row).into_iter().map(move |row| [order.clone(), vec![row]].concat())
        };
        orders.iter().flat_map(with).collect()
    })
}

#[test]
fn each_kind_of_mistake_in_words() {
    let texts = [
        "0F0,1B0,1F0,0B0\n",
        "0F0,,0W0,0I0\n",
        "0F0,1F0,0I0,0W0,1I0,1W0\n",
        "0F0,0B0,0F1,0B1\n1F1,,1B1,1F0,1B0\n",
        "0F0,0F1,0F2\n1F2,1F0,1F1\n",
    ];
    let message = |text: &str| format!("{}\n", ComputeOrder::from_csv(text).unwrap_err());
    expect![[r#"
        row 1, column 2, `1B0`: it needs `1F0`, which comes later, at row 1, column 3; move it behind
        row 1, column 3, `0W0`: it needs `0I0`, which comes later, at row 1, column 4; move it behind
        row 1, column 3, `0I0`: it needs `1I0`, which comes later, at row 1, column 5; move it behind
        row 1, column 2, `0B0`: no rank can go on: these actions wait for each other; run first what others wait for, and use messages in order:
          `0B0` (row 1, column 2) waits for `1B0` (row 2, column 5), which comes after `1F1` (row 2, column 1)
          `1F1` (row 2, column 1) waits for `0F1` (row 1, column 3), which comes after `0B0` (row 1, column 2)
        row 2, column 1, `1F2`: no rank can go on: these actions wait for each other; run first what others wait for, and use messages in order:
          `1F2` (row 2, column 1) waits for a receive buffer, until `1F0` (row 2, column 2), which comes after `1F2` (row 2, column 1)
    "#]].assert_eq(&texts.map(message).concat());
}

/// The first rank stops because nothing is read; the one that does not read is to blame.
#[test]
fn an_evaluation_that_stops_names_who_lacks_a_message() {
    let text = "0F0,0F1,0F2,0F3,0F4,0F5,0F6,0F7\n1F7,1F0,1F1,1F2,1F3,1F4,1F5,1F6\n";
    let error = ComputeOrder::from_csv(text).unwrap_err();
    let [(at, cell), (other, needed)] = named(&error);
    assert_eq!((at, cell.as_str()), (CsvPlace { row: 2, column: 1 }, "1F7"));
    assert_eq!((other, needed.as_str()), (CsvPlace { row: 1, column: 8 }, "0F7"));
}

/// Every wait of a cycle is for what comes with or after the next one of it, and is one that a stage has or that a
/// buffer makes.
#[test]
fn every_printed_deadlock_is_a_cycle() {
    let grids: [&[&[&str]]; 3] = [
        &[&["0F0", "0B0", "0F1", "0B1"], &["1F0", "1B0", "1F1", "1B1"]],
        &[&["0F0", "0B0", "2F0", "2B0"], &["1F0", "1B0"]],
        &[&["0F0", "0F1", "0F2", "0F3"], &["1F0", "1F1", "1F2", "1F3"]],
    ];
    let mut num_of_lack = [0; 2];
    for (grid, num_stages) in grids.into_iter().zip([2, 3, 2]) {
        for rows in every_order(grid) {
            let error = ComputeOrder::from_csv(&text(&rows));
            let Err(CsvError { rule: CsvRule::Stuck(cycle), site }) = error else { continue };
            let CsvSite::Cell { place: at, .. } = site else { panic!("{site}") };
            assert_eq!(at, cycle[0].action.1);
            for (of, next) in cycle.iter().zip(cycle.iter().cycle().skip(1)) {
                let ((action, _), (awaited, awaited_place)) = (of.action, of.awaited);
                for (action, place) in [of.action, of.awaited] {
                    assert_eq!(rows[place.row - 1][place.column - 1], action.to_string());
                }
                let (_, blocks) = next.action;
                assert!(blocks.row == awaited_place.row && blocks.column <= awaited_place.column);
                let is_needed = needs(&action.to_string(), num_stages, false).contains(&awaited.to_string());
                match of.lack {
                    Lack::Message => assert!(is_needed, "{action} does not read what {awaited} makes"),
                    Lack::Buffer => assert!(!is_needed, "{action} reads what {awaited} makes"),
                }
                num_of_lack[usize::from(of.lack == Lack::Buffer)] += 1;
            }
        }
    }
    assert!(num_of_lack.iter().all(|&found| found > 20), "{num_of_lack:?}");
}
