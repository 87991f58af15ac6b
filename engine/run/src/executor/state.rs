//! A rank's state outside a step: written to its file of a checkpoint, and read from whichever files have it.

use std::convert::Infallible;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use pipezero_comm::Communicator;
use pipezero_models::ElementType;
use pipezero_models::unit::ParameterEntry;

use super::error::Cause;
use super::first_not_finite::download;
use super::parameters::parameter_order;
use super::rank::Rank;
use super::read_weights::ReadWeights;
use super::scratch::ELEMENTS_AT_ONCE;
use super::staging::FileToWrite;
use crate::checkpoint::{CheckpointError, CheckpointReader, Cursor, FileRecord, Piece, ShardWriter};
use crate::shard::PartStore;
use crate::unusable_value::{UnusableValue, first_beyond};

/// Elements of a part's flat buffer that belong to one parameter.
pub(super) struct ParameterPiece<'a> {
    pub(super) entry: &'a ParameterEntry,
    pub(super) range: Range<usize>,
}

impl ParameterPiece<'_> {
    /// Where the elements lie in the whole parameter, of which the entry may be a slice.
    pub(super) fn in_parameter(&self) -> Range<usize> {
        let first = self.entry.spec.first_element();
        let start = self.entry.range.start;
        first + self.range.start - start..first + self.range.end - start
    }

    /// Ranges of the part's flat buffer that are copied at once.
    fn at_once(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let Range { start, end } = self.range;
        (start..end).step_by(ELEMENTS_AT_ONCE).map(move |start| start..end.min(start + ELEMENTS_AT_ONCE))
    }
}

/// The parameters that have elements in a range of a part's flat buffer.
pub(super) fn pieces_of<'a>(
    entries: impl Iterator<Item = &'a ParameterEntry>,
    range: Range<usize>,
) -> impl Iterator<Item = ParameterPiece<'a>> {
    entries.filter_map(move |entry| {
        let (start, end) = (entry.range.start.max(range.start), entry.range.end.min(range.end));
        (start < end).then_some(ParameterPiece { entry, range: start..end })
    })
}

impl Rank {
    /// Writes this rank's shard of every unit, whatever more it holds: so the data ranks write each element once. The inner error is that
    /// of the file, after which the rank goes on.
    pub(crate) fn write_state(
        &mut self,
        folder: &Path,
    ) -> Result<Result<FileRecord, CheckpointError>, Cause> {
        self.comm.finish()?;
        inner(self.write_shards(folder))
    }

    fn write_shards(&self, folder: &Path) -> Result<FileRecord, Cause> {
        let error = |source| Cause::from(CheckpointError::Io { path: folder.to_owned(), source });
        let mut file = ShardWriter::create(folder, self.comm.rank(), self.pieces()).map_err(error)?;
        let mut values = Vec::new();
        self.for_each_piece(|kind, piece, store| {
            piece.at_once().try_for_each(|range| {
                values.resize(range.len(), 0.0);
                self.download(kind, store, range, &mut values)?;
                file.write(&values).map_err(error)
            })
        })?;
        file.finish().map_err(error)
    }

    /// Copies what [`Rank::write_state`] would write, and has it written by a thread of its own.
    pub(crate) fn write_copy(&mut self, to: FileToWrite) -> Result<(), Cause> {
        self.comm.finish()?;
        let mut staging = self.staging.take().expect("a plan that copies checkpoints has the copy");
        let (mut values, mut end) = (staging.take(), 0);
        self.for_each_piece(|kind, piece, store| {
            piece.at_once().try_for_each(|range| {
                let start = end;
                end += range.len();
                self.download(kind, store, range, &mut values.get_mut()[start..end])
            })
        })?;
        staging.write(values, self.comm.rank(), self.pieces(), to);
        self.staging = Some(staging);
        Ok(())
    }

