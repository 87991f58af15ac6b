//! A flat run of elements on one device: what parameters, gradients and activations live in.
//!
//! A buffer is the only owner of its storage, a one-dimensional candle tensor. Kernels and layers never allocate:
//! they are handed slices of buffers. Writing goes through a candle in-place operation, so a device with kernels
//! of its own is reached by the same door.

use candle_core::{CpuStorage, Device, InplaceOp1, Layout, Storage, Tensor};
use std::cell::Cell;
use std::ops::Deref;

use crate::error::ModelError;

/// A flat, owned run of `f32` elements.
#[derive(Debug)]
pub struct Buffer {
    tensor: Tensor,
    len: usize,
}

impl Buffer {
    /// A buffer of `len` zeros.
    pub fn zeros(len: usize) -> Result<Self, ModelError> {
        Self::from_vec(vec![0.0; len])
    }

    /// A buffer that takes over `values` without a copy.
    pub fn from_vec(values: Vec<f32>) -> Result<Self, ModelError> {
        let len = values.len();
        Ok(Self { tensor: Tensor::from_vec(values, len, &Device::Cpu)?, len })
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no element at all.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Size in bytes.
    pub fn num_bytes(&self) -> u64 {
        4 * self.len as u64
    }

    /// The elements, for reading.
    ///
    /// # Panics
    /// If the storage was replaced by one of another kind, which only this file could do.
    pub fn read(&self) -> Elements<'_> {
        let (storage, _) = self.tensor.storage_and_layout();
        Elements { storage }
    }

    /// Lets `f` write to the elements and returns what it returns.
    ///
    /// # Panics
    /// As [`Buffer::read`].
    pub fn write<R>(&mut self, f: impl FnOnce(&mut [f32]) -> R) -> R {
        let op = Write { f: Cell::new(Some(f)), result: Cell::new(None) };
        self.tensor.inplace_op1(&op).expect("a CPU buffer always accepts an in-place CPU operation");
        op.result.into_inner().expect("the operation ran exactly once")
    }
}

/// The elements of a [`Buffer`], borrowed for reading.
#[derive(Debug)]
pub struct Elements<'a> {
    storage: candle_core::StorageRef<'a>,
}

impl Deref for Elements<'_> {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        match &*self.storage {
            Storage::Cpu(CpuStorage::F32(values)) => values,
            _ => unreachable!("a buffer holds f32 on the CPU"),
        }
    }
}

/// The in-place operation behind [`Buffer::write`]; the cells carry a one-shot closure through candle's `&self`.
struct Write<F, R> {
    f: Cell<Option<F>>,
    result: Cell<Option<R>>,
}

impl<R, F: FnOnce(&mut [f32]) -> R> InplaceOp1 for Write<F, R> {
    fn name(&self) -> &'static str {
        "write"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, _: &Layout) -> candle_core::Result<()> {
        let CpuStorage::F32(values) = storage else { candle_core::bail!("a buffer holds f32 on the CPU") };
        if let Some(f) = self.f.take() {
            self.result.set(Some(f(values)));
        }
        Ok(())
    }
}
