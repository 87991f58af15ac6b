//! Attention: which kernels it takes, by the size of its heads, and their launches.

use super::arguments::{Argument, AttentionSizes, DropoutMasks, Grid, WIDE_BYTES};
use super::queue::{CudaQueue, launch};
use crate::element::ElementType;
use crate::kernels::attention::AttentionShape;
use crate::kernels::dropout::Masks;
use crate::memory::{View, ViewMut};
use crate::queue::{Attended, AttentionMask};

/// The kernels of an attention with heads of a size.
pub(super) struct AttentionKernels {
    pub(super) forward: &'static str,
    pub(super) backward_queries: &'static str,
    pub(super) backward_keys: &'static str,
    pub(super) num_threads: u32,
    /// Rows of queries or keys that a block takes.
    pub(super) num_rows: usize,
}

/// Whether kernels for tensor cores compute this shape.
fn on_tensor_cores(shape: AttentionShape, element: ElementType) -> bool {
    element != ElementType::F32 && shape.head_size.is_multiple_of(16) && shape.head_size <= 128
}

/// Kernels for tensor cores copy 16 bytes at once, which a GPU refuses elsewhere in a way that ends its context.
///
/// # Panics
/// If an address is not a multiple of that: [`layout`](crate::layout) begins pieces at more.
fn require_packs(shape: AttentionShape, element: ElementType, addresses: [u64; 2]) {
    let are_aligned = addresses.iter().all(|address| address.is_multiple_of(WIDE_BYTES as u64));
    assert!(are_aligned || !on_tensor_cores(shape, element), "attention in 16 bits at {addresses:x?}");
}

/// The kernels for tensor cores: of the forward, and of the backward of queries and of keys.
const MMA_64: [&str; 3] =
    ["attention_mma_64", "attention_mma_backward_queries_64", "attention_mma_backward_keys_64"];
const MMA_128: [&str; 3] =
    ["attention_mma_128", "attention_mma_backward_queries_128", "attention_mma_backward_keys_128"];
const MMA_64_DOCUMENTS: [&str; 3] = [
    "attention_mma_64_documents",
    "attention_mma_backward_queries_64_documents",
    "attention_mma_backward_keys_64_documents",
];
const MMA_128_DOCUMENTS: [&str; 3] = [
    "attention_mma_128_documents",
    "attention_mma_backward_queries_128_documents",
    "attention_mma_backward_keys_128_documents",
];

/// Elements of a head at most.
pub const HEAD_SIZE_MAX: usize = 256;

impl AttentionKernels {
    /// Those of a shape, for elements of a type, and for rows of several documents or of one. For tensor cores these are different
    /// kernels: what documents take would cost the others registers.
    ///
    /// # Panics
    /// If heads are larger than any kernel takes.
    pub(super) fn of(shape: AttentionShape, element: ElementType, has_documents: bool) -> Self {
        let on_tensor_cores = on_tensor_cores(shape, element);
        match shape.head_size {
            1..=128 if on_tensor_cores => {
                let [forward, backward_queries, backward_keys] = match (shape.head_size, has_documents) {
                    (..=64, false) => MMA_64,
                    (..=64, true) => MMA_64_DOCUMENTS,
                    (_, false) => MMA_128,
                    (_, true) => MMA_128_DOCUMENTS,
                };
                Self { forward, backward_queries, backward_keys, num_threads: 128, num_rows: 64 }
            }
            0..=64 => Self {
                forward: "attention_64",
                backward_queries: "attention_backward_queries_64",
                backward_keys: "attention_backward_keys_64",
                num_threads: 256,
                num_rows: 32,
            },
            65..=128 => Self {
                forward: "attention_128",
                backward_queries: "attention_backward_queries_128",
                backward_keys: "attention_backward_keys_128",
                num_threads: 256,
                num_rows: 16,
            },
            129..=HEAD_SIZE_MAX => Self {
                forward: "attention_256",
                backward_queries: "attention_backward_queries_256",
                backward_keys: "attention_backward_keys_256",
                num_threads: 128,
                num_rows: 4,
            },
            size => panic!("heads of {size} elements, and no kernel takes more than {HEAD_SIZE_MAX}"),
        }
    }

