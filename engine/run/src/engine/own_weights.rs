//! A file of weights that this program wrote.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use pipezero_config::hugging_face::{Fit, NOT_OF_THE_MODEL, PublishedModel, Unused};
use pipezero_files::opened::open_regular;
use pipezero_files::safetensors::{Header, HeaderError};
use pipezero_models::parameter::ParameterSpec;
use safetensors::tensor::{Dtype, TensorInfo};

use super::weights_error::WeightsError;

/// A file of [`Engine::save`](super::Engine::save) that has a model's parameters.
#[derive(Debug)]
pub struct OwnWeights {
    path: PathBuf,
    /// Where each parameter's first byte lies in the file.
    starts: HashMap<String, u64>,
    unused: Vec<Unused>,
}

impl OwnWeights {
    /// Opens a file, for these parameters of a model. It has no others, unless the two may differ.
    ///
    /// # Errors
    /// When it cannot be read, is damaged, or has other parameters.
    pub fn open<'a>(
        path: &Path,
        parameters: impl Iterator<Item = &'a ParameterSpec>,
        fit: Fit,
    ) -> Result<Self, WeightsError> {
        let header = Header::read(path).map_err(|error| match error {
            HeaderError::Io(source) => WeightsError::io(path)(source),
            HeaderError::Damaged(reason) => WeightsError::Damaged { path: path.to_owned(), reason },
        })?;
        let tensors = header.metadata.tensors();
        let unused =
            agree(parameters, &tensors, fit).map_err(|reason| match folder_of_transformers(path) {
                Some(folder) => WeightsError::OfFolder { path: path.to_owned(), folder },
                None => WeightsError::OtherModel { path: path.to_owned(), reason },
            })?;
        let start = |info: &TensorInfo| header.data_start + info.data_offsets.0 as u64;
        let starts = tensors.iter().map(|(name, info)| (name.clone(), start(info))).collect();
        Ok(Self { path: path.to_owned(), starts, unused })
    }

    /// Tensors of the file that the model does not use.
    pub fn unused(&self) -> &[Unused] {
        &self.unused
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads elements of a parameter, from its element `first` on. Returns how many bytes of the file they have.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn read(&self, name: &str, first: usize, values: &mut [f32]) -> io::Result<u64> {
        let mut bytes = vec![0; 4 * values.len()];
        open_regular(&self.path)?.read_exact_at(&mut bytes, self.starts[name] + 4 * first as u64)?;
        for (value, bytes) in values.iter_mut().zip(bytes.as_chunks::<4>().0) {
            *value = f32::from_le_bytes(*bytes);
        }
        Ok(bytes.len() as u64)
    }
}

/// The folder of a file, if it has a config.json of a model that is known.
fn folder_of_transformers(path: &Path) -> Option<PathBuf> {
    let folder = path.parent()?;
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    PublishedModel::open(folder).is_ok().then(|| folder.to_owned())
}

/// Checks that a file holds these parameters of a model, and returns what else it holds, if it may.
fn agree<'a>(
    parameters: impl Iterator<Item = &'a ParameterSpec>,
    tensors: &HashMap<String, &TensorInfo>,
    fit: Fit,
) -> Result<Vec<Unused>, String> {
    let mut names = HashSet::new();
    for spec in parameters {
        names.insert(&*spec.name);
        let name = &spec.name;
        let info =
            tensors.get(name).ok_or_else(|| format!("it has no tensor `{name}`{}", fit.unless_new(name)))?;
        let (start, end) = info.data_offsets;
        if info.shape != spec.shape
            || info.dtype != Dtype::F32
            || end.checked_sub(start) != Some(4 * spec.num_elements_of_all())
        {
            let (dtype, shape, expected) = (info.dtype, &info.shape, &spec.shape);
            return Err(format!("`{name}` is {dtype:?} {shape:?}, the model has F32 {expected:?}"));
        }
    }
    let mut others: Vec<&str> =
        tensors.keys().map(String::as_str).filter(|name| !names.contains(name)).collect();
    if !others.is_empty() && !fit.may_differ() {
        return Err(format!("it has {} tensors, the model {}", tensors.len(), names.len()));
    }
    others.sort_unstable();
    let unused = |name: &str| Unused::new(format!("`{name}`"), NOT_OF_THE_MODEL);
    Ok(others.into_iter().map(unused).collect())
}
