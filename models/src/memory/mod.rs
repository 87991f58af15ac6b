//! The memory behind buffers, and views of it: the one place where a view becomes a slice.
#![allow(
    unsafe_code,
    reason = "kernels read and write parts of one buffer that no borrow of it can tell apart"
)]

use std::cell::Cell;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::OnceLock;

use candle_core::{CpuStorage, Device, InplaceOp1, Layout, Tensor};

use crate::element::{Element, ElementType};
use crate::error::ModelError;

mod view;

pub(crate) use view::Retained;
pub use view::{View, ViewMut};

/// Elements in one memory.
#[derive(Debug)]
pub(crate) struct Memory {
    place: Place,
    len: usize,
    element: ElementType,
    /// The number of the device whose kernels, which run later, use it.
    device: OnceLock<u64>,
}

/// Where elements are.
#[derive(Debug)]
enum Place {
    /// In the host's memory: the storage of a one-dimensional candle tensor.
    Host {
        /// Owns the elements. Nothing reads or writes through it after `base` was taken.
        _tensor: Tensor,
        base: NonNull<u8>,
    },
    /// In memory that the host does not reach.
    Device(Box<dyn DeviceMemory>),
}

/// An allocation in a device's memory, which is given back when it is dropped.
pub(crate) trait DeviceMemory: Debug + Send + Sync {
    /// Where it begins, as the device counts.
    fn address(&self) -> u64;

    /// Which of the devices that reach each other's memory it is on.
    fn ordinal(&self) -> usize;
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
            place: Place::Host { _tensor: tensor, base: base.pointer.get().cast() },
            len,
            element: E::TYPE,
            device: OnceLock::new(),
        })
    }

    /// Takes over an allocation of a device that has so many elements.
    pub(crate) fn on_device(memory: Box<dyn DeviceMemory>, len: usize, element: ElementType) -> Self {
        Self { place: Place::Device(memory), len, element, device: OnceLock::new() }
    }

    pub(crate) fn is_beside(&self, other: &Self) -> bool {
        match (&self.place, &other.place) {
            (Place::Host { .. }, Place::Host { .. }) => true,
            (Place::Device(one), Place::Device(other)) => one.ordinal() == other.ordinal(),
            _ => false,
        }
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
        let Place::Host { base, .. } = &self.place else {
            panic!("these elements are in a device's memory; download them")
        };
        let address = base.as_ptr().wrapping_add(start_bytes).cast::<E>();
        assert!(address.is_aligned(), "byte {start_bytes} is not where an element of {element:?} may begin");
        address
    }

    /// Where a byte is in the memory of its device.
    ///
    /// # Panics
    /// If the elements are in the host's memory.
    fn device_address(&self, start_bytes: usize) -> u64 {
        match &self.place {
            Place::Device(memory) => memory.address() + start_bytes as u64,
            Place::Host { .. } => panic!("a device's kernel is given elements of the host's memory"),
        }
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
