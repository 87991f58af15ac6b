//! Writes the weights to one safetensors file, unit by unit.
//!
//! The header follows from the plan alone, so units stream behind it in chain order and the whole model is never in
//! one place.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use pipezero_models::unit::ParameterEntry;
use safetensors::tensor::{Dtype, Metadata, TensorInfo};

use super::weights_file::{WeightsError, parameters};
use crate::files::partial::{Existing, PartialFile};
use crate::plan::Plan;

/// A weights file that is being written. Dropped unfinished, it leaves an earlier file as it was.
#[derive(Debug)]
pub(super) struct SaveFile {
    path: PathBuf,
    partial: PartialFile,
    /// The first error ends the writing, and the ranks go on with what they do together.
    writer: Mutex<io::Result<BufWriter<File>>>,
}

impl SaveFile {
    /// A file with the header of a plan's parameters.
    pub(super) fn create(plan: &Plan, path: &Path) -> Result<Self, WeightsError> {
        let io = WeightsError::io(path);
        let mut partial = PartialFile::create(path, Existing::Replaced).map_err(&io)?;
        let mut writer = BufWriter::new(partial.file().try_clone().map_err(&io)?);
        write_header(plan, &mut writer).map_err(&io)?;
        Ok(Self { path: path.to_owned(), partial, writer: Mutex::new(Ok(writer)) })
    }

    /// Adds elements of a unit, from its element `first` on; what lies between its parameters is left out.
    pub(super) fn write(&self, entries: &[ParameterEntry], first: usize, values: &[f32]) {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let Ok(file) = writer.as_mut() else { return };
        let written = entries.iter().try_for_each(|entry| {
            let inside = |at: usize| at.clamp(first, first + values.len()) - first;
            let values = &values[inside(entry.range.start)..inside(entry.range.end)];
            values.iter().try_for_each(|value| file.write_all(&value.to_le_bytes()))
        });
        if let Err(error) = written {
            *writer = Err(error);
        }
    }

    /// Gives the file its name, once all of it is on disk.
    pub(super) fn finish(self) -> Result<(), WeightsError> {
        let io = WeightsError::io(&self.path);
        let writer = self.writer.into_inner().unwrap_or_else(PoisonError::into_inner).map_err(&io)?;
        writer.into_inner().map_err(|error| io(error.into_error()))?.sync_all().map_err(&io)?;
        self.partial.finish().map_err(&io)
    }
}

fn write_header(plan: &Plan, file: &mut impl Write) -> io::Result<()> {
    let mut end = 0;
    let tensors = parameters(plan).map(|spec| {
        let start = end;
        end += 4 * spec.num_elements_of_all();
        let shape = spec.shape.clone();
        (spec.name.clone(), TensorInfo { dtype: Dtype::F32, shape, data_offsets: (start, end) })
    });
    // PyTorch's readers look for this key.
    let about = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    let metadata = Metadata::new(Some(about), tensors.collect()).map_err(io::Error::other)?;
    let mut header = serde_json::to_vec(&metadata)?;
    // The format wants the tensors to start at a multiple of 8 bytes; spaces may follow the header.
    header.resize(header.len().next_multiple_of(8), b' ');
    file.write_all(&(header.len() as u64).to_le_bytes())?;
    file.write_all(&header)
}
