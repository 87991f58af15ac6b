//! A flat run of elements in one memory: what parameters, gradients and activations live in.
//!
//! A buffer is the only owner of its elements. Kernels and layers never allocate: they are given views of buffers.

use std::sync::Arc;

use crate::element::{Element, ElementType};
use crate::error::ModelError;
use crate::memory::{DeviceMemory, Memory, View, ViewMut};

/// A flat, owned run of elements, `f32` unless made otherwise.
#[derive(Debug)]
pub struct Buffer {
    memory: Arc<Memory>,
}

impl Buffer {
    /// A buffer of `len` zeros in `f32`.
    ///
    /// # Errors
    /// As [`Buffer::zeros_of`].
    pub fn zeros(len: usize) -> Result<Self, ModelError> {
        Self::zeros_of(len, ElementType::F32)
    }

    /// A buffer of `len` zeros, which begins at a multiple of 64 bytes. On the usual systems it takes memory as its elements are first written.
    ///
    /// # Errors
    /// [`ModelError::TooLarge`] for more bytes than an address space has; [`ModelError::OutOfMemory`] when this host does not have them.
    pub fn zeros_of(len: usize, element_type: ElementType) -> Result<Self, ModelError> {
        Ok(Self { memory: Arc::new(Memory::zeros(len, element_type)?) })
    }

    /// A buffer that takes over `values` without a copy. It does not fail; the result is that of all ways to make a buffer.
    pub fn from_vec<E: Element>(values: Vec<E>) -> Result<Self, ModelError> {
        Ok(Self { memory: Arc::new(Memory::from_vec(values)) })
    }

    /// A buffer that takes over an allocation of a device, of so many elements.
    pub(crate) fn on_device(memory: Box<dyn DeviceMemory>, len: usize, element_type: ElementType) -> Self {
        Self { memory: Arc::new(Memory::on_device(memory, len, element_type)) }
    }

    /// Whether it lies in the same device's memory as another, or both in the host's.
    pub fn is_beside(&self, other: &Self) -> bool {
        self.memory.is_beside(&other.memory)
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// Whether the buffer has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the elements are.
    pub fn element_type(&self) -> ElementType {
        self.memory.element_type()
    }

    /// Size in bytes.
    pub fn num_bytes(&self) -> u64 {
        self.element_type().num_bytes() as u64 * self.len() as u64
    }

    /// All elements, for a kernel that reads them.
    pub fn view(&self) -> View<'_> {
        View::new(&self.memory)
    }

    /// All elements, for a kernel that writes them.
    pub fn view_mut(&mut self) -> ViewMut<'_> {
        ViewMut::new(&mut self.memory)
    }

    /// The elements of a buffer of `f32`, for reading on the host.
    ///
    /// # Panics
    /// As [`Buffer::host_as`].
    pub fn host(&self) -> &[f32] {
        self.host_as()
    }

    /// The elements, for reading on the host. An empty buffer can be read as any type.
    ///
    /// # Panics
    /// If they are of another type, or a queue has something left to do with them.
    pub fn host_as<E: Element>(&self) -> &[E] {
        self.view().slice()
    }

    /// The elements of a buffer of `f32`, for writing on the host.
    ///
    /// # Panics
    /// As [`Buffer::host_as`].
    pub fn host_mut(&mut self) -> &mut [f32] {
        self.host_mut_as()
    }

    /// The elements, for writing on the host. An empty buffer can be written to as any type.
    ///
    /// # Panics
    /// As [`Buffer::host_as`].
    pub fn host_mut_as<E: Element>(&mut self) -> &mut [E] {
        self.view_mut().slice()
    }
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;

    const TYPES: [ElementType; 3] = [ElementType::F32, ElementType::Bf16, ElementType::F16];

    #[test]
    fn bytes_are_those_of_the_type() {
        let bytes = TYPES.map(|of| Buffer::zeros_of(7, of).unwrap().num_bytes());
        assert_eq!(bytes, [28, 14, 14]);
    }

    #[test]
    fn an_empty_buffer_is_of_every_type() {
        let mut empty = Buffer::zeros(0).unwrap();
        assert!(empty.host_as::<bf16>().is_empty());
        assert_eq!(empty.host_mut_as::<f16>().len(), 0);
    }

    #[test]
    #[should_panic(expected = "elements of Bf16 cannot be used as those of F32")]
    fn elements_of_another_type_are_refused() {
        let _ = Buffer::zeros_of(1, ElementType::Bf16).unwrap().host();
    }
}
