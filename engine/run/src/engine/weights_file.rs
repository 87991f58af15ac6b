//! Weights to read, a file of this program's or a folder of transformers: headers are checked against the plan, then each rank reads the
//! elements that it holds.

use std::path::{Path, PathBuf};

use pipezero_config::hugging_face::{PublishedModel, PublishedWeights, Unused};
use pipezero_files::safetensors::index_of;
use pipezero_models::parameter::ParameterSpec;
use pipezero_plan::Plan;

use super::own_weights::OwnWeights;
use super::weights_error::WeightsError;
use crate::executor::Cause;
use crate::unusable_value::PlaceInFile;

/// The parameters of a model in the order of the file; one in slices comes once, with its first.
pub(super) fn parameters(plan: &Plan) -> impl Iterator<Item = &ParameterSpec> {
    parameters_and_frozen(plan).map(|(spec, _)| spec)
}

/// The same, each with whether it is frozen.
pub(super) fn parameters_and_frozen(plan: &Plan) -> impl Iterator<Item = (&ParameterSpec, bool)> {
    let of_units = plan.owned_units().flat_map(|(_, unit)| {
        unit.unit.entries().iter().map(move |entry| (&entry.spec, unit.parts[entry.part].is_frozen))
    });
    of_units.filter(|(spec, _)| spec.first_element() == 0)
}

/// Weights whose headers agree with a plan.
#[derive(Debug)]
pub(super) enum WeightsFile {
    /// A file of [`Engine::save`](super::Engine::save).
    Own(OwnWeights),
    /// A folder of transformers.
    Published(PublishedWeights),
}

impl WeightsFile {
    /// A file of [`Engine::save`](super::Engine::save), or a folder of transformers.
    pub(super) fn open(plan: &Plan, path: &Path) -> Result<Self, WeightsError> {
        if path.join(PublishedModel::FILE).is_file() {
            let model = PublishedModel::open_for(plan.run(), path)?;
            let shapes = parameters(plan).map(|spec| (&*spec.name, &*spec.shape));
            return Ok(Self::Published(PublishedWeights::open(path, &model, shapes)?));
        }
        Ok(Self::Own(OwnWeights::open(path, parameters(plan))?))
    }

    /// What its files hold and the model does not use; those of this program hold nothing else.
    pub(super) fn unused(&self) -> &[Unused] {
        match self {
            Self::Own(_) => &[],
            Self::Published(weights) => weights.unused(),
        }
    }

    /// Its files.
    pub(super) fn paths(&self) -> Vec<&Path> {
        match self {
            Self::Own(own) => vec![own.path()],
            Self::Published(weights) => weights.paths().iter().map(PathBuf::as_path).collect(),
        }
    }

    /// Reads elements of a parameter, from its element `first` on.
    pub(super) fn read(
        &self,
        parameter: &ParameterSpec,
        first: usize,
        values: &mut [f32],
    ) -> Result<(), Cause> {
        let name = &*parameter.name;
        let read = match self {
            Self::Own(own) => own.read(name, first, values).map_err(|source| (own.path().to_owned(), source)),
            Self::Published(weights) => weights.read(name, first, values),
        };
        read.map_err(|(path, source)| Cause::Weights { path, source })
    }

    /// Where an element of a parameter lies.
    pub(super) fn place(&self, parameter: &ParameterSpec, element: usize) -> PlaceInFile {
        let ParameterSpec { name, shape, .. } = parameter;
        match self {
            Self::Own(own) => PlaceInFile::new(own.path(), name, index_of(shape, element)),
            Self::Published(weights) => {
                let (path, tensor, index) = weights.place(name, element);
                PlaceInFile::new(path, tensor, index)
            }
        }
    }
}
