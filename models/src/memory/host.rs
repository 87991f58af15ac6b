//! An allocation in the host's memory.
//!
//! New memory comes from the allocator already zeroed: the system hands out pages that are zero and takes physical memory for a page when it is first
//! written, so a large buffer costs nothing until it is used. The standard library keeps this for small alignments only; for larger ones it allocates
//! and then writes the zeros itself. So this file asks for [`ALIGNMENT`] bytes more than it needs, without an alignment, and lets the elements begin at
//! the first aligned address.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use crate::element::{Element, ElementType};
use crate::error::ModelError;

/// New memory begins at a multiple of this many bytes: one cache line, and the widest vector register.
pub(super) const ALIGNMENT: usize = 64;

/// Elements in the host's memory, all of them initialised. They are freed when this is dropped.
#[derive(Debug)]
pub(super) struct HostMemory {
    /// The first element.
    base: NonNull<u8>,
    /// The start and layout of the allocation that has the elements; `None` if nothing was allocated.
    allocation: Option<(NonNull<u8>, Layout)>,
}

// SAFETY: the allocation has no other owner and may be freed on any thread. Views decide who reads and writes which elements, on whichever thread.
unsafe impl Send for HostMemory {}
// SAFETY: as above.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    /// So many zeros, aligned to [`ALIGNMENT`] bytes.
    ///
    /// # Errors
    /// [`ModelError::TooLarge`] for more bytes than an address space has; [`ModelError::OutOfMemory`] when the allocator refuses.
    pub(super) fn zeros(len: usize, element: ElementType) -> Result<Self, ModelError> {
        let too_large = || ModelError::TooLarge { len, element_type: element };
        let num_bytes = len.checked_mul(element.num_bytes()).ok_or_else(too_large)?;
        if num_bytes == 0 {
            return Ok(Self { base: NonNull::<f32>::dangling().cast(), allocation: None });
        }
        let num_allocated = num_bytes.checked_add(ALIGNMENT - 1).ok_or_else(too_large)?;
        let layout = Layout::array::<u8>(num_allocated).map_err(|_| too_large())?;
        // SAFETY: the layout has at least one byte.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(ModelError::OutOfMemory {
            len,
            element_type: element,
            num_bytes,
        })?;
        let skipped = start.addr().get().next_multiple_of(ALIGNMENT) - start.addr().get();
        // SAFETY: fewer than `ALIGNMENT` bytes are skipped, and the allocation has as many more than the elements need.
        let base = unsafe { start.add(skipped) };
        Ok(Self { base, allocation: Some((start, layout)) })
    }

    /// Takes over the elements of a vector without a copy. They stay where they are, aligned as the vector's allocation is.
    pub(super) fn from_vec<E: Element>(values: Vec<E>) -> Self {
        let mut values = ManuallyDrop::new(values);
        let layout = Layout::array::<E>(values.capacity()).expect("a vector's allocation has a layout");
        let base = NonNull::new(values.as_mut_ptr()).expect("a vector's address is not null").cast();
        Self { base, allocation: (layout.size() > 0).then_some((base, layout)) }
    }

    /// The first element.
    pub(super) fn base(&self) -> NonNull<u8> {
        self.base
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        if let Some((start, layout)) = self.allocation {
            // SAFETY: the global allocator made this allocation with this layout, also that of a vector, and nobody else frees it. Elements are
            // plain numbers, which need no drop of their own.
            unsafe { dealloc(start.as_ptr(), layout) }
        }
    }
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;
    use crate::buffer::Buffer;

    const TYPES: [ElementType; 4] = [ElementType::F32, ElementType::Bf16, ElementType::F16, ElementType::U32];

    #[test]
    fn new_elements_are_zero_and_begin_at_a_cache_line() {
        for element in TYPES {
            for len in (1..200).chain([4095, 4096, 4097, 1 << 20]) {
                let memory = HostMemory::zeros(len, element).unwrap();
                assert!(memory.base().addr().get().is_multiple_of(ALIGNMENT), "{len} of {element:?}");
                let buffer = Buffer::zeros_of(len, element).unwrap();
                assert!(buffer.view().bytes().as_ptr().addr().is_multiple_of(ALIGNMENT));
                assert_eq!(buffer.view().bytes().len(), len * element.num_bytes());
                assert!(buffer.view().bytes().iter().all(|&byte| byte == 0), "{len} of {element:?}");
            }
        }
    }

    #[test]
    fn every_new_element_can_be_written_and_read() {
        for len in 1..100 {
            let mut buffers = [0, 1].map(|_| Buffer::zeros_of(len, ElementType::F16).unwrap());
            for (buffer, value) in buffers.iter_mut().zip([1.0, 2.0]) {
                buffer.host_mut_as::<f16>().fill(f16::from_f32(value));
            }
            for (buffer, value) in buffers.iter().zip([1.0, 2.0]) {
                assert_eq!(buffer.host_as::<f16>(), vec![f16::from_f32(value); len]);
            }
        }
    }

    #[test]
    fn no_elements_need_no_allocation() {
        for element in TYPES {
            let memory = HostMemory::zeros(0, element).unwrap();
            assert!(memory.allocation.is_none(), "{element:?}");
            assert_eq!(Buffer::zeros_of(0, element).unwrap().view().bytes(), [0_u8; 0]);
        }
        assert!(HostMemory::from_vec(Vec::<f32>::new()).allocation.is_none());
        // A vector without elements that has room for some.
        assert!(HostMemory::from_vec(Vec::<f32>::with_capacity(9)).allocation.is_some());
        assert!(Buffer::from_vec(Vec::<u32>::with_capacity(9)).unwrap().is_empty());
    }

    /// Takes over a vector that has room for more elements than it holds.
    fn check_taken_over<E: Element>(values: &[E]) {
        let mut vector = Vec::with_capacity(values.len() + 7);
        vector.extend_from_slice(values);
        let address = vector.as_ptr().addr();
        let mut buffer = Buffer::from_vec(vector).unwrap();
        assert_eq!((buffer.len(), buffer.element_type()), (values.len(), E::TYPE));
        assert_eq!(buffer.host_as::<E>().as_ptr().addr(), address, "the elements were copied");
        assert_eq!(buffer.host_as::<E>(), values);
        let last = values[0];
        buffer.host_mut_as::<E>()[values.len() - 1] = last;
        assert_eq!(buffer.host_as::<E>().last(), Some(&last));
    }

    #[test]
    fn a_vector_is_taken_over_where_it_is() {
        check_taken_over(&[1.5_f32, -2.0, 3.0]);
        check_taken_over(&[1.5_f32, -2.0, 3.0].map(bf16::from_f32));
        check_taken_over(&[1.5_f32, -2.0, 3.0].map(f16::from_f32));
        check_taken_over(&[u32::MAX, 0, 7]);
    }

    /// Together they are larger than the address space of a process, in which each is there for a moment. Were their zeros written, this would take
    /// hours.
    #[test]
    fn what_is_dropped_is_freed() {
        const LEN: usize = 1 << 29;
        let num_buffers = (1_usize << 47) / (4 * LEN);
        for _ in 0..num_buffers {
            assert_eq!(Buffer::zeros(LEN).unwrap().len(), LEN);
            assert_eq!(Buffer::from_vec(vec![0_u32; LEN]).unwrap().len(), LEN);
        }
    }

    #[test]
    fn a_buffer_that_cannot_be_is_an_error() {
        let largest = isize::MAX as usize / 4;
        let message = |len| Buffer::zeros(len).unwrap_err().to_string();
        for len in [usize::MAX, largest + 1, largest] {
            let expected = format!("a buffer of {len} elements of F32 is larger than memory can be");
            assert_eq!(message(len), expected);
        }
        let (len, num_bytes) = (largest - ALIGNMENT, 4 * (largest - ALIGNMENT));
        assert_eq!(
            message(len),
            format!(
                "a buffer of {len} elements of F32 takes {num_bytes} bytes, which this host does not have: free memory, or run something smaller"
            )
        );
    }
}
