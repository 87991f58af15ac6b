//! Copies of a checkpoint in another form: its weights in one file, its state in another number of files.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::path::Path;

use safetensors::tensor::{Dtype, Metadata, TensorInfo};

use super::cursor::Cursor;
use super::elements::bytes_of;
use super::error::CheckpointError;
use super::folder::Checkpoints;
use super::manifest::{Manifest, ParameterRecord};
use super::piece::Piece;
use super::reader::CheckpointReader;
use super::shard_writer::ShardWriter;
use crate::files::partial::{Existing, PartialFile};

/// Elements that are copied at once.
const ELEMENTS_AT_ONCE: usize = 1 << 18;

/// The header of a file of f32 weights, its length in front.
pub(crate) fn weights_header<'a>(
    parameters: impl Iterator<Item = (&'a str, &'a [usize])>,
) -> io::Result<Vec<u8>> {
    let mut end = 0;
    let tensors = parameters.map(|(name, shape)| {
        let start = end;
        end += 4 * shape.iter().product::<usize>();
        (name.to_owned(), TensorInfo { dtype: Dtype::F32, shape: shape.to_vec(), data_offsets: (start, end) })
    });
    // PyTorch's readers look for this key.
    let about = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    let metadata = Metadata::new(Some(about), tensors.collect()).map_err(io::Error::other)?;
    let mut header = serde_json::to_vec(&metadata)?;
    // The format wants the tensors to start at a multiple of 8 bytes; spaces may follow the header.
    header.resize(header.len().next_multiple_of(8), b' ');
    Ok([&(header.len() as u64).to_le_bytes()[..], &header].concat())
}

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
        let header = weights_header(parameters.iter().map(|of| (&*of.name, &*of.shape))).map_err(&io)?;
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
        let Manifest { parameters, kinds, .. } = self.manifest();
        let part = |parameter: &ParameterRecord| {
            let num = parameter.num_elements();
            num * file / num_files..num * (file + 1) / num_files
        };
        let pieces = parameters.iter().flat_map(|parameter| {
            let piece = |kind: &String| Piece {
                kind: kind.clone(),
                name: parameter.name.clone(),
                range: part(parameter),
            };
            kinds.iter().map(piece)
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