    /// What this rank writes, in the order of its file.
    fn pieces(&self) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let visited: Result<(), Infallible> = self.for_each_piece(|kind, piece, _| {
            let name = piece.entry.spec.name.clone();
            pieces.push(Piece { kind: kind.to_owned(), name, range: piece.in_parameter() });
            Ok(())
        });
        let Ok(()) = visited;
        pieces
    }

    /// Copies elements of a part's flat buffer, or of one of their states, to the host, at most [`ELEMENTS_AT_ONCE`].
    fn download(
        &self,
        kind: &str,
        store: &PartStore,
        range: Range<usize>,
        values: &mut [f32],
    ) -> Result<(), Cause> {
        let state = self.plan.run().optimizer.state_names().iter().position(|&name| name == kind);
        let view = match state {
            Some(index) => store.state(index, range),
            None => store.exact(range),
        };
        // Of weights in 16 bits only frozen ones have no master copy.
        Ok(download(&*self.queue, &self.scratch, view, values)?)
    }

    /// Does something with each piece that this rank writes, in the order of its file.
    fn for_each_piece<E>(
        &self,
        mut visit: impl FnMut(&'static str, &ParameterPiece<'_>, &PartStore) -> Result<(), E>,
    ) -> Result<(), E> {
        let states = self.plan.run().optimizer.state_names();
        // Both ranks of a tied weight hold it; that of its first use writes it.
        for (id, planned) in self.plan.owned_units() {
            let Some(store) = self.stores.get(&id) else { continue };
            for kind in [Piece::PARAMETER].into_iter().chain(states.iter().copied()) {
                for (index, part) in store.parts.iter().enumerate() {
                    if kind != Piece::PARAMETER && !part.is_trained() {
                        continue;
                    }
                    let shard = part.layout.shard(self.data_rank);
                    for piece in pieces_of(planned.unit.entries_of(index), shard) {
                        visit(kind, &piece, part)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads the parameters that this rank holds and the optimizer state that it owns. The inner error is that of the files; what the
    /// rank holds afterwards is of no use then, until another checkpoint is read.
    pub(crate) fn read_state(
        &mut self,
        from: &CheckpointReader,
    ) -> Result<Result<ReadWeights, CheckpointError>, Cause> {
        match self.read_parameters(from, |_| true)? {
            Ok(read) => Ok(inner(self.read_optimizer_state(from))?.map(|()| read)),
            failed => Ok(failed),
        }
    }

    /// Reads the parameters that this rank holds, and leaves the optimizer's state as it is. The inner error is that of the files.
    pub(crate) fn read_parameters(
        &mut self,
        from: &CheckpointReader,
        is_read: impl Fn(&str) -> bool,
    ) -> Result<Result<ReadWeights, CheckpointError>, Cause> {
        let mut cursor = Cursor::new(from);
        let found = self.read_values(
            is_read,
            |spec, first, values| {
                let before = cursor.num_read_bytes();
                cursor.read(Piece::PARAMETER, &spec.name, first, values)?;
                Ok(cursor.num_read_bytes() - before)
            },
            |spec, element| from.place(Piece::PARAMETER, spec, element),
        );
        let unusable = |value| CheckpointError::Unusable(Box::new(value)).into();
        inner(found.and_then(|found| found.map_err(unusable)))
    }

    fn read_optimizer_state(&mut self, from: &CheckpointReader) -> Result<(), Cause> {
        let states = self.plan.run().optimizer.state_names();
        let (mut cursor, mut values) = (Cursor::new(from), Vec::new());
        let plan = Arc::clone(&self.plan);
        for (&id, store) in &mut self.stores {
            for (number, part) in
                store.parts.iter_mut().enumerate().filter(|(_, part)| !part.states.is_empty())
            {
                for (index, state) in states.iter().enumerate() {
                    let entries = plan.unit(id).unit.entries_of(number);
                    for piece in pieces_of(entries, part.owned.clone()) {
                        let mut first = piece.in_parameter().start;
                        for range in piece.at_once() {
                            values.resize(range.len(), 0.0);
                            let spec = &piece.entry.spec;
                            cursor.read(state, &spec.name, first, &mut values)?;
                            if let Some(at) = first_beyond(&values, f32::INFINITY) {
                                let (order, element) = (parameter_order(&plan, &spec.name), first + at);
                                let place = from.place(state, spec, element);
                                let value =
                                    UnusableValue::new((order, element), place, values[at], ElementType::F32);
                                return Err(CheckpointError::Unusable(Box::new(value)).into());
                            }
                            first += range.len();
                            self.queue.upload_floats(&values, part.state_mut(index, range));
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

/// An error of the files apart from those after which a rank cannot go on.
fn inner<T>(done: Result<T, Cause>) -> Result<Result<T, CheckpointError>, Cause> {
    match done {
        Err(Cause::Checkpoint(error)) => Ok(Err(error)),
        done => done.map(Ok),
    }
}
