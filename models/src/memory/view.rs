//! Elements of a buffer that a kernel reads or writes: which memory, which range, which type.
//!
//! A view borrows its buffer as a slice would, so the borrow checker keeps what a kernel writes apart from what it reads. But
//! it is not a slice: the memory may be a device's, and a queue may run the kernel later. Only kernels of the host turn views into slices.

use std::array;
use std::marker::PhantomData;
use std::ops::Range;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use super::Memory;
use crate::element::{Element, ElementType, with_element};

/// Elements to read.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    memory: &'a Arc<Memory>,
    start_bytes: usize,
    len: usize,
    element: ElementType,
    /// Given to a kernel while it runs: nobody else uses the elements then.
    in_kernel: bool,
}

/// Elements to write, and to read.
#[derive(Debug)]
pub struct ViewMut<'a> {
    memory: &'a Arc<Memory>,
    start_bytes: usize,
    len: usize,
    element: ElementType,
    /// As in a [`View`].
    in_kernel: bool,
    unique: PhantomData<&'a mut Memory>,
}

impl<'a> View<'a> {
    /// All elements of a buffer.
    pub(crate) fn new(memory: &'a Arc<Memory>) -> Self {
        Self { memory, start_bytes: 0, len: memory.len(), element: memory.element_type(), in_kernel: false }
    }

    /// Number of elements.
    pub fn len(self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// What the elements are.
    pub fn element_type(self) -> ElementType {
        self.element
    }

    /// Some of the elements.
    ///
    /// # Panics
    /// If the range reaches beyond them.
    pub fn range(self, range: Range<usize>) -> Self {
        checked(&range, self.len);
        Self {
            start_bytes: self.start_bytes + self.element.num_bytes() * range.start,
            len: range.len(),
            ..self
        }
    }

    /// The same bytes as elements of another type: two of 16 bits have those of one `f32`.
    ///
    /// # Panics
    /// If they are no whole number of these.
    pub fn cast(self, element: ElementType) -> Self {
        Self { len: len_as(element, self.len, self.element), element, ..self }
    }

    /// The elements as a slice, for kernels of the host.
    ///
    /// # Panics
    /// If they are of another type, unless there are none; if a queue has something left to do with them.
    pub fn slice<E: Element>(self) -> &'a [E] {
        if !self.in_kernel {
            assert_settled(self.memory);
        }
        // SAFETY: the memory has these bytes, and lives as long as the view; any bits are an element. A view borrows them from a buffer as a shared slice
        // would: a `ViewMut` of them cannot exist meanwhile, and no kernel is left that was given one.
        unsafe {
            slice::from_raw_parts(self.memory.address_of(self.start_bytes, self.len, self.element), self.len)
        }
    }

    /// The elements as bytes, for messages to other processes.
    ///
    /// # Panics
    /// As [`View::slice`].
    pub fn bytes(self) -> &'a [u8] {
        with_element!(self.element, Of => {
            let elements = self.slice::<Of>();
            // SAFETY: these are the bytes of the elements; any byte can be read.
            unsafe { slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements)) }
        })
    }
}

impl<'a> ViewMut<'a> {
    /// All elements of a buffer that nobody else has a view of.
    pub(crate) fn new(memory: &'a mut Arc<Memory>) -> Self {
        let (len, element) = (memory.len(), memory.element_type());
        Self { memory, start_bytes: 0, len, element, in_kernel: false, unique: PhantomData }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What the elements are.
    pub fn element_type(&self) -> ElementType {
        self.element
    }

    /// The elements, to read.
    pub fn view(&self) -> View<'_> {
        View {
            memory: self.memory,
            start_bytes: self.start_bytes,
            len: self.len,
            element: self.element,
            in_kernel: self.in_kernel,
        }
    }

