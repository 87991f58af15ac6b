//! Pictures, parsed back: well-formed, complete, and in proportion.

use std::collections::BTreeMap;
use std::format;
use std::string::String;
use std::vec::Vec;

use roxmltree::{Document, Node};

use super::{Bar, Gantt, Shown, svg};
use crate::check::CheckedProgram;
use crate::generate::{interleaved, one_f_one_b};
use crate::id::PipelineRank;
use crate::instruction::Lane;
use crate::options::{LowerOptions, Residency};
use crate::render::TimeScale;
use crate::simulate::{
    Costs, MemoryCategory, MemoryCosts, MemoryCurve, MessageCost, Timeline, UnitCosts, UnitMemory, memory,
    simulate,
};
use crate::testing::{checked, generated_programs, uneven_costs};

/// A picture of the whole step, without a title.
fn gantt<'a>(program: &'a CheckedProgram, timeline: &'a Timeline, memory: &'a [MemoryCurve]) -> Gantt<'a> {
    Gantt { title: "", program, timeline, memory, scale: TimeScale::parts(1), shown: Shown::WholeStep }
}

fn picture(program: &CheckedProgram, timeline: &Timeline, memory: &[MemoryCurve]) -> String {
    svg(&gantt(program, timeline, memory))
}

fn curves(program: &CheckedProgram, timeline: &Timeline) -> Vec<MemoryCurve> {
    let unit = UnitMemory { saved_bytes: 300, weight_input_bytes: 100, gradient_bytes: 200 };
    let mut costs = MemoryCosts::uniform(program, unit, 50);
    for fixed in &mut costs.fixed {
        fixed[MemoryCategory::Parameters] = 400;
    }
    memory(program, timeline, &costs).unwrap()
}

fn parsed(text: &str) -> Document<'_> {
    Document::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn number(node: Node<'_, '_>, attribute: &str) -> f64 {
    node.attribute(attribute).unwrap().parse().unwrap()
}

fn of_class<'a>(document: &'a Document<'a>, class: &str) -> Vec<Node<'a, 'a>> {
    document.descendants().filter(|node| node.attribute("class") == Some(class)).collect()
}

#[test]
fn every_picture_is_well_formed_and_says_what_it_shows() {
    let mut num_bars = 0;
    for (seed, program) in generated_programs().into_iter().enumerate().step_by(3) {
        let timeline = simulate(&program, &uneven_costs(&program, seed as u64)).unwrap();
        for memory in [Vec::new(), curves(&program, &timeline)] {
            let text = picture(&program, &timeline, &memory);
            let document = parsed(&text);
            let root = document.root_element();
            assert_eq!(root.attribute("role"), Some("img"));
            let ids: Vec<_> = root.children().filter_map(|of| of.attribute("id")).collect();
            assert_eq!(ids.join(" "), root.attribute("aria-labelledby").unwrap());
            let (width, height) = (number(root, "width"), number(root, "height"));
            for node in document.descendants().filter(|node| node.has_tag_name("rect")) {
                let edge = |at: &str, size: &str| {
                    node.attribute(at).map_or(0.0, |at| at.parse().unwrap()) + number(node, size)
                };
                assert!(edge("x", "width") <= width && edge("y", "height") <= height);
                let class = node.attribute("class").unwrap();
                let is_bar = node.has_children();
                let tells = node.first_element_child().and_then(|title| title.text());
                assert!(
                    !is_bar || tells.is_some_and(|text| text.contains(" to ")),
                    "{class} without a title"
                );
                num_bars += usize::from(is_bar);
            }
            assert_eq!(of_class(&document, "rank").len(), program.num_ranks());
        }
    }
    assert!(num_bars > 5_000, "{num_bars}");
}

