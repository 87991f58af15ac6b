//! The memory behind buffers, and views of it: the one place where a view becomes a slice.
#![allow(
    unsafe_code,
    reason = "kernels read and write parts of one buffer that no borrow of it can tell apart"
)]

use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::OnceLock;

use candle_core::{CpuStorage, Device, InplaceOp1, Layout, Tensor};

use crate::element::{Element, ElementType};
use crate::error::ModelError;

mod view;

pub(crate) use view::Retained;
pub use view::{View, ViewMut};

/// Elements in the host's memory: the storage of a one-dimensional candle tensor.
#[derive(Debug)]
pub(crate) struct Memory {
    /// Owns the elements. Nothing reads or writes through it after `base` was taken.
    _tensor: Tensor,
    base: NonNull<u8>,
    len: usize,
    element: ElementType,
    /// The number of the device whose kernels, which run later, use it.
    device: OnceLock<u64>,
}

// SAFETY: `base` points into memory that the tensor owns and never moves; who may read and write which elements is what
// views are for, on whichever thread they are.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Takes over `values` without a copy.
    pub(crate) fn new<E: Element>(values: Vec<E>) -> Result<Self, ModelError> {
        let len = values.len();
        let tensor = Tensor::from_vec(values, len, &Device::Cpu)?;
        let base = Base::<E> { pointer: Cell::new(NonNull::dangling()), element: PhantomData };
        tensor.inplace_op1(&base)?;
        Ok(Self {
            _tensor: tensor,
            base: base.pointer.get().cast(),
            len,
            element: E::TYPE,
            device: OnceLock::new(),
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn element_type(&self) -> ElementType {
        self.element
    }

    /// Where so many elements begin that a view has as `element`.
    ///
    /// # Panics
    /// If they are not `E`, unless there are none, are not aligned as `E` has to be, or reach beyond the memory.
    fn address_of<E: Element>(&self, start_bytes: usize, len: usize, element: ElementType) -> *mut E {
        let (end_bytes, num_bytes) =
            (start_bytes + len * element.num_bytes(), self.len * self.element.num_bytes());
        assert!(end_bytes <= num_bytes, "bytes {start_bytes}..{end_bytes} of {num_bytes}");
        if len == 0 {
            return NonNull::dangling().as_ptr();
        }
        assert!(element == E::TYPE, "elements of {element:?} cannot be used as those of {:?}", E::TYPE);
        let address = self.base.as_ptr().wrapping_add(start_bytes).cast::<E>();
        assert!(address.is_aligned(), "byte {start_bytes} is not where an element of {element:?} may begin");
        address
    }
}

/// Takes the address of a tensor's elements, from a unique reference to them.
struct Base<E> {
    pointer: Cell<NonNull<E>>,
    element: PhantomData<E>,
}

impl<E: Element> InplaceOp1 for Base<E> {
    fn name(&self) -> &'static str {
        "base"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, _: &Layout) -> candle_core::Result<()> {
        let elements = E::of_mut(storage).expect("a tensor that was made of this type is stored as it");
        self.pointer.set(NonNull::from(elements).cast());
        Ok(())
    }
}
