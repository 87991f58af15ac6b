//! A queue of a GPU: a stream, and what layers ask of it.

use std::fmt::Display;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use cudarc::driver::{CudaEvent, CudaStream};

use super::Shared;
use super::arguments::{self, Argument, Grid};
use super::products::{Operands, Product};
use crate::error::ModelError;
use crate::memory::{View, ViewMut};

/// A queue of [`Cuda`](super::Cuda).
#[derive(Debug)]
pub(super) struct CudaQueue {
    pub(super) device: Arc<Shared>,
    stream: Arc<CudaStream>,
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
        match stream {
            Ok(stream) => Ok(Self { device, stream, marks: Mutex::default() }),
            Err(error) => Err(ModelError::Device { reason: format!("cuStreamCreate: {error}") }),
        }
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
            self.device.fail(format!("cuCtxSetCurrent: {error}"));
            return None;
        }
        match call(&self.stream) {
            Ok(value) => Some(value),
            Err(error) => {
                self.device.fail(format!("{what}: {error}"));
                None
            }
        }
    }

    /// Launches a kernel of the program.
    ///
    /// # Safety
    /// As [`arguments::launch`]: the arguments are what the kernel's source asks for.
    pub(super) unsafe fn launch(&self, kernel: &str, grid: Grid, arguments: &[&dyn Argument]) {
        let function = self.device.program.kernel(kernel);
        // SAFETY: the caller's promise. The views are borrowed from buffers whose memory is freed only when the device has nothing left to do.
        self.ask(kernel, |stream| unsafe { arguments::launch(stream, function, grid, arguments) });
    }

    pub(super) fn read(&self, view: View<'_>) -> u64 {
        view.address_on(self.device.number)
    }

    pub(super) fn write(&self, view: &ViewMut<'_>) -> u64 {
        view.address_on(self.device.number)
    }

    pub(super) fn multiply(&self, product: Product, operands: Operands) {
        self.ask("cublasLtMatmul", |stream| {
            self.device.products.multiply(product, operands, stream.cu_stream())
        });
    }
}

/// Launches a kernel with arguments of its source. What is given for an element's address is a view.
///
/// Safety: the arguments are those of the kernel's source, in number, order and type; the views that they name were borrowed for it.
macro_rules! launch {
    ($queue:expr, $kernel:expr, $grid:expr, $($argument:expr),+ $(,)?) => {
        // SAFETY: as the macro says; each use stands beside the name of its kernel.
        unsafe { $queue.launch($kernel, $grid, &[$(&$argument as &dyn Argument),+]) }
    };
}

pub(super) use launch;