/// On each compute row as much is bare as the rank idles, to a hundredth of a pixel for each edge.
#[test]
fn bars_are_as_wide_as_their_time() {
    let computes = ["forward", "backward", "input", "weight", "recompute", "optimizer"];
    for (seed, program) in generated_programs().into_iter().enumerate().step_by(11) {
        let timeline = simulate(&program, &uneven_costs(&program, seed as u64)).unwrap();
        let text = picture(&program, &timeline, &[]);
        let document = parsed(&text);
        let bars = computes.iter().flat_map(|&of| of_class(&document, of));
        let mut drawn: BTreeMap<u64, (f64, usize)> = BTreeMap::new();
        for bar in bars.filter(|bar| bar.has_children()) {
            // A rank is where its row is.
            let (sum, edges) = drawn.entry((100.0 * number(bar, "y")) as u64).or_default();
            (*sum, *edges) = (*sum + number(bar, "width"), *edges + 2);
        }
        assert_eq!(drawn.len(), program.num_ranks());
        for (rank, (sum, edges)) in program.ranks().zip(drawn.into_values()) {
            let busy = timeline.busy(&program, rank) as f64;
            // Beside the names and the right margin.
            let width = number(document.root_element(), "width") - 150.0;
            let expected = width * busy / timeline.makespan() as f64;
            assert!((sum - expected).abs() <= 0.01 * edges as f64, "{sum} for {expected}");
        }
    }
}

#[test]
fn numbers_stand_in_the_bars_that_are_wide_enough() {
    let program = checked(&one_f_one_b(2, 12).unwrap(), 3, &LowerOptions::ZERO_1);
    let costs = Costs::uniform(&program, UnitCosts::of_compute(10, 10, 10), MessageCost::of_link(2, 1));
    let timeline = simulate(&program, &costs).unwrap();
    let text = picture(&program, &timeline, &[]);
    let document = parsed(&text);
    let mut labels: Vec<u32> =
        of_class(&document, "label").iter().map(|of| of.text().unwrap().parse().unwrap()).collect();
    labels.sort_unstable();
    // The units of a stage are one forward and one backward, on two ranks.
    let expected: Vec<u32> = (0..12).flat_map(|micro_batch| [micro_batch; 4]).collect();
    assert_eq!(labels, expected);
}

/// The outline of the topmost category is the sum of all.
#[test]
fn areas_are_as_high_as_what_is_held() {
    let options = LowerOptions::zero_3(Residency::Strict, 1);
    let program = checked(&one_f_one_b(2, 3).unwrap(), 2, &options);
    let timeline = simulate(&program, &uneven_costs(&program, 5)).unwrap();
    let memory = curves(&program, &timeline);
    let text = picture(&program, &timeline, &memory);
    let document = parsed(&text);
    let paths: Vec<&str> =
        of_class(&document, "communication").iter().filter_map(|of| of.attribute("d")).collect();
    assert_eq!(paths.len(), 2);
    let most = memory.iter().map(|curve| curve.peak().1.total()).max().unwrap() as f64;
    let bottoms = of_class(&document, "parameters").into_iter().filter_map(|of| of.attribute("d"));
    let mut num_points = 0;
    for ((curve, path), base) in memory.iter().zip(paths).zip(bottoms) {
        let bottom = corners(base).into_iter().map(|(_, y)| y).reduce(f64::max).unwrap();
        let mut outline = corners(path);
        // From the right edge on it goes back along what is below.
        outline.truncate(outline.iter().position(|(x, _)| *x >= 1180.0).unwrap());
        for &(time, held) in curve.points().iter().filter(|(time, _)| *time < timeline.makespan()) {
            let x = 130.0 + 1050.0 * time as f64 / timeline.makespan() as f64;
            let expected = bottom - 40.0 * held.total() as f64 / most;
            // A step down is drawn up to a cell of half a pixel late.
            let is_drawn = [x, x + 0.5].into_iter().any(|x| {
                let (_, y) = outline.iter().rev().find(|(from, _)| *from <= x + 0.001).unwrap();
                (y - expected).abs() <= 0.011
            });
            assert!(is_drawn, "{expected} at {time}");
            num_points += 1;
        }
    }
    assert!(num_points > 30, "{num_points}");
}

/// The corners of a path of absolute moves, horizontal and vertical lines.
fn corners(path: &str) -> Vec<(f64, f64)> {
    let mut corners: Vec<(f64, f64)> = Vec::new();
    let mut rest = path;
    while let Some(command) = rest.chars().next().filter(|command| *command != 'Z') {
        let end = rest[1..].find(|c: char| c.is_ascii_alphabetic()).map_or(rest.len(), |end| end + 1);
        let numbers: Vec<f64> = rest[1..end].split(' ').map(|number| number.parse().unwrap()).collect();
        let at = corners.last().copied().unwrap_or_default();
        corners.push(match (command, &numbers[..]) {
            ('M', &[x, y]) => (x, y),
            ('H', &[x]) => (x, at.1),
            ('V', &[y]) => (at.0, y),
            _ => panic!("{path}"),
        });
        rest = &rest[end..];
    }
    corners
}

