//! Instruction lists: a line per instruction of a rank.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write as _;

use super::lanes::lane_name;
use crate::check::CheckedProgram;
use crate::id::PipelineRank;
use crate::instruction::Instruction;

/// A rank's instructions in issue order: position, lane, instruction, and the positions on other lanes that it waits
/// for; for a receive also the rank and position of its send.
///
/// # Panics
/// If there is no such rank.
pub fn instructions(program: &CheckedProgram, rank: PipelineRank) -> String {
    let row = program.row(rank);
    let position_width = row.len().saturating_sub(1).to_string().len();
    let lane_width = row.iter().map(|instruction| lane_name(instruction.lane(), 0).len()).max().unwrap_or(0);
    let width = row.iter().map(|instruction| instruction.to_string().len()).max().unwrap_or(0);
    let mut text = String::new();
    for (index, instruction) in row.iter().enumerate() {
        let mut waits: Vec<String> = program.waits(rank.at(index)).iter().map(ToString::to_string).collect();
        if let (Instruction::Receive { .. }, Some(send)) = (instruction, program.peer(rank.at(index))) {
            waits.push(format!("{} of rank {}", send.index, send.rank.0));
        }
        let lane = lane_name(instruction.lane(), 0);
        let mut line =
            format!("{index:>position_width$}  {lane:<lane_width$}  {:<width$}", instruction.to_string());
        if !waits.is_empty() {
            write!(line, "  after {}", waits.join(", ")).expect("a string takes any text");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
