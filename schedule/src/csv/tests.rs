//! CSV: round trips, and every rule broken alone.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use expect_test::expect;
use proptest::prelude::*;

use super::{CsvError, CsvPlace, CsvRule, CsvSite, csv_place};
use crate::generate::{forward_only_on, one_f_one_b};
use crate::id::PipelineRank;
use crate::order::ComputeOrder;
use crate::placement::Placement;
use crate::testing::{action, all_orders, looped_orders};

#[test]
fn every_generated_order_round_trips() {
    let sizes = || (1..=4).flat_map(|p| (1..=6).map(move |m| (p, m)));
    let one_each = sizes().flat_map(|(p, m)| all_orders(p, m));
    let looped = sizes().flat_map(|(p, m)| (2..=3).flat_map(move |v| looped_orders(p, v, m)));
    for order in one_each.chain(looped) {
        assert_eq!(ComputeOrder::from_csv(&order.to_csv()), Ok(order));
    }
    let folded = Placement::new([0, 1, 1, 0].map(PipelineRank).to_vec()).unwrap();
    let evaluation = forward_only_on(&folded, 5).unwrap();
    assert_eq!(ComputeOrder::from_csv(&evaluation.to_csv()), Ok(evaluation));
}

/// As PyTorch writes it: idle steps as empty cells, lines that end as Python's `csv` ends them.
#[test]
fn idle_cells_and_line_ends_change_nothing() {
    let order = one_f_one_b(2, 2).unwrap();
    let dumped = "0F0,0F1,,0B0,,0B1\r\n,1F0,1B0,1F1,1B1,\r\n";
    assert_eq!(ComputeOrder::from_csv(dumped), Ok(order.clone()));
    assert_eq!(ComputeOrder::from_csv("0F0, 0F1 , ,0B0,0B1\n1F0,1B0,1F1,1B1"), Ok(order));
}

/// Spreadsheet programs write a byte order mark, and some end a file with a blank line.
#[test]
fn a_byte_order_mark_and_blank_lines_at_the_end_change_nothing() {
    let order = one_f_one_b(2, 2).unwrap();
    for end in ["", "\n", "\r\n", "\n\n", "\r\n\r\n", "\n  \n\t\n"] {
        for mark in ["", "\u{feff}"] {
            let text = format!("{mark}0F0,0F1,,0B0,0B1\r\n1F0,1B0,1F1,1B1{end}");
            assert_eq!(ComputeOrder::from_csv(&text), Ok(order.clone()), "{text:?}");
        }
    }
    // Places are those of the text that is seen.
    let marked = "\u{feff}0F0,0X0\r\n";
    assert!(ComputeOrder::from_csv(marked).unwrap_err().to_string().starts_with("row 1, column 2, `0X0`: "));
    // Within the text it is not a byte order mark.
    assert!(ComputeOrder::from_csv("0F0,\u{feff}0B0\n").is_err());
}

#[test]
fn split_backwards_and_a_v_are_read_as_they_stand() {
    let text = "0F0,3F0,3I0,3W0,0B0\n1F0,2F0,2I0,1I0,2W0,1W0\n";
    let order = ComputeOrder::from_csv(text).unwrap();
    assert_eq!(order.placement.ranks_by_stage(), [0, 1, 1, 0].map(PipelineRank));
    assert_eq!(order.num_micro_batches, 1);
    assert_eq!(order.to_csv(), text);
    assert!(order.is_ascending());
}

#[test]
fn an_order_may_descend_and_says_so() {
    // In the last one the weight gradient of 1 comes before that of 0.
    for text in ["0F0,0F1,0B1,0B0\n", "0F0,0F1,0I0,0I1,0W1,0W0\n", "0F0,0F1,0I0,0B1,0W0\n"] {
        assert!(!ComputeOrder::from_csv(text).unwrap().is_ascending(), "{text}");
    }
}