#[test]
fn a_step_of_64_ranks_stays_small() {
    let options = LowerOptions::zero_3(Residency::Strict, 1);
    let program = checked(&one_f_one_b(64, 64).unwrap(), 1, &options);
    let (gather, reduce) = (MessageCost::of_link(7, 1), MessageCost::of_link(9, 1));
    let unit = UnitCosts { gather, reduce, ..UnitCosts::of_compute(10, 10, 10) };
    let timeline = simulate(&program, &Costs::uniform(&program, unit, MessageCost::of_link(3, 2))).unwrap();
    let text = picture(&program, &timeline, &curves(&program, &timeline));
    assert!(program.program().rows.iter().map(Vec::len).sum::<usize>() > 40_000);
    assert!(text.len() < 12 << 20, "{}", text.len());
    let document = parsed(&text);
    assert_eq!(of_class(&document, "rank").len(), 64);
    assert!(number(document.root_element(), "height") < 5000.0);
}

/// The number of instructions that bars stand for is that of the row, however many are drawn together.
#[test]
fn nothing_is_lost_where_bars_are_thin() {
    // A gap between any two, so that no unit continues another.
    let step = |num_micro_batches: u32| {
        let program = checked(&one_f_one_b(2, num_micro_batches).unwrap(), 2, &LowerOptions::ZERO_1);
        let mut costs = Costs::uniform(&program, UnitCosts::of_compute(1, 1, 1), MessageCost::of_link(1, 0));
        costs.edges.fill(MessageCost { issue: 1, occupied: 1, latency: 0, landing: 1 });
        let timeline = simulate(&program, &costs).unwrap();
        (program, timeline)
    };
    let (program, timeline) = step(900);
    let of_step = gantt(&program, &timeline, &[]);
    let rows = super::row::Row::used_by(&of_step);
    let layout = super::Layout::new(2, &rows, false, timeline.makespan(), 105_000);
    for rank in [0, 1].map(PipelineRank) {
        let row = program.row(rank).iter().zip(timeline.row(rank));
        let shown = row.filter(|(of, span)| of.lane() == Lane::Compute && span.end > span.start);
        let (bars, num_together) = super::bars::bars(&of_step, &layout, rank, super::row::Row::Compute);
        let stands_for =
            |bar: &Bar| bar.title.split_once(" instructions").map(|(of, _)| of.parse::<usize>().unwrap());
        assert_eq!(bars.iter().filter_map(stands_for).sum::<usize>(), num_together);
        let num_alone = bars.iter().filter(|bar| stands_for(bar).is_none()).count();
        assert_eq!(num_together + num_alone, shown.count());
        assert!(num_together > 3000 && num_alone < 10, "{num_together} and {num_alone}");
        let thin: Vec<_> = bars.iter().filter(|bar| stands_for(bar).is_some()).collect();
        assert!(thin.is_sorted_by(|a, b| a.from + 50 <= b.from), "one for each half of a pixel at most");
    }
    // Even the widest picture has not half a pixel for each of these.
    let (program, timeline) = step(9000);
    let text = picture(&program, &timeline, &[]);
    assert!(text.contains("instructions thinner than half a pixel are drawn together"));
}

#[test]
fn any_title_is_text() {
    let program = checked(&one_f_one_b(1, 1).unwrap(), 1, &LowerOptions::ZERO_0);
    let timeline = simulate(&program, &uneven_costs(&program, 1)).unwrap();
    let title = "<script>\"1\" && 'two'</script> ]]> für 模型";
    let text = svg(&Gantt { title: &format!("{title}\u{1}\u{ffff}"), ..gantt(&program, &timeline, &[]) });
    let document = parsed(&text);
    assert_eq!(of_class(&document, "heading")[0].text().unwrap(), format!("{title}\u{fffd}\u{fffd}"));
}

#[test]
fn a_step_that_takes_no_time_is_a_picture_too() {
    let program = checked(&one_f_one_b(2, 2).unwrap(), 1, &LowerOptions::ZERO_1);
    let costs = Costs::uniform(&program, UnitCosts::default(), MessageCost::default());
    let timeline = simulate(&program, &costs).unwrap();
    let text = picture(&program, &timeline, &curves(&program, &timeline));
    assert!(parsed(&text).descendants().all(|of| !of.has_tag_name("rect") || !of.has_children()));
}

