//! What kernels are launched with.

use std::ffi::c_void;
use std::fmt;

use cudarc::driver::{CudaFunction, CudaStream, DriverError, result};

use crate::element::ElementType;
use crate::kernels::adamw::AdamWNumbers;
use crate::kernels::attention::AttentionShape;
use crate::kernels::dropout::Masks;
use crate::kernels::rope::{Rope, Turn};

/// Threads of a block, where a kernel says nothing else.
pub(super) const NUM_THREADS: u32 = 256;

/// Warps of such a block.
pub(super) const NUM_BLOCK_WARPS: usize = 8;

/// The most that a thread reads or writes at once, as `kernels/wide.cuh` has it.
pub(super) const WIDE_BYTES: usize = 16;

/// Neighbouring packs of columns of a block that adds up rows, as `kernels/column_sums.cuh` has it.
pub(super) const NUM_BLOCK_PACKS: usize = 2;

/// Blocks of a launch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    num_blocks: u32,
    num_threads: u32,
}

impl Grid {
    /// A thread for each of so many elements.
    pub(super) fn elements(len: usize) -> Self {
        Self::blocks(len.div_ceil(NUM_THREADS as usize))
    }

    /// A thread for each pack of the elements, those of 16 bytes: see `kernels/wide.cuh`.
    pub(super) fn packs(len: usize, element: ElementType) -> Self {
        Self::elements(len.div_ceil(num_pack_elements(element)))
    }

    /// A block for every few packs of columns: see `column_totals` in `kernels/column_sums.cuh`.
    pub(super) fn columns(num_columns: usize, element: ElementType) -> Self {
        Self::blocks(num_columns.div_ceil(NUM_BLOCK_PACKS * num_pack_elements(element)))
    }

    /// A warp for each of so many rows.
    pub(super) fn row_warps(num_rows: usize) -> Self {
        Self::blocks(num_rows.div_ceil(NUM_BLOCK_WARPS))
    }

    /// So many blocks.
    ///
    /// # Panics
    /// If no launch has so many.
    pub(super) fn blocks(num_blocks: usize) -> Self {
        let num_blocks = i32::try_from(num_blocks).expect("a launch of fewer blocks than 2^31");
        Self { num_blocks: num_blocks.cast_unsigned(), num_threads: NUM_THREADS }
    }

    /// Whether there is nothing to launch.
    pub(super) fn is_empty(self) -> bool {
        self.num_blocks == 0
    }

    /// The same with so many warps in a block, one at least and as many as usual at most.
    pub(super) fn of_warps(self, num_warps: usize) -> Self {
        let num_warp_threads = NUM_THREADS / NUM_BLOCK_WARPS as u32;
        self.of_threads(num_warp_threads * num_warps.clamp(1, NUM_BLOCK_WARPS) as u32)
    }

    /// The same with so many threads in a block.
    pub(super) fn of_threads(self, num_threads: u32) -> Self {
        Self { num_threads, ..self }
    }
}

/// Blocks x threads of each.
impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {}", self.num_blocks, self.num_threads)
    }
}

/// Elements of 16 bytes.
fn num_pack_elements(element: ElementType) -> usize {
    WIDE_BYTES / element.num_bytes()
}

/// An argument of a kernel: a value that the device lays out as the host does.
///
/// # Safety
/// It has no padding, and means on the device what it means here.
pub(super) unsafe trait Argument {
    /// Where it is.
    fn pointer(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }
}

// SAFETY: numbers and addresses are the same on both sides.
unsafe impl Argument for u64 {}
// SAFETY: as above.
unsafe impl Argument for u32 {}
// SAFETY: as above.
unsafe impl Argument for i32 {}
// SAFETY: as above.
unsafe impl Argument for f32 {}
// SAFETY: fields without padding, in the order of `AdamWNumbers` in `kernels/adamw.cu`.
unsafe impl Argument for AdamWNumbers {}
// SAFETY: as `DropoutMasks` in `kernels/common.cuh`.
unsafe impl Argument for DropoutMasks {}
// SAFETY: as `AttentionSizes` in `kernels/heads.cuh`.
unsafe impl Argument for AttentionSizes {}
// SAFETY: as `RopeAngles` in `kernels/rope.cu`.
unsafe impl Argument for RopeAngles {}
// SAFETY: as `SumTerms` in `kernels/sum.cu`.
unsafe impl Argument for SumTerms {}

