//! A queue of a GPU: a stream, and what layers ask of it.

use std::fmt::Display;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock};

use cudarc::driver::{CudaEvent, CudaStream, DriverError};

use super::Shared;
use super::arguments::{self, Argument, Grid};
use super::products::{Operands, Product};
use super::workspace::Workspace;
use crate::element::ElementType;
use crate::error::ModelError;
use crate::kernels::matmul::WriteMode;
use crate::memory::{View, ViewMut};

/// A queue of [`Cuda`](super::Cuda).
#[derive(Debug)]
pub(super) struct CudaQueue {
    pub(super) device: Arc<Shared>,
    stream: Arc<CudaStream>,
    /// Taken when the first product needs it.
    workspace: OnceLock<Workspace>,
    pub(super) marks: Mutex<Marks>,
}

/// The marks whose times are kept.
#[derive(Debug, Default)]
pub(super) struct Marks {
    /// The number of the first of them.
    pub(super) first: u64,
    pub(super) events: Vec<Arc<CudaEvent>>,
}

impl CudaQueue {
    pub(super) fn new(device: Arc<Shared>) -> Result<Self, ModelError> {
        let stream = device.context.bind_to_thread().and_then(|()| device.context.new_stream());
        let stream = stream.map_err(|error| device.refuses("cuStreamCreate", &error))?;
        Ok(Self { device, stream, workspace: OnceLock::new(), marks: Mutex::default() })
    }

    /// Does something on this thread with the device's context, unless the device has failed.
    pub(super) fn ask<T, E: Display>(
        &self,
        what: &str,
        call: impl FnOnce(&CudaStream) -> Result<T, E>,
    ) -> Option<T> {
        if self.device.has_failed.load(Ordering::Acquire) {
            return None;
        }
        if let Err(error) = self.device.context.bind_to_thread() {
            self.device.fail("cuCtxSetCurrent, or a call before it", &error);
            return None;
        }
        match call(&self.stream) {
            Ok(value) => Some(value),
            Err(error) => {
                self.device.fail(what, &error);
                None
            }
        }
    }

    /// Launches a kernel of the program for elements of a type.
    ///
    /// # Safety
    /// As [`arguments::launch`]: the arguments are what the kernel's source asks for.
    pub(super) unsafe fn launch(
        &self,
        element: ElementType,
        kernel: &str,
        grid: Grid,
        arguments: &[&dyn Argument],
    ) {
        if grid.is_empty() {
            return;
        }
        self.ask(kernel, |stream| {
            let program = self.device.programs.of(element).map_err(ToString::to_string)?;
            let launched = self.timed(
                stream,
                kernel,
                || format!("{element} {grid}"),
                || {
                    // SAFETY: the caller's promise. The views are borrowed from buffers whose memory is freed only when the device has nothing left to do.
                    unsafe { arguments::launch(stream, program.kernel(kernel), grid, arguments) }
                },
            );
            launched.map_err(|error| error.to_string())
        });
    }

    /// Does something that the device takes time for, and times it while that is asked for.
    pub(super) fn timed(
        &self,
        stream: &CudaStream,
        kernel: &str,
        size: impl FnOnce() -> String,
        call: impl FnOnce() -> Result<(), DriverError>,
    ) -> Result<(), DriverError> {
        let times = &self.device.kernel_times;
        let start = times.before(stream)?;
        call()?;
        times.behind(start, stream, kernel, size)
    }

    /// Where a view's bytes begin.
    pub(super) fn address(&self, view: View<'_>) -> u64 {
        view.address_on(self.device.peers.number)
    }

    /// Where elements of this type begin that a kernel reads.
    ///
    /// # Panics
    /// If they are of another.
    pub(super) fn read_of(&self, element: ElementType, view: View<'_>) -> u64 {
        assert!(
            view.element_type() == element,
            "{:?} for a kernel that reads {element:?}",
            view.element_type()
        );
        self.address(view)
    }

    /// The same of those that it writes.
    pub(super) fn write_of(&self, element: ElementType, view: &ViewMut<'_>) -> u64 {
        self.read_of(element, view.view())
    }

