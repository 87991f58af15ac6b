//! A step as a picture: what each rank does when, and the memory that it takes, as SVG.
//!
//! Each rank has a row for its compute lane, thin ones for its gathers, its reductions and the messages it sends and
//! receives, and below them the memory in use by category. What has no colour is the bubble. Colours are the eight of
//! Okabe and Ito (and Tol's light ones for memory), which people who see fewer colours can distinguish; every bar has
//! a title, which screen readers read and pointers show.
//!
//! Positions are whole hundredths of a pixel, so a timeline gives the same picture everywhere. A bar that is thinner than
//! half a pixel is drawn together with its neighbours, and the picture says how many are: a step of 64 ranks and tens of
//! thousands of instructions stays a file that a browser opens. It is written without a plotting crate: those give each
//! task of a Gantt chart a line of its own, where a lane has thousands, and `schedule` has no dependency.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::scale::bytes;
use crate::id::PipelineRank;
use crate::instruction::Activity;
use crate::simulate::{MemoryCategory, MemoryCurve};

mod bars;
mod curve;
mod element;
mod gantt;
mod layout;
mod palette;
mod row;

use bars::Bar;
use element::{Shape, escaped, rectangle, text};
pub use gantt::{Gantt, Shown};
use layout::{Layout, hundredths};
use row::Row;

/// Bars of this width, in hundredths of a pixel, have an edge.
const EDGED_MIN: u64 = 400;

/// Hundredths of a pixel from one time that is written to the next, at least.
const TICK_DISTANCE: u64 = 8750;

/// How much of its colour the last stage of a rank lacks, in hundredths.
const PALE_MAX: u64 = 55;

/// A timeline as SVG: a whole document on white, 1200 pixels wide, or wider where computes of many micro-batches would have no space for
/// their numbers.
///
/// # Panics
/// If the timeline or a memory curve is not of the program.
pub fn svg(gantt: &Gantt<'_>) -> String {
    let rows = Row::used_by(gantt);
    let makespan = gantt.timeline.makespan();
    let width = layout::width(bars::narrowest_labelled(gantt), makespan);
    let layout = Layout::new(gantt.program.num_ranks(), &rows, !gantt.memory.is_empty(), makespan, width);
    let mut body = String::new();
    push_axis(&mut body, gantt, &layout);
    let mut drawing =
        Drawing { gantt, layout: &layout, rows: &rows, body, activities: Vec::new(), num_together: 0 };
    for rank in gantt.program.ranks() {
        drawing.push_rank(rank);
    }
    let Drawing { mut body, activities, num_together, .. } = drawing;
    push_legend(&mut body, gantt, &activities);
    if num_together > 0 {
        let note = format!(
            "{num_together} instructions thinner than half a pixel are drawn together with their neighbours"
        );
        body.push_str(&text(layout.left, layout.height - 800, "note", &note));
    }
    document(gantt, &layout, &rows, &body)
}

/// A picture while ranks are added to it.
struct Drawing<'a> {
    gantt: &'a Gantt<'a>,
    layout: &'a Layout,
    rows: &'a [Row],
    body: String,
    /// What the bars show, for the legend.
    activities: Vec<Activity>,
    num_together: usize,
}

impl Drawing<'_> {
    fn push_rank(&mut self, rank: PipelineRank) {
        let top = self.layout.rank_top(rank.index());
        let label = format!("rank {}", rank.0);
        let middle = top + self.layout.row_height(Row::Compute) / 2 + 400;
        self.body.push_str(&text(1000, middle, "rank", &label));
        for (number, &row) in self.rows.iter().enumerate() {
            let (y, height) = (top + self.layout.row_offset(number), self.layout.row_height(row));
            self.body.push_str(&rectangle([self.layout.left, y, self.layout.width, height], "idle"));
            if row != Row::Compute && !self.layout.is_small {
                self.body.push_str(&text(6000, y + height, "row", row.name()));
            }
            let (bars, num_together) = bars::bars(self.gantt, self.layout, rank, row);
            self.num_together += num_together;
            for bar in &bars {
                self.push_bar(bar, y, height);
            }
        }
        if let Some(curve) = self.gantt.memory.get(rank.index()) {
            self.push_memory(curve, top + self.layout.memory_offset());
        }
    }

    fn push_bar(&mut self, bar: &Bar, y: u64, height: u64) {
        if !self.activities.contains(&bar.activity) {
            self.activities.push(bar.activity);
        }
        let mut shape = Shape::new("rect");
        if bar.to - bar.from >= EDGED_MIN {
            // An edge, so that neighbours of one colour can be distinguished.
            shape = shape.with("stroke", "#fff").with("stroke-width", "0.6");
        }
        if bar.paleness > 0 {
            shape = shape.with("fill-opacity", hundredths(100 - bar.paleness * PALE_MAX / 100));
        }
        let area = [bar.from, y, bar.to - bar.from, height];
        let shape = shape.with("class", palette::class(bar.activity)).at(area);
        self.body.push_str(&shape.titled(&bar.title));
        if let Some(label) = &bar.label
            && layout::label_width(label.len()) <= bar.to - bar.from
        {
            let middle = (bar.from + bar.to) / 2;
            // Light text is for full colours.
            let class = if bar.paleness > 50 { "label" } else { palette::label_class(bar.activity) };
            self.body.push_str(&text(middle, y + height / 2 + 350, class, label));
        }
    }

    fn push_memory(&mut self, curve: &MemoryCurve, top: u64) {
        let most = self.gantt.memory.iter().map(|curve| curve.peak().1.total()).max().unwrap_or(0);
        let height = self.layout.memory_height();
        for (category, path) in curve::areas(curve, self.layout, top, height, most) {
            let peak = bytes(curve.peak_of_each()[category]);
            let title = format!("{}: at most {peak}", category.name());
            let class = palette::memory_class(category);
            self.body.push_str(&Shape::new("path").with("class", class).with("d", path).titled(&title));
        }
        let (at, held) = curve.peak();
        let label = format!("{} at {}", bytes(held.total()), self.gantt.scale.format(at));
        self.body.push_str(&text(1000, top + height, "row", &label));
    }
}