/// What is dropped in a micro-batch, at one place of the model.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct DropoutMasks {
    pub(super) seed: u64,
    pub(super) step: u64,
    pub(super) first_sequence: u64,
    pub(super) place: u32,
    /// 0 drops nothing.
    pub(super) threshold: u32,
    pub(super) scale: f32,
    pub(super) seq_length: u32,
}

impl DropoutMasks {
    pub(super) fn of(masks: Masks) -> Self {
        let (key, place, threshold, scale, seq_length) = masks.parts();
        Self {
            seed: key.seed,
            step: key.step,
            first_sequence: key.first_sequence,
            place,
            threshold,
            scale,
            seq_length: seq_length as u32,
        }
    }
}

/// How many heads of which size there are.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct AttentionSizes {
    seq_length: u32,
    num_heads: u32,
    num_kv_heads: u32,
    head_size: u32,
}

impl AttentionSizes {
    /// # Panics
    /// If heads of queries are not as many to each of keys.
    pub(super) fn of(shape: AttentionShape) -> Self {
        let AttentionShape { num_heads, num_kv_heads, .. } = shape;
        assert!(num_heads.is_multiple_of(num_kv_heads), "heads that share heads of keys: {shape:?}");
        Self {
            seq_length: shape.seq_length as u32,
            num_heads: num_heads as u32,
            num_kv_heads: num_kv_heads as u32,
            head_size: shape.head_size as u32,
        }
    }
}

/// Pairs of a head that are turned, at most, as `kernels/rope.cu` has it.
pub(super) const NUM_ROPE_PAIRS_MAX: usize = 128;

/// By which angles heads are turned.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct RopeAngles {
    frequencies: [f32; NUM_ROPE_PAIRS_MAX],
    sine_scale: f32,
    cosine_scale: f32,
}

impl RopeAngles {
    /// # Panics
    /// If there are more frequencies than [`NUM_ROPE_PAIRS_MAX`].
    pub(super) fn of(rope: &Rope, turn: Turn) -> Self {
        let mut frequencies = [0.0; NUM_ROPE_PAIRS_MAX];
        frequencies[..rope.frequencies.len()].copy_from_slice(&rope.frequencies);
        let sine_scale = match turn {
            Turn::Forward => rope.scale,
            Turn::Backward => -rope.scale,
        };
        Self { frequencies, sine_scale, cosine_scale: rope.scale }
    }
}

/// Terms of a sum at most: they are one argument of a kernel, and arguments have 4 KiB in all.
pub const NUM_TERMS_MAX: usize = 64;

/// Terms of a sum, in order.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct SumTerms {
    terms: [u64; NUM_TERMS_MAX],
    num_terms: u64,
}

impl SumTerms {
    /// # Panics
    /// If there are more than [`NUM_TERMS_MAX`].
    pub(super) fn new(addresses: &[u64]) -> Self {
        assert!(addresses.len() <= NUM_TERMS_MAX, "a sum of {} terms", addresses.len());
        let mut terms = [0; NUM_TERMS_MAX];
        terms[..addresses.len()].copy_from_slice(addresses);
        Self { terms, num_terms: addresses.len() as u64 }
    }
}

/// Launches a kernel; nothing, where there are no blocks.
///
/// # Safety
/// The arguments are the kernel's in number, order and type, and the memory that they name is there until the stream has come to the
/// kernel, for nobody else where it writes.
pub(super) unsafe fn launch(
    stream: &CudaStream,
    kernel: &CudaFunction,
    grid: Grid,
    arguments: &[&dyn Argument],
) -> Result<(), DriverError> {
    let mut pointers: Vec<*mut c_void> = arguments.iter().map(|argument| argument.pointer()).collect();
    // SAFETY: the arguments are read before the call returns; the rest is the caller's promise.
    unsafe {
        result::launch_kernel(
            kernel.cu_function(),
            (grid.num_blocks, 1, 1),
            (grid.num_threads, 1, 1),
            0,
            stream.cu_stream(),
            &mut pointers,
        )
    }
}
