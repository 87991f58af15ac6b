//! The memory behind buffers, and views of it: the one place where a view becomes a slice.
#![allow(
    unsafe_code,
    reason = "kernels read and write parts of one buffer that no borrow of it can tell apart"
)]

use std::fmt::Debug;
use std::ptr::NonNull;
use std::sync::OnceLock;

use crate::element::{Element, ElementType};
use crate::error::ModelError;

mod allocator;
mod host;
mod out_of_memory;
mod view;

use self::host::HostMemory;

pub use allocator::{give_back_freed_memory, share_one_heap};
pub use out_of_memory::LimitedMemory;
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
    /// In the host's memory.
    Host(HostMemory),
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

impl Memory {
    /// So many zeros in the host's memory.
    ///
    /// # Errors
    /// [`ModelError::TooLarge`], [`ModelError::OutOfMemory`].
    pub(crate) fn zeros(len: usize, element: ElementType) -> Result<Self, ModelError> {
        Ok(Self::new(Place::Host(HostMemory::zeros(len, element)?), len, element))
    }

    /// Takes over `values` without a copy.
    pub(crate) fn from_vec<E: Element>(values: Vec<E>) -> Self {
        let len = values.len();
        Self::new(Place::Host(HostMemory::from_vec(values)), len, E::TYPE)
    }

    /// Takes over an allocation of a device that has so many elements.
    pub(crate) fn on_device(memory: Box<dyn DeviceMemory>, len: usize, element: ElementType) -> Self {
        Self::new(Place::Device(memory), len, element)
    }

    fn new(place: Place, len: usize, element: ElementType) -> Self {
        Self { place, len, element, device: OnceLock::new() }
    }

    pub(crate) fn is_beside(&self, other: &Self) -> bool {
        match (&self.place, &other.place) {
            (Place::Host(_), Place::Host(_)) => true,
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

    /// The address of the `len` elements that a view of type `element` has from byte `start_bytes` on.
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
        let Place::Host(memory) = &self.place else {
            panic!("these elements are in a device's memory; download them")
        };
        let address = memory.base().as_ptr().wrapping_add(start_bytes).cast::<E>();
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
            Place::Host(_) => panic!("a device's kernel is given elements of the host's memory"),
        }
    }
}
