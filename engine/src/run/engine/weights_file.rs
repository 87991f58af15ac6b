//! A file of weights to read: its header is checked against the plan, then each rank reads the elements that it holds.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use pipezero_models::parameter::ParameterSpec;
use safetensors::tensor::{Dtype, Metadata, TensorInfo};

use crate::files::input::is_not_regular;
use crate::plan::Plan;
use crate::run::executor::Cause;

/// Why weights could not be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WeightsError {
    /// The file could not be opened, read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The file is not a complete safetensors file.
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
    pub(super) fn io(path: &Path) -> impl Fn(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path: path.clone(), source }
    }
}

/// The parameters of a model in the order of the file; one in slices comes once, with its first.
pub(super) fn parameters(plan: &Plan) -> impl Iterator<Item = &ParameterSpec> {
    let entries = plan.owned_units().flat_map(|(_, planned)| planned.unit.entries());
    entries.map(|entry| &entry.spec).filter(|spec| spec.first_element() == 0)
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
        if is_not_regular(path) {
            return Err(damaged("it is not a regular file".to_owned()));
        }
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
    for spec in parameters(plan) {
        num_parameters += 1;
        let name = &spec.name;
        let info = tensors.get(name).ok_or_else(|| format!("it has no tensor `{name}`"))?;
        let (start, end) = info.data_offsets;
        if info.shape != spec.shape
            || info.dtype != Dtype::F32
            || end.checked_sub(start) != Some(4 * spec.num_elements_of_all())
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
