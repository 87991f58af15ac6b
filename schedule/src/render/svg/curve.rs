//! Memory in use as areas on top of each other.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::layout::{Layout, hundredths};
use crate::simulate::{MemoryBytes, MemoryCategory, MemoryCurve};

/// Steps that are closer, in hundredths of a pixel, are drawn as one: the highest of them.
const CELL: u64 = 50;

/// An outline for each category that is held at some time, the lowest first; `most` bytes fill the height.
pub(super) fn areas(
    curve: &MemoryCurve,
    layout: &Layout,
    top: u64,
    height: u64,
    most: u64,
) -> Vec<(MemoryCategory, String)> {
    let steps = steps(curve, layout);
    let bottom = top + height;
    let level = |held: MemoryBytes, num_categories: usize| {
        let categories = &MemoryCategory::ALL[..num_categories];
        let sum: u128 = categories.iter().map(|&category| u128::from(held[category])).sum();
        bottom - (sum * u128::from(height) / u128::from(most.max(1))) as u64
    };
    let end = hundredths(layout.left + layout.width);
    let held = MemoryCategory::ALL.into_iter().enumerate();
    held.filter(|&(_, category)| curve.peak_of_each()[category] > 0)
        .map(|(below, category)| {
            let above = corners(&steps, |held| level(held, below + 1));
            let mut path = format!("M{} {}", hundredths(layout.left), hundredths(above[0].1));
            for &(x, y) in &above[1..] {
                path.push_str(&format!("H{}V{}", hundredths(x), hundredths(y)));
            }
            path.push_str(&format!("H{end}"));
            // Back along the top of what is below.
            for (index, (x, y)) in corners(&steps, |held| level(held, below)).into_iter().enumerate().rev() {
                let left = if index == 0 { layout.left } else { x };
                path.push_str(&format!("V{}H{}", hundredths(y), hundredths(left)));
            }
            path.push('Z');
            (category, path)
        })
        .collect()
}

/// Where an outline changes its height: the steps of one category are level in all others.
fn corners(steps: &[(u64, MemoryBytes)], level: impl Fn(MemoryBytes) -> u64) -> Vec<(u64, u64)> {
    let mut corners: Vec<(u64, u64)> = steps.iter().map(|&(x, held)| (x, level(held))).collect();
    corners.dedup_by_key(|&mut (_, y)| y);
    corners
}

/// What is held from which place on, ascending by place; the first from the left edge on.
fn steps(curve: &MemoryCurve, layout: &Layout) -> Vec<(u64, MemoryBytes)> {
    let mut steps: Vec<(u64, MemoryBytes)> = Vec::new();
    // What is held now, which the next cell begins with.
    let mut now = None;
    for &(time, held) in curve.points() {
        let cell = (layout.x(time) - layout.left) / CELL;
        let x = layout.left + cell * CELL;
        match steps.last_mut() {
            Some((last, highest)) if *last == x => {
                if held.total() > highest.total() {
                    *highest = held;
                }
            }
            last => {
                // The cell before may show more than was held at its end.
                if let (Some((before, shown)), Some(now)) = (last, now)
                    && *shown != now
                    && *before + CELL < x
                {
                    let after = *before + CELL;
                    steps.push((after, now));
                }
                // A cell that something begins in shows what was held at its beginning or then, whichever is more.
                let shown = now.filter(|now: &MemoryBytes| now.total() > held.total()).unwrap_or(held);
                steps.push((x, shown));
            }
        }
        now = Some(held);
    }
    if let (Some(&(last, shown)), Some(now)) = (steps.last(), now)
        && shown != now
        && last + CELL < layout.left + layout.width
    {
        steps.push((last + CELL, now));
    }
    steps
}
