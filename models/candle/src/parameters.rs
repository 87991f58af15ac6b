//! A module's parameters as tensors, by name.

use std::collections::HashMap;

use candle_core::{Error, Result, Tensor};

/// A module's parameters, by the names that its [`ParameterSpec`](pipezero_models::parameter::ParameterSpec)s have before the layer's name is put in front
/// of them.
#[derive(Clone, Debug)]
pub struct Parameters(Vec<(String, Tensor)>);

impl Parameters {
    pub(crate) fn new(named: Vec<(String, Tensor)>) -> Self {
        Self(named)
    }

    /// The tensor of a name.
    ///
    /// # Errors
    /// When the layer has no such parameter.
    pub fn get(&self, name: &str) -> Result<&Tensor> {
        let found = self.0.iter().find(|(known, _)| known == name).map(|(_, tensor)| tensor);
        found.ok_or_else(|| {
            let known: Vec<&str> = self.0.iter().map(|(known, _)| known.as_str()).collect();
            Error::Msg(format!("there is no parameter `{name}`; the layer has: {}", known.join(", ")))
        })
    }

    /// All of them, as `candle_nn::VarBuilder::from_tensors` takes them.
    pub fn to_map(&self) -> HashMap<String, Tensor> {
        self.0.iter().cloned().collect()
    }

    /// The tensors in the order of declaration.
    pub(crate) fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        self.0.iter().map(|(_, tensor)| tensor)
    }
}
