//! Weights on disk: one safetensors file, written unit by unit and read shard by shard.
//!
//! The header follows from the plan alone, so units stream behind it in chain order and the whole model is never in
//! one place. A reader seeks to the elements that its rank holds.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use pipezero_models::unit::ParameterEntry;
use pipezero_schedule::Unit;
use safetensors::tensor::{Dtype, Metadata, TensorInfo};

use super::error::EngineError;
use super::ranks::Ranks;
use super::worker::Command;
use crate::files::partial::{Existing, PartialFile};
use crate::plan::Plan;
use crate::run::executor::Cause;

/// Why weights could not be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WeightsError {
    /// The system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is no safetensors file, or cut off.
    #[error("{}: {reason}; it is not a complete safetensors file", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The file holds other parameters than the model.
    #[error("{}: {reason}; the weights belong to another model than the run file describes", path.display())]
    OtherModel {
        /// The file.
        path: PathBuf,
        /// The first difference.
        reason: String,
    },
}

impl WeightsError {
    fn io(path: &Path) -> impl Fn(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path: path.clone(), source }
    }
}

/// The parameters of a model as they follow each other in the file, with the unit that holds each.
fn parameters(plan: &Plan) -> impl Iterator<Item = (Unit, &ParameterEntry)> {
    plan.owned_units().flat_map(|(id, planned)| planned.unit.entries().iter().map(move |entry| (id, entry)))
}

/// Writes all weights; a failure leaves no half file, and an earlier file as it was.
pub(super) fn save(plan: &Plan, ranks: &mut Ranks, path: &Path) -> Result<(), EngineError> {
    let io = WeightsError::io(path);
    let mut whole = PartialFile::create(path, Existing::Replaced).map_err(&io)?;
    let mut file = BufWriter::new(whole.file());
    write_header(plan, &mut file).map_err(&io)?;
    for (id, planned) in plan.owned_units() {
        let values = ranks.ask_for_values(&Command::WholeUnit(id))?;
        for entry in planned.unit.entries() {
            for value in &values[entry.range.clone()] {
                file.write_all(&value.to_le_bytes()).map_err(&io)?;
            }
        }
    }
    file.into_inner().map_err(|error| io(error.into_error()))?.sync_all().map_err(&io)?;
    Ok(whole.finish().map_err(&io)?)
}

fn write_header(plan: &Plan, file: &mut impl Write) -> std::io::Result<()> {
    let mut end = 0;
    let tensors = parameters(plan).map(|(_, entry)| {
        let start = end;
        end += 4 * entry.range.len();
        let shape = entry.spec.shape.clone();
        (entry.spec.name.clone(), TensorInfo { dtype: Dtype::F32, shape, data_offsets: (start, end) })
    });
    // PyTorch's readers look for this key.
    let about = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    let metadata = Metadata::new(Some(about), tensors.collect()).map_err(std::io::Error::other)?;
    let mut header = serde_json::to_vec(&metadata)?;
    // The format wants the tensors to start at a multiple of 8 bytes; spaces may follow the header.
    header.resize(header.len().next_multiple_of(8), b' ');
    file.write_all(&(header.len() as u64).to_le_bytes())?;
    file.write_all(&header)
}

/// A weights file whose header agrees with a plan.
#[derive(Debug)]
pub(super) struct WeightsFile {
    path: PathBuf,
    /// Where each parameter's first byte lies in the file.
    starts: HashMap<String, u64>,
}

/// No header of a model that fits anywhere is longer.
const HEADER_BYTES_MAX: u64 = 100_000_000;

impl WeightsFile {
    pub(super) fn open(plan: &Plan, path: &Path) -> Result<Self, WeightsError> {
        let io = WeightsError::io(path);
        let damaged = |reason: String| WeightsError::Damaged { path: path.to_owned(), reason };
        let mut file = File::open(path).map_err(&io)?;
        let file_bytes = file.metadata().map_err(&io)?.len();
        let mut length = [0; 8];
        file.read_exact(&mut length)
            .map_err(|_| damaged(format!("it has {file_bytes} bytes, a header 8 or more")))?;
        let header_bytes = u64::from_le_bytes(length);
        if header_bytes > HEADER_BYTES_MAX || header_bytes + 8 > file_bytes {
            return Err(damaged(format!(
                "its header claims {header_bytes} bytes, the file has {file_bytes}"
            )));
        }
        let mut header = vec![0; header_bytes as usize];
        file.read_exact(&mut header).map_err(&io)?;
        let metadata: Metadata =
            serde_json::from_slice(&header).map_err(|error| damaged(error.to_string()))?;
        let tensors = metadata.tensors();
        let end = tensors.values().map(|info| info.data_offsets.1 as u64).max().unwrap_or(0);
        if header_bytes + 8 + end != file_bytes {
            let expected = header_bytes + 8 + end;
            return Err(damaged(format!("its header describes {expected} bytes, the file has {file_bytes}")));
        }
        agree(plan, &tensors).map_err(|reason| WeightsError::OtherModel { path: path.to_owned(), reason })?;
        let starts =
            tensors.iter().map(|(name, info)| (name.clone(), header_bytes + 8 + info.data_offsets.0 as u64));
        Ok(Self { path: path.to_owned(), starts: starts.collect() })
    }

    /// Reads elements of a parameter, from its element `first` on.
    pub(super) fn read(&self, name: &str, first: usize, values: &mut [f32]) -> Result<(), Cause> {
        let start = self.starts[name] + 4 * first as u64;
        let mut bytes = vec![0; 4 * values.len()];
        let mut read = || {
            let mut file = File::open(&self.path)?;
            file.seek(SeekFrom::Start(start))?;
            file.read_exact(&mut bytes)
        };
        read().map_err(|source| Cause::Weights { path: self.path.clone(), source })?;
        for (value, bytes) in values.iter_mut().zip(bytes.as_chunks::<4>().0) {
            *value = f32::from_le_bytes(*bytes);
        }
        Ok(())
    }
}

/// Checks that a file holds exactly the model's parameters.
fn agree(plan: &Plan, tensors: &HashMap<String, &TensorInfo>) -> Result<(), String> {
    let mut num_parameters = 0;
    for (_, ParameterEntry { spec, .. }) in parameters(plan) {
        num_parameters += 1;
        let name = &spec.name;
        let info = tensors.get(name).ok_or_else(|| format!("it has no tensor `{name}`"))?;
        let (start, end) = info.data_offsets;
        if info.shape != spec.shape
            || info.dtype != Dtype::F32
            || end.checked_sub(start) != Some(4 * spec.num_elements())
        {
            let (dtype, shape, expected) = (info.dtype, &info.shape, &spec.shape);
            return Err(format!("`{name}` is {dtype:?} {shape:?}, the model has F32 {expected:?}"));
        }
    }
    if tensors.len() != num_parameters {
        return Err(format!("it has {} tensors, the model {num_parameters}", tensors.len()));
    }
    Ok(())
}
