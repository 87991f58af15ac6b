//! Copies of a checkpoint in another form: its weights in one file, its state in another number of files.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::path::Path;

use pipezero_files::partial::{Existing, PartialFile};
use pipezero_files::safetensors::f32_header;

use super::cursor::Cursor;
use super::elements::bytes_of;
use super::error::CheckpointError;
use super::folder::Checkpoints;
use super::manifest::{Manifest, ParameterRecord};
use super::piece::Piece;
use super::reader::CheckpointReader;
use super::shard_writer::ShardWriter;

/// Elements that are copied at once.
const ELEMENTS_AT_ONCE: usize = 1 << 18;

/// Ranges of elements that are copied one after the other.
fn at_once(Range { start, end }: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    (start..end).step_by(ELEMENTS_AT_ONCE).map(move |start| start..end.min(start + ELEMENTS_AT_ONCE))
}

impl CheckpointReader {
    /// Writes the parameters, in f32, to one safetensors file, as [`crate::Engine::save`] does.
    ///
    /// # Errors
    /// When a file is damaged, or cannot be read or written; one that exists is left as it is.
    pub fn export(&self, path: &Path) -> Result<(), CheckpointError> {
        let io = CheckpointError::io(path);
        let mut partial = PartialFile::create(path, Existing::Kept).map_err(&io)?;
        let mut file = BufWriter::new(partial.file().try_clone().map_err(&io)?);
        let parameters = &self.manifest().parameters;
        let header = f32_header(parameters.iter().map(|of| (&*of.name, &*of.shape))).map_err(&io)?;
        file.write_all(&header).map_err(&io)?;
        let (mut cursor, mut values) = (Cursor::new(self), Vec::new());
        for parameter in parameters {
            for range in at_once(0..parameter.num_elements()) {
                values.resize(range.len(), 0.0);
                cursor.read(Piece::PARAMETER, &parameter.name, range.start, &mut values)?;
                file.write_all(bytes_of(&values)).map_err(&io)?;
            }
        }
        let file: File = file.into_inner().map_err(|error| io(error.into_error()))?;
        file.sync_all().map_err(&io)?;
        partial.finish().map_err(&io)
    }

    /// Writes the same state to a new checkpoint of so many files, each with an equal part of every parameter.
    ///
    /// # Errors
    /// When a file is damaged, or cannot be read or written.
    pub fn reshape(&self, to: &Checkpoints, num_files: usize) -> Result<(), CheckpointError> {
        let step = self.manifest().position.step;
        let new = to.start(step, None)?;
        let folder = to.partial(step);
        let files = (0..num_files).map(|file| self.write_part(&folder, file, num_files));
        match files.collect::<Result<_, _>>() {
            Ok(files) => new.finish(&Manifest { files, place: 0, ..self.manifest().clone() }),
            Err(error) => {
                new.abandon();
                Err(error)
            }
        }
    }

    fn write_part(
        &self,
        folder: &Path,
        file: usize,
        num_files: usize,
    ) -> Result<super::FileRecord, CheckpointError> {
        let io = CheckpointError::io(folder);
        let manifest = self.manifest();
        let part = |parameter: &ParameterRecord| {
            let num = parameter.num_elements();
            num * file / num_files..num * (file + 1) / num_files
        };
        let pieces = manifest.parameters.iter().flat_map(|parameter| {
            let piece = |kind: &String| Piece {
                kind: kind.clone(),
                name: parameter.name.clone(),
                range: part(parameter),
            };
            manifest.kinds_of(parameter).map(piece)
        });
        let pieces: Vec<Piece> = pieces.filter(|piece| !piece.range.is_empty()).collect();
        let mut writer = ShardWriter::create(folder, file, pieces.clone()).map_err(&io)?;
        let (mut cursor, mut values) = (Cursor::new(self), Vec::new());
        for Piece { kind, name, range } in pieces {
            for range in at_once(range) {
                values.resize(range.len(), 0.0);
                cursor.read(&kind, &name, range.start, &mut values)?;
                writer.write(&values).map_err(&io)?;
            }
        }
        writer.finish().map_err(&io)
    }
}
