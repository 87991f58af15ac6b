//! What a precision makes of each value: the one place that decides it, for memory, loading and training.

use std::fmt;

use pipezero_config::{DeviceName, Precision, Run};
use pipezero_models::ElementType;
use pipezero_partition::ElementBytes;

/// The types of a run's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElementTypes {
    /// Of parameters at rest, gathered and saved activations.
    pub parameter: ElementType,
    /// Of sums inside products, of the gradients of parameters and of the optimizer's state.
    pub accumulation: ElementType,
    /// Of the copy that the optimizer updates; none where it updates the parameters themselves.
    pub master: Option<ElementType>,
}

impl ElementTypes {
    /// What a precision stands for.
    pub(crate) fn of(precision: &Precision) -> Self {
        let parameter = match precision {
            Precision::F32 | Precision::Tf32 => ElementType::F32,
            Precision::Bf16 => ElementType::Bf16,
            Precision::Fp16(_) => ElementType::F16,
        };
        let master = (parameter != ElementType::F32).then_some(ElementType::F32);
        Self { parameter, accumulation: ElementType::F32, master }
    }

    /// What layers compute in on a run's device: CPUs widen 16 bits to f32, GPUs compute in them.
    pub fn computed_in(run: &Run) -> ElementType {
        match run.device {
            DeviceName::Cpu => ElementType::F32,
            DeviceName::Cuda => Self::of(&run.precision).parameter,
        }
    }

    /// What they are in bytes.
    pub(crate) fn bytes(self) -> ElementBytes {
        if self.master.is_some() { ElementBytes::HALF } else { ElementBytes::F32 }
    }
}

/// `parameters and activations bf16, sums, parameter gradients and optimizer f32, master copy f32`.
impl fmt::Display for ElementTypes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { parameter, accumulation, master } = self;
        write!(
            f,
            "parameters and activations {parameter}, sums, parameter gradients and optimizer {accumulation}, "
        )?;
        match master {
            Some(master) => write!(f, "master copy {master}"),
            None => f.write_str("no master copy"),
        }
    }
}
