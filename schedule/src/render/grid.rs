//! Grids: a line per rank, a column per unit of time.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use super::timing::{columns, start_columns};
use crate::check::CheckedProgram;
use crate::dataflow::does_nothing;
use crate::id::PipelineRank;
use crate::instruction::{Instruction, Lane};
use crate::order::{ComputeKind, ComputeOrder, StageAction};
use crate::placement::Placement;

/// A compute order as a grid, at most `max_width` characters wide: what does not fit is left out of the middle.
///
/// A forward, `I` and `W` take one column, a full backward two, messages none. `F0` is the forward of micro-batch 0,
/// with its stage before it (`2F0`) where ranks hold several. An action that can never start ends its line with a
/// question mark.
///
/// ```
/// let order = pipezero_schedule::generate::one_f_one_b(2, 2)?;
/// assert_eq!(
///     pipezero_schedule::render::order(&order, 80),
///     "rank 0  F0 F1 .. .. B0 B0 .. B1 B1\n\
///      rank 1  .. F0 B0 B0 F1 B1 B1 .. ..\n"
/// );
/// # Ok::<(), pipezero_schedule::generate::SizeError>(())
/// ```
pub fn order(order: &ComputeOrder, max_width: usize) -> String {
    let work = |&action: &StageAction| Work { action, num_gathers: 0, num_reductions: 0 };
    let rows: Vec<Vec<Work>> = order.rows.iter().map(|row| row.iter().map(work).collect()).collect();
    grid(&order.placement, &rows, max_width)
}

/// The compute of a program as a grid, as [`order`] has it; backwards that do nothing, in front of all that is trained, are left out.
pub fn computes(program: &CheckedProgram, max_width: usize) -> String {
    let without_counts = |work: Work| Work { num_gathers: 0, num_reductions: 0, ..work };
    let row = |rank| works_of_row(program, rank).into_iter().map(without_counts).collect();
    let rows: Vec<Vec<Work>> = program.ranks().map(row).collect();
    grid(program.placement(), &rows, max_width)
}

/// The same, and below each rank what is issued with its work: the number of gathers and of reductions before the next work begins.
pub fn program(program: &CheckedProgram, max_width: usize) -> String {
    let rows: Vec<Vec<Work>> = program.ranks().map(|rank| works_of_row(program, rank)).collect();
    grid(program.placement(), &rows, max_width)
}

fn grid(placement: &Placement, works: &[Vec<Work>], max_width: usize) -> String {
    let actions: Vec<Vec<StageAction>> =
        works.iter().map(|row| row.iter().map(|work| work.action).collect()).collect();
    let rows: Vec<&[StageAction]> = actions.iter().map(Vec::as_slice).collect();
    let starts = start_columns(&rows, placement.num_stages());
    let mut lines = Vec::new();
    for (rank, (row, starts)) in rows.iter().zip(&starts).enumerate() {
        lines.push(Line { title: format!("rank {rank}"), cells: labels(placement, row, starts), idle: ".." });
        let counts = |count: fn(&Work) -> usize| {
            let mut cells = vec![None; starts.last().map_or(0, |start| start.unwrap_or(0) + 1)];
            for (work, start) in works[rank].iter().zip(starts) {
                if let (Some(start), 1..) = (*start, count(work)) {
                    cells[start] = Some(count(work).to_string());
                }
            }
            cells
        };
        let gathers = counts(|work| work.num_gathers);
        let reductions = counts(|work| work.num_reductions);
        for (title, cells) in [("  gather", gathers), ("  reduce", reductions)] {
            if cells.iter().any(Option::is_some) {
                lines.push(Line { title: title.to_owned(), cells, idle: "" });
            }
        }
    }
    layout(&lines, max_width)
}

/// One stage's work on one micro-batch, with what is issued with its computes.
struct Work {
    action: StageAction,
    num_gathers: usize,
    num_reductions: usize,
}

fn works_of_row(program: &CheckedProgram, rank: PipelineRank) -> Vec<Work> {
    let mut works: Vec<Work> = Vec::new();
    let (mut gathers_ahead, mut reductions_ahead) = (0, 0);
    for &instruction in program.row(rank) {
        match instruction {
            // Both stand before the compute that they are issued with.
            Instruction::Unshard { .. } => gathers_ahead += 1,
            _ if instruction.lane() == Lane::Reduce => reductions_ahead += 1,
            _ => {}
        }
        let Some(action) = stage_action(program, instruction) else { continue };
        let num_gathers = core::mem::take(&mut gathers_ahead);
        let num_reductions = core::mem::take(&mut reductions_ahead);
        match works.last_mut() {
            Some(work) if work.action == action => {
                work.num_gathers += num_gathers;
                work.num_reductions += num_reductions;
            }
            _ => works.push(Work { action, num_gathers, num_reductions }),
        }
    }
    // What no compute follows.
    if let Some(work) = works.last_mut() {
        work.num_reductions += reductions_ahead;
    }
    works
}

fn stage_action(program: &CheckedProgram, instruction: Instruction) -> Option<StageAction> {
    let (kind, unit, micro_batch) = ComputeKind::of(instruction)?;
    (!does_nothing(program.chain(), instruction)).then(|| StageAction {
        kind,
        stage: program.chain().stage(unit),
        micro_batch,
    })
}

/// A line of a grid; `None` is idle.
struct Line {
    title: String,
    cells: Vec<Option<String>>,
    idle: &'static str,
}

fn labels(placement: &Placement, row: &[StageAction], starts: &[Option<usize>]) -> Vec<Option<String>> {
    let one_stage_each = placement.num_stages() == placement.num_ranks();
    let label = |action: &StageAction| {
        if one_stage_each {
            format!("{}{}", action.kind.letter(), action.micro_batch.0)
        } else {
            action.to_string()
        }
    };
    let mut cells = Vec::new();
    for (action, start) in row.iter().zip(starts) {
        let Some(start) = *start else {
            cells.push(Some(format!("{}?", label(action))));
            break;
        };
        cells.resize(start, None);
        cells.extend((0..columns(action.kind)).map(|_| Some(label(action))));
    }
    cells
}

/// Aligns the lines; a grid that is too wide keeps its beginning and its end.
fn layout(lines: &[Line], max_width: usize) -> String {
    let title_width = lines.iter().map(|line| line.title.len()).max().unwrap_or(0) + 2;
    let cells = || lines.iter().flat_map(|line| line.cells.iter().flatten());
    let cell_width = cells().map(String::len).max().unwrap_or(0).max(2) + 1;
    let num_columns = lines.iter().map(|line| line.cells.len()).max().unwrap_or(0);
    let fitting = (max_width.saturating_sub(title_width) / cell_width).max(3);
    // One column of the middle holds the dots that stand for what is left out.
    let (head, tail) = if num_columns <= fitting {
        (num_columns, num_columns)
    } else {
        (fitting.div_ceil(2) - 1, num_columns - fitting / 2)
    };
    let mut text = String::new();
    for line in lines {
        let cell = |column: usize| {
            let cell = line.cells.get(column).cloned().flatten();
            format!("{:<cell_width$}", cell.as_deref().unwrap_or(line.idle))
        };
        let mut row = format!("{:<title_width$}", line.title);
        row.extend((0..head).map(cell));
        if head < tail {
            row.push_str(&format!("{:<cell_width$}", "~"));
        }
        row.extend((tail..num_columns).map(cell));
        text.push_str(row.trim_end());
        text.push('\n');
    }
    text
}