    /// The elements, to read from now on.
    pub fn into_view(self) -> View<'a> {
        View {
            memory: self.memory,
            start_bytes: self.start_bytes,
            len: self.len,
            element: self.element,
            in_kernel: self.in_kernel,
        }
    }

    /// The same elements, for a kernel that is not the last to write them.
    pub fn reborrow(&mut self) -> ViewMut<'_> {
        ViewMut {
            memory: self.memory,
            start_bytes: self.start_bytes,
            len: self.len,
            element: self.element,
            in_kernel: self.in_kernel,
            unique: PhantomData,
        }
    }

    /// Some of the elements.
    ///
    /// # Panics
    /// If the range reaches beyond them.
    pub fn range(self, range: Range<usize>) -> Self {
        checked(&range, self.len);
        Self {
            start_bytes: self.start_bytes + self.element.num_bytes() * range.start,
            len: range.len(),
            ..self
        }
    }

    /// The same bytes as elements of another type: two of 16 bits have those of one `f32`.
    ///
    /// # Panics
    /// If they are no whole number of these.
    pub fn cast(self, element: ElementType) -> Self {
        Self { len: len_as(element, self.len, self.element), element, ..self }
    }

    /// The first `count` elements, and the others.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn split_at(self, count: usize) -> (Self, Self) {
        let len = self.len;
        let [first, others] = self.disjoint([0..count, count..len]);
        (first, others)
    }

    /// Several ranges of the elements.
    ///
    /// # Panics
    /// If two of them overlap, or one reaches beyond the elements.
    pub fn disjoint<const K: usize>(self, ranges: [Range<usize>; K]) -> [Self; K] {
        for (index, range) in ranges.iter().enumerate() {
            checked(range, self.len);
            for other in &ranges[..index] {
                let apart = range.end <= other.start || other.end <= range.start;
                assert!(apart || range.is_empty() || other.is_empty(), "{range:?} overlaps {other:?}");
            }
        }
        let Self { memory, start_bytes, element, in_kernel, unique, .. } = self;
        array::from_fn(|index| Self {
            memory,
            start_bytes: start_bytes + element.num_bytes() * ranges[index].start,
            len: ranges[index].len(),
            element,
            in_kernel,
            unique,
        })
    }

    /// The elements as a slice, for kernels of the host.
    ///
    /// # Panics
    /// If they are of another type, unless there are none; if a queue has something left to do with them.
    pub fn slice<E: Element>(self) -> &'a mut [E] {
        if !self.in_kernel {
            assert_settled(self.memory);
        }
        // SAFETY: the memory has these bytes, and lives as long as the view; any bits are an element. A `ViewMut` borrows them from a buffer as a unique
        // slice would: it is made of a unique reference, `range` and `disjoint` use it up, and they cut pieces that are apart.
        unsafe {
            slice::from_raw_parts_mut(
                self.memory.address_of(self.start_bytes, self.len, self.element),
                self.len,
            )
        }
    }

    /// The elements as bytes, for messages from other processes.
    ///
    /// # Panics
    /// As [`ViewMut::slice`].
    pub fn bytes(self) -> &'a mut [u8] {
        with_element!(self.element, Of => {
            let elements = self.slice::<Of>();
            // SAFETY: these are the bytes of the elements; any bits are an element.
            unsafe { slice::from_raw_parts_mut(elements.as_mut_ptr().cast(), size_of_val(elements)) }
        })
    }
}

/// Elements that a kernel reads or writes later than it was asked for, kept for as long.
#[derive(Clone, Debug)]
pub(crate) struct Retained {
    memory: Arc<Memory>,
    start_bytes: usize,
    len: usize,
    element: ElementType,
}

impl View<'_> {
    /// Where the elements begin in the memory of the device of this number.
    ///
    /// # Panics
    /// If they are in another memory.
    pub(crate) fn address_on(self, device: u64) -> u64 {
        let owner = *self.memory.device.get_or_init(|| device);
        assert!(owner == device, "a buffer is used by the queues of one device alone");
        self.memory.device_address(self.start_bytes)
    }

    /// The elements for a queue of a device, of which there is one of this number.
    ///
    /// # Panics
    /// If another device has used the memory.
    pub(crate) fn retained(self, device: u64) -> Retained {
        let owner = *self.memory.device.get_or_init(|| device);
        assert!(owner == device, "a buffer is used by the queues of one device alone");
        Retained {
            memory: Arc::clone(self.memory),
            start_bytes: self.start_bytes,
            len: self.len,
            element: self.element,
        }
    }
}

impl ViewMut<'_> {
    /// As [`View::retained`].
    pub(crate) fn retained(self, device: u64) -> Retained {
        self.into_view().retained(device)
    }
}

impl Retained {
    /// Which memory, and which of its bytes.
    pub(crate) fn place(&self) -> (&Arc<Memory>, Range<usize>) {
        (&self.memory, self.start_bytes..self.start_bytes + self.len * self.element.num_bytes())
    }

    /// The elements, to read.
    ///
    /// # Safety
    /// Nobody writes them while the view is used, which the borrow checker does not know.
    pub(crate) unsafe fn view(&self) -> View<'_> {
        View {
            memory: &self.memory,
            start_bytes: self.start_bytes,
            len: self.len,
            element: self.element,
            in_kernel: true,
        }
    }

    /// The elements, to write.
    ///
    /// # Safety
    /// Nobody else reads or writes them while the view is used.
    pub(crate) unsafe fn view_mut(&self) -> ViewMut<'_> {
        ViewMut {
            memory: &self.memory,
            start_bytes: self.start_bytes,
            len: self.len,
            element: self.element,
            in_kernel: true,
            unique: PhantomData,
        }
    }
}

/// How many elements of type `to` have the bytes of so many others.
fn len_as(to: ElementType, len: usize, from: ElementType) -> usize {
    let num_bytes = len * from.num_bytes();
    assert!(
        num_bytes.is_multiple_of(to.num_bytes()),
        "{len} elements of {from:?} are no whole number of {to:?}"
    );
    num_bytes / to.num_bytes()
}

fn checked(range: &Range<usize>, len: usize) {
    assert!(range.start <= range.end && range.end <= len, "{range:?} reaches beyond {len} elements");
}

/// No kernel that runs later has something left to do with the memory: it would keep it until then.
fn assert_settled(memory: &Arc<Memory>) {
    let is_settled = Arc::strong_count(memory) == 1;
    assert!(is_settled, "a queue has something left to do with these elements; download them");
    // What a kernel wrote before it let go of the memory is seen from here on.
    fence(Ordering::Acquire);
}
