//! Writes the weights to one safetensors file, unit by unit.
//!
//! The header follows from the plan alone, so units stream behind it in chain order and the whole model is never in
//! one place.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use pipezero_files::partial::{Existing, PartialFile};
use pipezero_files::safetensors::f32_header;
use pipezero_models::unit::ParameterEntry;
use pipezero_plan::Plan;

use super::weights_error::WeightsError;
use super::weights_file::parameters;

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
        let header = f32_header(parameters(plan).map(|spec| (&*spec.name, &*spec.shape))).map_err(&io)?;
        writer.write_all(&header).map_err(&io)?;
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
