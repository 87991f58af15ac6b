//! Weights to read, a file of this program's or a folder of transformers: headers are checked against the plan, then each rank reads the
//! elements that it holds.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use pipezero_models::parameter::ParameterSpec;
use safetensors::tensor::{Dtype, TensorInfo};

use crate::files::safetensors::{Header, HeaderError};
use crate::hugging_face::{HuggingFaceError, PublishedModel, PublishedWeights};
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
    /// A folder of transformers that cannot be read, or has another model.
    #[error(transparent)]
    Published(#[from] HuggingFaceError),
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

/// Weights whose headers agree with a plan.
#[derive(Debug)]
pub(super) enum WeightsFile {
    /// A file of [`Engine::save`](super::Engine::save).
    Own {
        /// Its path.
        path: PathBuf,
        /// Where each parameter's first byte lies in the file.
        starts: HashMap<String, u64>,
    },
    /// A folder of transformers.
    Published(PublishedWeights),
}

impl WeightsFile {
    /// A file of [`Engine::save`](super::Engine::save), or a folder of transformers.
    pub(super) fn open(plan: &Plan, path: &Path) -> Result<Self, WeightsError> {
        if path.join(PublishedModel::FILE).is_file() {
            let model = PublishedModel::open(path)?;
            model.check_is(&plan.run().model, path)?;
            let shapes = parameters(plan).map(|spec| (&*spec.name, &*spec.shape));
            return Ok(Self::Published(PublishedWeights::open(path, &model, shapes)?));
        }
        let header = Header::read(path).map_err(|error| match error {
            HeaderError::Io(source) => WeightsError::io(path)(source),
            HeaderError::Damaged(reason) => WeightsError::Damaged { path: path.to_owned(), reason },
        })?;
        let tensors = header.metadata.tensors();
        agree(plan, &tensors).map_err(|reason| WeightsError::OtherModel { path: path.to_owned(), reason })?;
        let start = |info: &TensorInfo| header.data_start + info.data_offsets.0 as u64;
        let starts = tensors.iter().map(|(name, info)| (name.clone(), start(info))).collect();
        Ok(Self::Own { path: path.to_owned(), starts })
    }

    /// Reads elements of a parameter, from its element `first` on.
    pub(super) fn read(&self, name: &str, first: usize, values: &mut [f32]) -> Result<(), Cause> {
        let (path, starts) = match self {
            Self::Own { path, starts } => (path, starts),
            Self::Published(weights) => {
                let read = weights.read(name, first, values);
                return read.map_err(|(path, source)| Cause::Weights { path, source });
            }
        };
        let mut bytes = vec![0; 4 * values.len()];
        let read =
            File::open(path).and_then(|file| file.read_exact_at(&mut bytes, starts[name] + 4 * first as u64));
        read.map_err(|source| Cause::Weights { path: path.clone(), source })?;
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
