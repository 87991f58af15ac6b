//! Weights to read, a file of this program's or a folder of transformers: headers are checked against the plan, then each rank reads the
//! elements that it holds.

use std::path::{Path, PathBuf};

use pipezero_config::hugging_face::{Fit, PublishedModel, PublishedWeights, Unused};
use pipezero_files::safetensors::index_of;
use pipezero_models::ElementType;
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

/// The parameters that are read from weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// All of the model.
    All,
    /// All but those that the run draws when it begins ([`Plan::is_new`]).
    AllButNew,
}

impl Wanted {
    /// Their specifications, in the order of the file.
    pub(super) fn of(self, plan: &Plan) -> impl Iterator<Item = &ParameterSpec> {
        parameters(plan).filter(move |spec| self.is_read(plan, &spec.name))
    }

    /// Whether a parameter is read.
    pub(super) fn is_read(self, plan: &Plan, name: &str) -> bool {
        self == Self::All || !plan.is_new(name)
    }

    /// How closely weights must agree with the model of a plan.
    pub(super) fn fit(self, plan: &Plan) -> Fit {
        match self {
            Self::AllButNew if !plan.new_parameters().is_empty() => Fit::Part,
            Self::AllButNew if plan.run().trains() && plan.run().init.from.is_some() => Fit::SameUnlessNamed,
            Self::All | Self::AllButNew => Fit::Same,
        }
    }
}

/// Weights whose headers agree with a plan.
#[derive(Debug)]
pub(super) struct WeightsFile {
    weights: Weights,
    wanted: Wanted,
}

#[derive(Debug)]
enum Weights {
    /// A file of [`Engine::save`](super::Engine::save).
    Own(OwnWeights),
    /// A folder of transformers.
    Published(PublishedWeights),
}

impl WeightsFile {
    /// A file of [`Engine::save`](super::Engine::save), or a folder of transformers.
    pub(super) fn open(plan: &Plan, path: &Path, wanted: Wanted) -> Result<Self, WeightsError> {
        let fit = wanted.fit(plan);
        let weights = if path.join(PublishedModel::FILE).is_file() {
            let model = PublishedModel::open_for(plan.run(), path, fit)?;
            let shapes = wanted.of(plan).map(|spec| (&*spec.name, &*spec.shape));
            Weights::Published(PublishedWeights::open(path, &model, shapes, fit)?)
        } else {
            Weights::Own(OwnWeights::open(path, wanted.of(plan), fit)?)
        };
        Ok(Self { weights, wanted })
    }

    /// The parameters that are read.
    pub(super) fn wanted(&self) -> Wanted {
        self.wanted
    }

    /// Tensors of its files that the model does not use.
    pub(super) fn unused(&self) -> &[Unused] {
        match &self.weights {
            Weights::Own(own) => own.unused(),
            Weights::Published(weights) => weights.unused(),
        }
    }

    /// Its files.
    pub(super) fn paths(&self) -> Vec<&Path> {
        match &self.weights {
            Weights::Own(own) => vec![own.path()],
            Weights::Published(weights) => weights.paths().iter().map(PathBuf::as_path).collect(),
        }
    }

    /// The types of the tensors that are read.
    pub(super) fn stored_types(&self) -> Vec<ElementType> {
        match &self.weights {
            Weights::Own(_) => vec![ElementType::F32],
            Weights::Published(weights) => weights.stored_types(),
        }
    }

    /// Reads elements of a parameter, from its element `first` on. Returns how many bytes of its files that took.
    pub(super) fn read(
        &self,
        parameter: &ParameterSpec,
        first: usize,
        values: &mut [f32],
    ) -> Result<u64, Cause> {
        let name = &*parameter.name;
        let read = match &self.weights {
            Weights::Own(own) => {
                own.read(name, first, values).map_err(|source| (own.path().to_owned(), source))
            }
            Weights::Published(weights) => weights.read(name, first, values),
        };
        read.map_err(|(path, source)| Cause::Weights { path, source })
    }

    /// Where an element of a parameter lies.
    pub(super) fn place(&self, parameter: &ParameterSpec, element: usize) -> PlaceInFile {
        let ParameterSpec { name, shape, .. } = parameter;
        match &self.weights {
            Weights::Own(own) => PlaceInFile::new(own.path(), name, index_of(shape, element)),
            Weights::Published(weights) => {
                let (path, tensor, index) = weights.place(name, element);
                PlaceInFile::new(path, tensor, index)
            }
        }
    }
}
