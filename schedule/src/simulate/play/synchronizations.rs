//! Which ranks have joined the norm and the tied addition.

use alloc::vec::Vec;

use crate::check::CheckedProgram;
use crate::instruction::Instruction;

/// The ranks that have joined each of a step's two synchronizations, with the position in their rows.
pub(super) struct Synchronizations {
    norm: Vec<(usize, usize)>,
    tied: Vec<(usize, usize)>,
    num_ranks: usize,
    num_tied: usize,
}

impl Synchronizations {
    pub(super) fn new(program: &CheckedProgram) -> Self {
        let rows = &program.program().rows;
        let adds_tied = |row: &&Vec<Instruction>| {
            row.iter().rev().any(|instruction| matches!(instruction, Instruction::AddTied { .. }))
        };
        let is_tied = program.chain().tied().is_some();
        let num_tied = if is_tied { rows.iter().filter(adds_tied).count() } else { 0 };
        Self { norm: Vec::new(), tied: Vec::new(), num_ranks: rows.len(), num_tied }
    }

    /// All members, if this is the last of them.
    pub(super) fn join(&mut self, is_norm: bool, rank: usize, index: usize) -> Option<Vec<(usize, usize)>> {
        let (members, num_members) =
            if is_norm { (&mut self.norm, self.num_ranks) } else { (&mut self.tied, self.num_tied) };
        members.push((rank, index));
        (members.len() == num_members).then(|| core::mem::take(members))
    }
}