    /// A block for every few rows of each of so many heads of each sequence.
    fn grid(&self, shape: AttentionShape, num_heads: usize) -> Grid {
        let num_pairs = shape.num_sequences * num_heads;
        Grid::blocks(shape.seq_length.div_ceil(self.num_rows) * num_pairs).of_threads(self.num_threads)
    }
}

/// What is dropped; nothing, where there are no masks.
fn masks_of(masks: Option<Masks>, shape: AttentionShape) -> DropoutMasks {
    let none = DropoutMasks { seq_length: shape.seq_length as u32, ..DropoutMasks::default() };
    masks.map_or(none, DropoutMasks::of)
}

impl CudaQueue {
    /// As [`Queue::attention`](crate::queue::Queue::attention), without a workspace.
    pub(super) fn attend(
        &self,
        shape: AttentionShape,
        mask: AttentionMask<'_>,
        qkv: View<'_>,
        out: ViewMut<'_>,
        log_sum_exp: ViewMut<'_>,
    ) {
        let of = qkv.element_type();
        let kernels = AttentionKernels::of(shape, of, mask.document_starts.is_some());
        let (qkv, out) = (self.read_of(of, qkv), self.write_of(of, &out));
        require_packs(shape, of, [qkv, out]);
        let log_sum_exp = self.write(&log_sum_exp);
        let (grid, masks) = (kernels.grid(shape, shape.num_heads), masks_of(mask.dropout, shape));
        let (starts, sizes) = (self.read_any_words(mask.document_starts), AttentionSizes::of(shape));
        launch!(self, of, kernels.forward, grid, masks, qkv, out, log_sum_exp, starts, sizes);
    }

    /// As [`Queue::attention_backward`](crate::queue::Queue::attention_backward): the gradients of queries lie in the workspace until those of keys and
    /// values have read the queries.
    pub(super) fn attend_backward(
        &self,
        shape: AttentionShape,
        mask: AttentionMask<'_>,
        qkv: ViewMut<'_>,
        attended: Attended<'_>,
        dout: View<'_>,
        workspace: ViewMut<'_>,
    ) {
        let of = qkv.element_type();
        let kernels = AttentionKernels::of(shape, of, mask.document_starts.is_some());
        let (out, log_sum_exp) = (self.read_of(of, attended.out), self.read(attended.log_sum_exp));
        let num_elements = dout.len();
        let [dqueries, row_dots] =
            workspace.disjoint([0..num_elements, num_elements..num_elements + shape.num_log_sum_exp()]);
        // Elements of 16 bits fill half of the place of `dqueries`.
        let (dqueries, row_dots) = (self.write(&dqueries), self.write(&row_dots));
        let (qkv, dout) = (self.write_of(of, &qkv), self.read_of(of, dout));
        require_packs(shape, of, [qkv, dout]);
        let (masks, sizes) = (masks_of(mask.dropout, shape), AttentionSizes::of(shape));
        let starts = self.read_any_words(mask.document_starts);
        let grid = kernels.grid(shape, shape.num_heads);
        launch!(
            self,
            of,
            kernels.backward_queries,
            grid,
            masks,
            qkv,
            out,
            log_sum_exp,
            dout,
            dqueries,
            row_dots,
            starts,
            sizes
        );
        let grid = kernels.grid(shape, shape.num_kv_heads);
        let kernel = kernels.backward_keys;
        launch!(self, of, kernel, grid, masks, qkv, log_sum_exp, dout, row_dots, starts, sizes);
        let (grid, num_elements) = (Grid::elements(num_elements), num_elements as u64);
        launch!(self, of, "attention_put_queries", grid, dqueries, qkv, sizes, num_elements);
    }
}