    /// Where f32 begin that a kernel reads.
    pub(super) fn read(&self, view: View<'_>) -> u64 {
        self.read_of(ElementType::F32, view)
    }

    /// Where f32 begin that a kernel writes.
    pub(super) fn write(&self, view: &ViewMut<'_>) -> u64 {
        self.write_of(ElementType::F32, view)
    }

    /// Where u32 begin that a kernel reads.
    pub(super) fn read_words(&self, view: View<'_>) -> u64 {
        self.read_of(ElementType::U32, view)
    }

    /// As [`CudaQueue::read_words`], for what a kernel may be given: 0 where it is given none.
    pub(super) fn read_any_words(&self, view: Option<View<'_>>) -> u64 {
        view.map_or(0, |view| self.read_words(view))
    }

    /// Where u32 begin that a kernel writes.
    pub(super) fn write_words(&self, view: &ViewMut<'_>) -> u64 {
        self.write_of(ElementType::U32, view)
    }

    /// A product that overwrites a gradient, or is added to it.
    pub(super) fn multiply_into(
        &self,
        product: impl FnOnce([ElementType; 2]) -> Product,
        factors: [View<'_>; 2],
        gradient: &ViewMut<'_>,
        mode: WriteMode,
    ) {
        let types = [factors[0].element_type(), gradient.element_type()];
        let [left, right] = factors.map(|factor| self.read_of(types[0], factor));
        let out = self.write_of(types[1], gradient);
        let onto = (mode == WriteMode::Add).then_some(out);
        self.multiply(product(types), Operands { left, right, onto, bias: None, gelu_input: None, out });
    }

    /// Asks for a product.
    pub(super) fn multiply(&self, product: Product, operands: Operands) {
        self.ask("cublasLtMatmul", |stream| {
            match self.multiplies(product, operands, stream)? {
                true => Ok(()),
                false => Err(format!(
                    "the library proposes no algorithm for {product:?}; please report it with the GPU's name and cuBLASLt's version"
                )),
            }
        });
    }

    /// Asks for a product with GELU or its gradient. Returns whether the library computes it so: the same for equal sizes, types, alignment
    /// and kind of device. Once the device has failed, and nothing is done any more, it returns true.
    pub(super) fn multiply_with_gelu(&self, product: Product, operands: Operands) -> bool {
        let ask = |stream: &CudaStream| self.multiplies(product, operands, stream);
        product.may_have_gelu(operands) && self.ask("cublasLtMatmul", ask).unwrap_or(true)
    }

    /// Asks for a product. Returns whether the library computes it.
    fn multiplies(&self, product: Product, operands: Operands, stream: &CudaStream) -> Result<bool, String> {
        let workspace = match (product.takes_workspace(), self.workspace.get()) {
            (false, _) => None,
            (true, Some(workspace)) => Some(workspace),
            (true, None) => {
                let workspace = Workspace::new(&self.device.workspaces)?;
                Some(self.workspace.get_or_init(|| workspace))
            }
        };
        let Shared { products, kernel_times, .. } = &*self.device;
        let start = kernel_times.before(stream).map_err(|error| error.to_string())?;
        let has_multiplied = products.multiply(product, operands, workspace, stream.cu_stream());
        let has_multiplied = has_multiplied.map_err(|error| error.to_string())?;
        if has_multiplied {
            let timed = kernel_times.behind(start, stream, "cublasLtMatmul", || product.to_string());
            timed.map_err(|error| error.to_string())?;
        }
        Ok(has_multiplied)
    }
}

/// Launches a kernel for elements of a type with the arguments that its source lists, in number, order and type: whoever writes a launch answers
/// for that. Addresses are those that [`CudaQueue::read`] and [`CudaQueue::write`] give of views.
macro_rules! launch {
    ($queue:expr, $element:expr, $kernel:expr, $grid:expr, $($argument:expr),+ $(,)?) => {
        // SAFETY: as the macro asks; the views were borrowed for the kernel.
        unsafe { $queue.launch($element, $kernel, $grid, &[$(&$argument as &dyn Argument),+]) }
    };
}

pub(super) use launch;
