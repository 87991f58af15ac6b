//! A flat run of elements on one device: what parameters, gradients and activations live in.
//!
//! A buffer is the only owner of its storage, a one-dimensional candle tensor. Kernels and layers never allocate:
//! they are handed slices of buffers. Writing goes through a candle in-place operation, so a device with its
//! own kernels can be added without changing callers.

use candle_core::{CpuStorage, Device, InplaceOp1, Layout, Storage, Tensor};
use half::{bf16, f16};
use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::{Deref, Range};

use crate::element::{Element, ElementType};
use crate::error::ModelError;
use crate::kernels::convert;

/// A flat, owned run of elements, `f32` unless made otherwise.
#[derive(Debug)]
pub struct Buffer {
    tensor: Tensor,
    len: usize,
    element_type: ElementType,
}

impl Buffer {
    /// A buffer of `len` zeros in `f32`.
    pub fn zeros(len: usize) -> Result<Self, ModelError> {
        Self::zeros_of(len, ElementType::F32)
    }

    /// A buffer of `len` zeros.
    pub fn zeros_of(len: usize, element_type: ElementType) -> Result<Self, ModelError> {
        match element_type {
            ElementType::F32 => Self::from_vec(vec![0.0_f32; len]),
            ElementType::Bf16 => Self::from_vec(vec![bf16::ZERO; len]),
            ElementType::F16 => Self::from_vec(vec![f16::ZERO; len]),
        }
    }

    /// A buffer that takes over `values` without a copy.
    pub fn from_vec<E: Element>(values: Vec<E>) -> Result<Self, ModelError> {
        let len = values.len();
        Ok(Self { tensor: Tensor::from_vec(values, len, &Device::Cpu)?, len, element_type: E::TYPE })
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the buffer has no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What the elements are.
    pub fn element_type(&self) -> ElementType {
        self.element_type
    }

    /// Size in bytes.
    pub fn num_bytes(&self) -> u64 {
        self.element_type.num_bytes() as u64 * self.len as u64
    }

    /// The elements of a buffer of `f32`, for reading.
    ///
    /// # Panics
    /// As [`Buffer::read_as`].
    pub fn read(&self) -> Elements<'_> {
        self.read_as::<f32>()
    }

    /// The elements, for reading. An empty buffer can be read as any type.
    ///
    /// # Panics
    /// If they are of another type.
    pub fn read_as<E: Element>(&self) -> Elements<'_, E> {
        self.assert_holds::<E>();
        let (storage, _) = self.tensor.storage_and_layout();
        Elements { storage, element: PhantomData }
    }

    /// Lets `f` write to the elements of a buffer of `f32` and returns what it returns.
    ///
    /// # Panics
    /// As [`Buffer::read_as`].
    pub fn write<R>(&mut self, f: impl FnOnce(&mut [f32]) -> R) -> R {
        self.write_as(f)
    }

    /// Lets `f` write to the elements and returns what it returns. An empty buffer can be written to as any type.
    ///
    /// # Panics
    /// As [`Buffer::read_as`].
    pub fn write_as<E: Element, R>(&mut self, f: impl FnOnce(&mut [E]) -> R) -> R {
        self.assert_holds::<E>();
        let op = Write { f: Cell::new(Some(f)), result: Cell::new(None), element: PhantomData };
        self.tensor.inplace_op1(&op).expect("a CPU buffer always accepts an in-place CPU operation");
        op.result.into_inner().expect("the operation ran exactly once")
    }

    /// Copies a range of another buffer to the elements from `start` on: bit for bit where the types are equal, otherwise
    /// converted, exactly to a wider type and to nearest even to a narrower one.
    ///
    /// # Panics
    /// If the range, or as many elements from `start` on, reach beyond a buffer.
    pub fn copy_from(&mut self, start: usize, source: &Self, range: Range<usize>) {
        match source.element_type {
            ElementType::F32 => self.copy_from_type::<f32>(start, source, range),
            ElementType::Bf16 => self.copy_from_type::<bf16>(start, source, range),
            ElementType::F16 => self.copy_from_type::<f16>(start, source, range),
        }
    }

    fn copy_from_type<S: Element>(&mut self, start: usize, source: &Self, range: Range<usize>) {
        let here = start..start + range.len();
        let source = &source.read_as::<S>()[range];
        if self.element_type == S::TYPE {
            return self.write_as(|out: &mut [S]| out[here].copy_from_slice(source));
        }
        match self.element_type {
            ElementType::F32 => self.write_as::<f32, _>(|out| convert::convert(source, &mut out[here])),
            ElementType::Bf16 => self.write_as::<bf16, _>(|out| convert::convert(source, &mut out[here])),
            ElementType::F16 => self.write_as::<f16, _>(|out| convert::convert(source, &mut out[here])),
        }
    }

    fn assert_holds<E: Element>(&self) {
        assert!(
            self.is_empty() || self.element_type == E::TYPE,
            "a buffer of {:?} cannot be used as one of {:?}",
            self.element_type,
            E::TYPE
        );
    }
}

