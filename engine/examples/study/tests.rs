//! The page against the program, and the program's figures against formulas that it does not use.

use crate::case::{DATA_DEGREES, HIDDEN, LAYERS, MICRO_BATCHES, Placed, SEQ_LENGTH, STAGE_LAYERS};
use crate::outcome;
use crate::pictures::{self, Picture};
use crate::tables::{self, GridRows};
use crate::tensor_parallel::tensor_parallel;
use crate::threshold::{Phase, Rates};
use crate::{grids, page, variant};

#[test]
fn the_page_has_these_tables() {
    let page = std::fs::read_to_string(page::folder().join("simulator.md")).unwrap();
    let tables = tables::all(&grids().unwrap()).unwrap();
    let expected = page::with_tables(&page, &tables).unwrap();
    let differs = page.lines().zip(expected.lines()).find(|(found, expected)| found != expected);
    assert_eq!(
        page, expected,
        "first: {differs:?}; write them with `-- --write`, and read what the page says of them"
    );
}

#[test]
fn the_pictures_are_these_and_small() {
    let pictures = pictures::all().unwrap();
    assert_eq!(pictures.len(), 4);
    for Picture { path, svg } in pictures {
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(kept == svg, "{} is another picture; write it with `-- --write`", path.display());
        assert!(svg.len() < 150 << 10, "{} has {} bytes", path.display(), svg.len());
    }
}

/// A transformer layer of GPT-2 has `12 h^2 + 13 h` parameters; embedding and positions come before the first, a norm and
/// the head after the last.
#[test]
fn the_model_is_as_large_as_the_formula_says() {
    let (hidden, vocab) = (HIDDEN as u64, 50_432);
    let layers = LAYERS as u64 * (12 * hidden * hidden + 13 * hidden);
    let ends = vocab * hidden + SEQ_LENGTH as u64 * hidden + 2 * hidden + vocab * hidden;
    for data in DATA_DEGREES {
        let plan = outcome::plan(&variant::ZERO_1, data).unwrap();
        assert_eq!(plan.num_parameters(), layers + ends);
    }
}

/// Strict ZeRO-3 gathers `2 m` times and reduces `m` times the first stage's parameters, of which a rank sends all but its
/// own part: `b (d - 1) / d`. Padding is the tolerance: less than `16 d` elements a unit.
#[test]
fn strict_traffic_is_the_closed_form() {
    let hidden = HIDDEN as f64;
    let stage = STAGE_LAYERS as f64 * (12.0 * hidden * hidden + 13.0 * hidden)
        + (50_432.0 + SEQ_LENGTH as f64) * hidden;
    for data in DATA_DEGREES {
        let sent = outcome::needs(&outcome::plan(&variant::STRICT, data).unwrap()).sent;
        let part = (data - 1) as f64 / data as f64;
        let gathered = 2.0 * MICRO_BATCHES as f64 * 2.0 * part * stage;
        let reduced = MICRO_BATCHES as f64 * 4.0 * part * stage;
        for (found, expected) in [(sent.all_gather, gathered), (sent.reduce_scatter, reduced)] {
            assert!((found.bytes as f64 / expected - 1.0).abs() < 1e-6, "{found:?} for {expected}");
        }
    }
}

#[test]
fn the_simulator_finds_the_thresholds_of_the_formulas() {
    for gb_per_s in [450, 361, 97, 45, 13] {
        for data_degree in [2, 3, 8, 64] {
            let rates = Rates { data_degree, gflops_per_s: 494_700, gb_per_s };
            // ceil((d - 1) F n / (d W k)) for n / k of the forward's.
            let at = |n: u64, k: u64| ((data_degree - 1) * 494_700 * n).div_ceil(data_degree * gb_per_s * k);
            assert_eq!(rates.simulated(Phase::Forward).unwrap(), at(1, 1), "{rates:?}");
            assert_eq!(rates.simulated(Phase::Backward).unwrap(), at(3, 2), "{rates:?}");
            assert_eq!(rates.simulated(Phase::Mixed).unwrap(), at(3, 2), "{rates:?}");
            assert_eq!(rates.simulated(Phase::Recomputed).unwrap(), at(1, 1), "{rates:?}");
        }
    }
}

#[test]
fn shares_of_a_step_add_up_to_all_of_it() {
    for data in DATA_DEGREES {
        let plan = outcome::plan(&variant::UNITS_OF_ONE, data).unwrap();
        for placed in Placed::ALL {
            let timing = outcome::timing(&outcome::step(&plan, placed).unwrap());
            let [dependency, .., handling, tail] = timing.idle;
            let all = timing.busy + timing.exposed() + dependency + handling + tail;
            // Twenty roundings of a double.
            assert!((all - 1.0).abs() < 1e-14, "{timing:?}");
        }
    }
}

/// 16 micro-batches, 12 layers, 4 all-reduces of 2048 x 6144 elements in bf16, of which 2 (t - 1) / t = 1 times are sent.
#[test]
fn two_tensor_parts_send_what_four_all_reduces_of_a_layer_do() {
    let plan = outcome::plan(&variant::ZERO_1, 2).unwrap();
    let step = outcome::step(&plan, Placed::Apart).unwrap();
    let sent = tensor_parallel(&plan, &step, Placed::Apart).sent_bytes;
    let elements: u64 = 16 * 12 * 4 * 2048 * 6144;
    assert_eq!(sent, (2 * elements) as f64);
}

/// What the page concludes, held to the figures: a change of a cost model names the sentences to read again.
#[test]
fn the_conclusions_hold() {
    let [two, eight] = DATA_DEGREES.map(|data| GridRows::new(data).unwrap());
    let peak = |grid: &GridRows, name: &str| grid.row(name).needs.memory.peak;
    let step = |grid: &GridRows, name: &str, placed: usize| grid.row(name).timings[placed].step_s;
    let (zero_1, strict) = (variant::ZERO_1.name, variant::STRICT.name);
    let (ahead, ones) = (variant::PREFETCH.name, variant::UNITS_OF_ONE.name);
    // Units of 4, one prefetched, hold more than no sharding on 2 data ranks and less on 8; units of 1 hold less on both.
    assert!(peak(&two, ahead) > peak(&two, zero_1) && peak(&eight, ahead) < peak(&eight, zero_1));
    // In strict turns they save a fiftieth on 2.
    assert!(peak(&two, strict) < peak(&two, zero_1) && peak(&two, strict) > peak(&two, zero_1) / 100 * 97);
    assert!(peak(&two, ones) < peak(&two, zero_1) && peak(&eight, ones) < peak(&eight, zero_1));
    for grid in [&two, &eight] {
        // Level has the same peak and a shorter step, by a tenth over far links.
        let level = variant::LEVEL.name;
        assert_eq!(peak(grid, level), peak(grid, ones));
        assert!(step(grid, level, 0) < 0.99 * step(grid, ones, 0));
        assert!(step(grid, level, 1) < 0.91 * step(grid, ones, 1));
        // Within a node one unit of prefetch hides what strict gathers expose.
        assert!(grid.row(strict).timings[0].exposed() > 0.05 && grid.row(ahead).timings[0].exposed() < 0.005);
        // Far it cannot.
        assert!(grid.row(ahead).timings[1].exposed() > 0.3);
        assert!(step(grid, ahead, 1) > 2.0 * step(grid, zero_1, 1));
        // Without a pipeline far links cost more still.
        assert!(step(grid, variant::WITHOUT_PIPELINE.name, 1) > 3.0 * step(grid, zero_1, 1));
    }
}
