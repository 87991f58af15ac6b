//! Launches that look up rows of tables by tokens and by positions, and of their backward passes.

use super::arguments::{Argument, Grid};
use super::operations::{adds, rows_of};
use super::queue::{CudaQueue, launch};
use crate::kernels::matmul::WriteMode;
use crate::memory::{View, ViewMut};
use crate::queue::{Positions, Queue};

impl CudaQueue {
    /// As [`Queue::embedding`].
    pub(super) fn launch_embedding(
        &self,
        tokens: View<'_>,
        first_token: u32,
        token_table: View<'_>,
        y: ViewMut<'_>,
    ) {
        let width = rows_of(y.len(), tokens.len());
        let (grid, num_table_rows) = (Grid::blocks(tokens.len()), rows_of(token_table.len(), width) as u32);
        let (of, width) = (y.element_type(), width as u32);
        let (tokens, table) = (self.read_words(tokens), self.read_of(of, token_table));
        let y = self.write_of(of, &y);
        launch!(self, of, "embedding", grid, tokens, table, y, first_token, num_table_rows, width);
    }

    /// As [`Queue::embedding_backward`].
    pub(super) fn launch_embedding_backward(
        &self,
        tokens: View<'_>,
        first_token: u32,
        dy: View<'_>,
        mut dtoken_table: ViewMut<'_>,
        mode: WriteMode,
    ) {
        if mode == WriteMode::Overwrite {
            self.clear(dtoken_table.reborrow());
        }
        let (num_tokens, width) = (tokens.len() as u32, rows_of(dy.len(), tokens.len()));
        let (grid, num_table_rows) = (Grid::blocks(tokens.len()), rows_of(dtoken_table.len(), width) as u32);
        let (of, width) = (dy.element_type(), width as u32);
        let (tokens, dy, table) = (self.read_words(tokens), self.read_of(of, dy), self.write(&dtoken_table));
        launch!(
            self,
            of,
            "embedding_backward",
            grid,
            tokens,
            dy,
            table,
            first_token,
            num_table_rows,
            num_tokens,
            width
        );
    }

    /// As [`Queue::add_positions`].
    pub(super) fn launch_add_positions(
        &self,
        positions: Positions<'_>,
        position_table: View<'_>,
        y: ViewMut<'_>,
        width: usize,
    ) {
        let (grid, starts) = (Grid::elements(y.len()), self.read_any_words(positions.document_starts));
        let (seq_length, width) = (positions.seq_length as u32, width as u32);
        let (of, num_elements) = (y.element_type(), y.len() as u64);
        let (table, y) = (self.read_of(of, position_table), self.write_of(of, &y));
        launch!(self, of, "add_positions", grid, table, starts, y, seq_length, width, num_elements);
    }

    /// As [`Queue::positions_backward`].
    pub(super) fn launch_positions_backward(
        &self,
        positions: Positions<'_>,
        dy: View<'_>,
        dposition_table: ViewMut<'_>,
        width: usize,
        mode: WriteMode,
    ) {
        let Positions { seq_length, document_starts } = positions;
        let num_sequences = rows_of(dy.len(), seq_length * width) as u32;
        let (of, num_table, starts) =
            (dy.element_type(), dposition_table.len(), self.read_any_words(document_starts));
        let (dy, table, add) = (self.read_of(of, dy), self.write(&dposition_table), adds(mode));
        let (grid, seq_length, width) = (Grid::elements(num_table), seq_length as u32, width as u32);
        let (kernel, num_table) = ("positions_backward", num_table as u64);
        launch!(self, of, kernel, grid, dy, starts, table, seq_length, width, num_sequences, num_table, add);
    }
}
