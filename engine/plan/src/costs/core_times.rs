//! What a core of this host was measured to take for the layers of a run, beside the assumed rates of a CPU.

use std::collections::BTreeMap;

use pipezero_models::Layer;

use super::unit_key::kind;

/// Passes over one layer and a micro-batch of the run on one core, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CorePasses {
    /// The forward; a recomputation takes as long.
    pub forward_ns: f64,
    /// The gradient of the input.
    pub backward_input_ns: f64,
    /// The gradients of the parameters.
    pub backward_weight_ns: f64,
}

impl CorePasses {
    /// All of them.
    pub fn total_ns(self) -> f64 {
        self.forward_ns + self.backward_input_ns + self.backward_weight_ns
    }
}

/// A kind of layers that take the same time: their name with `*` for numbers, and the number of their parameters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LayerKey {
    name: String,
    parameters: u64,
}

impl LayerKey {
    /// That of a layer.
    pub fn of(layer: &dyn Layer) -> Self {
        let parameters = layer.parameters().iter().map(|spec| spec.num_elements() as u64).sum();
        Self { name: kind(layer.name()), parameters }
    }
}

/// The rates that a core of this host has reached.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CoreTimes {
    /// By kind of layer, where the layers are small enough to be measured.
    pub layers: BTreeMap<LayerKey, CorePasses>,
    /// Operations a second in these layers, those of the whole model together; in a product where none was measured.
    pub flops_per_s: f64,
    /// Cores that were at work while it was measured.
    pub num_at_work: usize,
    /// Bytes a second that it reads and writes when it copies what no cache holds.
    pub copied_bytes_per_s: f64,
}