/// Ticks with their times, and lines down through all ranks.
fn push_axis(body: &mut String, gantt: &Gantt<'_>, layout: &Layout) {
    for tick in gantt.scale.ticks(gantt.timeline.makespan(), layout.width / TICK_DISTANCE) {
        let (x, top, bottom) = (layout.x(tick), layout.top - 400, layout.bottom());
        let line = format!("M{} {}V{}", hundredths(x), hundredths(top), hundredths(bottom));
        body.push_str(&Shape::new("path").with("class", "tick").with("d", line).element());
        body.push_str(&text(x, layout.top - 700, "time", &gantt.scale.format(tick)));
    }
}

/// A box and a name for each colour that occurs, in the order of all, then idle time, then memory.
fn push_legend(body: &mut String, gantt: &Gantt<'_>, activities: &[Activity]) {
    let shown = Activity::ALL.into_iter().filter(|activity| activities.contains(activity));
    let mut entries: Vec<_> = shown.map(|activity| (palette::class(activity), activity.name())).collect();
    entries.push(("idle", "idle"));
    if gantt.program.placement().num_stages() > gantt.program.num_ranks() {
        entries.push(("paper", "paler: a later stage of the rank"));
    }
    push_legend_line(body, 4000, &entries);
    if !gantt.memory.is_empty() {
        let is_held =
            |category: &MemoryCategory| gantt.memory.iter().any(|curve| curve.peak_of_each()[*category] > 0);
        let held = MemoryCategory::ALL.into_iter().filter(is_held);
        let entries: Vec<_> =
            held.map(|category| (palette::memory_class(category), category.name())).collect();
        push_legend_line(body, 5800, &entries);
    }
}

fn push_legend_line(body: &mut String, y: u64, entries: &[(&'static str, &'static str)]) {
    let mut x = 1000;
    for (class, name) in entries {
        body.push_str(&rectangle([x, y, 1000, 1000], class));
        body.push_str(&text(x + 1400, y + 900, "legend", name));
        x += 2800 + 620 * name.len() as u64;
    }
}

/// What a picture with such rows shows, in a sentence.
fn description(gantt: &Gantt<'_>, rows: &[Row]) -> String {
    let verbs: Vec<String> = rows.iter().map(|row| format!("{}s", row.name())).collect();
    let done = match verbs.as_slice() {
        [] => String::from("nothing that takes time"),
        [one] => format!("what each {one}"),
        [others @ .., last] => format!("what each {} and {last}", others.join(", ")),
    };
    let held = if gantt.memory.is_empty() { "" } else { ", and the memory that it holds" };
    let ends = gantt.scale.format(gantt.timeline.makespan());
    let num_ranks = gantt.program.num_ranks();
    let ranks = if num_ranks == 1 { "rank" } else { "ranks" };
    format!("{num_ranks} {ranks} over {ends}: {done}{held}")
}

fn document(gantt: &Gantt<'_>, layout: &Layout, rows: &[Row], body: &str) -> String {
    let [width, height] = [layout.left + layout.width + 2000, layout.height].map(hundredths);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         role=\"img\" aria-labelledby=\"title description\">\n<title id=\"title\">{title}</title>\n\
         <desc id=\"description\">{description}</desc>\n<style>{style}</style>\n\
         <rect class=\"paper\" width=\"{width}\" height=\"{height}\"/>\n{heading}{body}</svg>\n",
        title = escaped(gantt.title),
        description = escaped(&description(gantt, rows)),
        style = palette::STYLE,
        heading = text(1000, 2400, "heading", gantt.title),
    )
}

#[cfg(test)]
mod tests;