/// The elements of a [`Buffer`], borrowed for reading.
#[derive(Debug)]
pub struct Elements<'a, E = f32> {
    storage: candle_core::StorageRef<'a>,
    element: PhantomData<E>,
}

impl<E: Element> Deref for Elements<'_, E> {
    type Target = [E];

    fn deref(&self) -> &[E] {
        match &*self.storage {
            // Checked when it was borrowed: only an empty buffer is of another type.
            Storage::Cpu(storage) => E::of(storage).unwrap_or_default(),
            _ => unreachable!("a buffer lies on the CPU"),
        }
    }
}

/// The in-place operation behind [`Buffer::write`]; the cells carry a one-shot closure through candle's `&self`.
struct Write<E, F, R> {
    f: Cell<Option<F>>,
    result: Cell<Option<R>>,
    element: PhantomData<E>,
}

impl<E: Element, R, F: FnOnce(&mut [E]) -> R> InplaceOp1 for Write<E, F, R> {
    fn name(&self) -> &'static str {
        "write"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, _: &Layout) -> candle_core::Result<()> {
        if let Some(f) = self.f.take() {
            self.result.set(Some(f(E::of_mut(storage).unwrap_or_default())));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPES: [ElementType; 3] = [ElementType::F32, ElementType::Bf16, ElementType::F16];

    #[test]
    fn values_that_every_type_has_survive_every_way() {
        let values = [0.0, 1.0, -2.5, 448.0, f32::INFINITY];
        let source = Buffer::from_vec(values.to_vec()).unwrap();
        for (first, second) in TYPES.into_iter().flat_map(|first| TYPES.map(|second| (first, second))) {
            let [mut a, mut b] = [first, second].map(|of| Buffer::zeros_of(6, of).unwrap());
            let mut back = Buffer::zeros(6).unwrap();
            a.copy_from(0, &source, 0..5);
            b.copy_from(0, &a, 0..5);
            back.copy_from(0, &b, 0..5);
            assert_eq!(back.read()[..5], values, "{first:?} {second:?}");
            assert_eq!(back.read()[5], 0.0);
            assert_eq!((b.element_type(), b.len()), (second, 6));
        }
    }

    #[test]
    fn a_range_goes_to_its_place_and_nowhere_else() {
        for (first, second) in TYPES.into_iter().flat_map(|first| TYPES.map(|second| (first, second))) {
            let source = Buffer::from_vec(vec![1.0_f32, 2.0, 3.0, 4.0, 5.0]).unwrap();
            let [mut a, mut b] = [first, second].map(|of| Buffer::zeros_of(6, of).unwrap());
            a.copy_from(1, &source, 0..5);
            b.copy_from(3, &a, 2..4);
            let mut wide = Buffer::zeros(6).unwrap();
            wide.copy_from(0, &b, 0..6);
            assert_eq!(wide.read()[..], [0.0, 0.0, 0.0, 2.0, 3.0, 0.0], "{first:?} {second:?}");
        }
    }

    /// Other values may lie in a buffer, packed, so even a signalling NaN is moved as it is.
    #[test]
    fn a_copy_between_equal_types_keeps_every_bit() {
        let patterns: Vec<bf16> = (0..=u16::MAX).map(bf16::from_bits).collect();
        let source = Buffer::from_vec(patterns.clone()).unwrap();
        let mut copy = Buffer::zeros_of(patterns.len(), ElementType::Bf16).unwrap();
        copy.copy_from(0, &source, 0..patterns.len());
        let bits = |values: &[bf16]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&copy.read_as::<bf16>()), bits(&patterns));
    }

    #[test]
    fn bytes_are_those_of_the_type() {
        let bytes = TYPES.map(|of| Buffer::zeros_of(7, of).unwrap().num_bytes());
        assert_eq!(bytes, [28, 14, 14]);
    }

    #[test]
    fn an_empty_buffer_is_of_every_type() {
        let mut empty = Buffer::zeros(0).unwrap();
        assert!(empty.read_as::<bf16>().is_empty());
        assert_eq!(empty.write_as(|elements: &mut [f16]| elements.len()), 0);
    }

    #[test]
    #[should_panic(expected = "a buffer of Bf16 cannot be used as one of F32")]
    fn elements_of_another_type_are_refused() {
        let _ = Buffer::zeros_of(1, ElementType::Bf16).unwrap().read();
    }
}