/// Of a schedule without a model only micro-batches are drawn; the stages of a rank differ in paleness.
#[test]
fn later_stages_are_paler_and_the_end_of_the_step_is_left_out() {
    let program = checked(&interleaved(2, 3, 2, 2).unwrap(), 1, &LowerOptions::ZERO_1);
    let timeline = simulate(&program, &uneven_costs(&program, 1)).unwrap();
    let whole = picture(&program, &timeline, &[]);
    let alone = svg(&Gantt { shown: Shown::MicroBatches, ..gantt(&program, &timeline, &[]) });
    let (whole, alone) = (parsed(&whole), parsed(&alone));
    for of_the_end in ["optimizer", "meeting", "reduce", "gather"] {
        assert!(!of_class(&whole, of_the_end).is_empty(), "{of_the_end}");
        assert!(of_class(&alone, of_the_end).is_empty(), "{of_the_end}");
    }
    let opacities = |document: &Document<'_>| {
        let bars = of_class(document, "forward").into_iter().filter(|bar| bar.has_children());
        let count = |opacity| bars.clone().filter(|bar| bar.attribute("fill-opacity") == opacity).count();
        [None, Some("0.73"), Some("0.45")].map(count)
    };
    // Two micro-batches on two ranks, of each of three stages.
    assert_eq!((opacities(&whole), opacities(&alone)), ([4; 3], [4; 3]));
}

/// The description for readers who cannot see the picture has all that is drawn, and nothing else.
#[test]
fn a_description_is_of_what_is_drawn() {
    let described = |ranks: u32, options: &LowerOptions, shown: Shown, has_memory: bool| {
        let program = checked(&one_f_one_b(ranks, 2).unwrap(), 1, options);
        let timeline = simulate(&program, &uneven_costs(&program, 1)).unwrap();
        let memory = if has_memory { curves(&program, &timeline) } else { Vec::new() };
        let text = svg(&Gantt { shown, ..gantt(&program, &timeline, &memory) });
        let document = parsed(&text);
        let found = document.descendants().find(|node| node.has_tag_name("desc")).unwrap();
        let (ranks, said) = found.text().unwrap().split_once(" over ").unwrap();
        format!("{ranks}: {}", said.split_once(": ").unwrap().1)
    };
    let whole = "computes, gathers, reduces, sends and receives, and the memory that it holds";
    for (ranks, options, shown, has_memory, expected) in [
        (2, LowerOptions::ZERO_1, Shown::WholeStep, true, whole),
        (2, LowerOptions::ZERO_0, Shown::MicroBatches, false, "computes, sends and receives"),
        (1, LowerOptions::ZERO_0, Shown::MicroBatches, false, "computes"),
    ] {
        let num_ranks = if ranks == 1 { "1 rank" } else { "2 ranks" };
        let expected = format!("{num_ranks}: what each {expected}");
        assert_eq!(described(ranks, &options, shown, has_memory), expected);
    }
}

/// Twice the micro-batches need twice the width, and more where their numbers have more digits, up to what browsers open; few of them fit the usual width.
#[test]
fn a_picture_is_as_wide_as_its_numbers_need() {
    let width = |num_micro_batches: u32| {
        let order = one_f_one_b(4, num_micro_batches).unwrap();
        let program = checked(&order, 1, &LowerOptions::ZERO_1);
        let costs = Costs::uniform(&program, UnitCosts::of_compute(20, 30, 20), MessageCost::of_link(2, 1));
        let timeline = simulate(&program, &costs).unwrap();
        let text = picture(&program, &timeline, &[]);
        let document = parsed(&text);
        let labels = document
            .descendants()
            .filter(|node| node.attribute("class").is_some_and(|class| class.starts_with("label")));
        // Two numbers for each stage and micro-batch, and one in ten may be too wide for its bar.
        let (num_labels, num_bars) = (labels.count(), 2 * 4 * num_micro_batches as usize);
        let width = number(document.root_element(), "width");
        assert!(width >= 20_000.0 || 10 * num_labels >= 9 * num_bars, "{num_labels} of {num_bars}");
        width
    };
    assert_eq!(width(4), 1200.0);
    let (some, twice, many) = (width(100), width(200), width(4000));
    assert!(some > 1200.0 && (1.5..4.5).contains(&(twice / some)), "{some} {twice}");
    assert_eq!(many, 20_150.0);
}
