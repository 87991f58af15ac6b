//! The programs of a device: one for each type of elements that has been used.

use std::sync::{Arc, OnceLock};

use cudarc::driver::CudaContext;

use super::libraries::NoCuda;
use super::program::Program;
use crate::element::ElementType;

/// That for f32 is compiled when the device is opened, the others when the first of their kernels is asked for.
#[derive(Debug)]
pub(super) struct Programs {
    context: Arc<CudaContext>,
    /// Of the device, such as (9, 0).
    capability: (i32, i32),
    f32: Program,
    bf16: OnceLock<Result<Program, NoCuda>>,
    f16: OnceLock<Result<Program, NoCuda>>,
}

impl Programs {
    /// Compiles the kernels for f32.
    pub(super) fn new(context: &Arc<CudaContext>, capability: (i32, i32)) -> Result<Self, NoCuda> {
        Ok(Self {
            context: Arc::clone(context),
            capability,
            f32: Program::compile(context, capability, ElementType::F32)?,
            bf16: OnceLock::new(),
            f16: OnceLock::new(),
        })
    }

    /// The kernels for elements of a type.
    ///
    /// # Panics
    /// If no kernel computes in it.
    pub(super) fn of(&self, element: ElementType) -> Result<&Program, &NoCuda> {
        let compiled = match element {
            ElementType::F32 => return Ok(&self.f32),
            ElementType::Bf16 => &self.bf16,
            ElementType::F16 => &self.f16,
            ElementType::U32 => panic!("no kernel computes in u32"),
        };
        compiled.get_or_init(|| Program::compile(&self.context, self.capability, element)).as_ref()
    }
}
