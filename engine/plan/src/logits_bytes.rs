//! What the logits of whole batches take, beside what a plan allocates.

use pipezero_models::ElementType;

use super::Plan;

/// Bytes of f32.
fn bytes_of(sizes: impl IntoIterator<Item = usize>) -> u64 {
    let sizes = sizes.into_iter().map(|size| size as u64);
    sizes.fold(ElementType::F32.num_bytes() as u64, u64::saturating_mul)
}

impl Plan {
    /// Bytes of all logits of a batch, in the host's memory: `4 * sequences * T * V`.
    pub fn batch_logits_bytes(&self) -> u64 {
        let (sequences, seq_length) = (self.run.batch.train_batch_size, self.shape.seq_length);
        bytes_of([sequences, seq_length, self.num_logits()])
    }

    /// Bytes of the logits of a micro-batch, which those of these ranks hold that have the head, while all of a batch are computed:
    /// `4 * B * T * V` each.
    pub fn micro_batch_logits_bytes(&self, ranks: impl IntoIterator<Item = usize>) -> u64 {
        let head = self.pipeline_rank_of(self.unit(self.head()).stage);
        let of_heads = ranks.into_iter().filter(|&rank| self.grid.pipeline_rank(rank) == head.index());
        (of_heads.count() as u64).saturating_mul(bytes_of([self.shape.num_tokens(), self.num_logits()]))
    }
}