#[test]
fn every_error_has_place_rule_and_repair() {
    let long = format!("0F0,0F{}7\n", "9".repeat(50));
    let texts = [
        "0F0,0X0\n",
        "0F0,0F1 0B0\n",
        "0F0\n1F\n",
        "0F0,\u{1b}[31m\n",
        "0F0,0SEND_F0\n",
        "0F0,(0F1;0B0)OVERLAP_F_B\n",
        "0F0,0B4000000000\n",
        "0F0,99999999999999999999999F0\n",
        // A step of a billion micro-batches in a line of text: refused before any table is made.
        "0F999999999,0B999999999\n",
        "999999999F0,999999999B0\n",
        // A long cell is repeated from both ends, so that it can be searched for.
        &long,
        "",
        "\n \r\n",
        "\u{feff}",
        // Lines number the ranks, so a blank one cannot be skipped; nor can a row of idle cells at the end.
        "0F0,0B0\n\n1F0,1B0\n",
        "\r\n0F0,0B0\r\n",
        "0F0,0B0\n,,,\n",
        "0F0,1F0,1B0\n1F1,0B0,1B1,0F1,0B1\n",
        "0F0,0B0\n2F0,2B0\n",
        "0F0,,0F1,0B0\n",
        "0F0,0I0\n",
        "0F0,0W0\n",
        "0F0,0F0,0B0\n",
        "0F0,0I0,0W0,0B0\n",
    ];
    let message = |text: &str| format!("{}\n", ComputeOrder::from_csv(text).unwrap_err());
    expect![[r#"
        row 1, column 2, `0X0`: not an action: a stage, one of `F`, `B`, `I`, `W`, and a micro-batch, as in `0F0`; nothing for idle
        row 1, column 2, `0F1 0B0`: not an action: a stage, one of `F`, `B`, `I`, `W`, and a micro-batch, as in `0F0`; nothing for idle
        row 2, column 1, `1F`: not an action: a stage, one of `F`, `B`, `I`, `W`, and a micro-batch, as in `0F0`; nothing for idle
        row 1, column 2: not an action: a stage, one of `F`, `B`, `I`, `W`, and a micro-batch, as in `0F0`; nothing for idle
        row 1, column 2, `0SEND_F0`: not of the compute-only form: messages, gathers and reductions are added here, and actions are not fused; dump the schedule before it is lowered
        row 1, column 2, `(0F1;0B0)OVERLAP_F_B`: not of the compute-only form: messages, gathers and reductions are added here, and actions are not fused; dump the schedule before it is lowered
        row 1, column 2, `0B4000000000`: 4000000000 is too large: stages and micro-batches are numbered from 0 without gaps, and the file has 2 actions; number them so
        row 1, column 2, `99999999999999999999999F0`: a number of 20 digits or more is too large: stages and micro-batches are numbered from 0 without gaps, and the file has 2 actions; number them so
        row 1, column 1, `0F999999999`: 999999999 is too large: stages and micro-batches are numbered from 0 without gaps, and the file has 2 actions; number them so
        row 1, column 1, `999999999F0`: 999999999 is too large: stages and micro-batches are numbered from 0 without gaps, and the file has 2 actions; number them so
        row 1, column 2, `0F9999999999...999999999997 (53 characters)`: a number of 20 digits or more is too large: stages and micro-batches are numbered from 0 without gaps, and the file has 2 actions; number them so
        the file: it is empty; write a row per rank
        the file: it is empty; write a row per rank
        the file: it is empty; write a row per rank
        row 2: rank 1 computes nothing: every rank holds a stage; drop the row, or give the rank its actions
        row 1: rank 0 computes nothing: every rank holds a stage; drop the row, or give the rank its actions
        row 2: rank 1 computes nothing: every rank holds a stage; drop the row, or give the rank its actions
        row 2, column 1, `1F1`: stage 1 stands in row 1 too: a stage lies on one rank; move all its actions to one row
        the file: stage 1 is nowhere: stages are numbered from 0 without gaps; add or renumber
        end of row 1: `0B1` is missing: every stage runs every micro-batch, forward and backward; add it
        row 1, column 2, `0I0`: `0W0` is missing: every stage runs every micro-batch, forward and backward; add it
        row 1, column 2, `0W0`: `0I0` is missing: every stage runs every micro-batch, forward and backward; add it
        row 1, column 2, `0F0`: it stands at row 1, column 1 already: an action runs once; drop one
        row 1, column 2, `0I0`: a full backward of it stands at row 1, column 4: keep `B`, or `I` and `W`, for a stage and micro-batch
    "#]].assert_eq(&texts.map(message).concat());
}

#[test]
fn an_action_is_found_in_its_cell() {
    let text = "\u{feff}0F0,, 0F1 ,0B0\r\n,10F2,0F1\r\n";
    for (cell, place) in
        [("0F0", Some((1, 1))), ("0F1", Some((1, 3))), ("10F2", Some((2, 2))), ("0F2", None), ("0I0", None)]
    {
        let place = place.map(|(row, column)| CsvPlace { row, column });
        assert_eq!(csv_place(text, action(cell)), place, "{cell}");
    }
}

#[test]
fn the_first_micro_batch_of_an_order_is_an_order() {
    for order in (1..=5).flat_map(|m| looped_orders(3, 2, m)) {
        let first = order.first_micro_batch();
        assert_eq!((first.num_micro_batches, &first.placement), (1, &order.placement));
        assert_eq!(ComputeOrder::from_csv(&first.to_csv()), Ok(first));
    }
}

/// Drops and doubles every action of an order: the error names it.
#[test]
fn every_missing_and_every_repeated_action_is_named() {
    for order in looped_orders(2, 2, 3) {
        for (rank, row) in order.rows.iter().enumerate() {
            for (step, &action) in row.iter().enumerate() {
                let mut dropped = order.clone();
                dropped.rows[rank].remove(step);
                let missing = CsvError { site: CsvSite::RowEnd(rank + 1), rule: CsvRule::Missing(action) };
                assert_eq!(ComputeOrder::from_csv(&dropped.to_csv()), Err(missing));
                let mut doubled = order.clone();
                doubled.rows[rank].push(action);
                let place = CsvPlace { row: rank + 1, column: row.len() + 1 };
                let first = CsvPlace { row: rank + 1, column: step + 1 };
                let repeated = CsvError::at(place, action, CsvRule::Repeated { first });
                assert_eq!(ComputeOrder::from_csv(&doubled.to_csv()), Err(repeated));
            }
        }
    }
}

#[test]
fn a_claimed_size_costs_nothing() {
    // As many stages and micro-batches as actions allow, and nearly all of them missing.
    let wide: Vec<_> = (0..3000).map(|of| format!("{of}F{of}")).collect();
    let error = ComputeOrder::from_csv(&wide.join(",")).unwrap_err();
    assert_eq!(error.rule, CsvRule::Missing(action("0F1")));
}

proptest! {
    /// Whatever is read is written back as it stands, and nothing panics.
    #[test]
    fn any_text_is_read_exactly_or_refused(text in "([0-3][FBIWX][0-3]?|,|\n|\r\n| |é|\\(){0,24}") {
        if let Ok(order) = ComputeOrder::from_csv(&text) {
            let cells = |text: &str| -> Vec<String> {
                let cells = text.split([',', '\n', '\r']).map(str::trim).filter(|cell| !cell.is_empty());
                cells.map(ToString::to_string).collect()
            };
            prop_assert_eq!(cells(&order.to_csv()), cells(&text));
            prop_assert_eq!(ComputeOrder::from_csv(&order.to_csv()), Ok(order));
        }
    }
}
