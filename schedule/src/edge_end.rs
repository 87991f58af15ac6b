//! One end of an edge, along a row: its transfers, and the computes that make their messages or read them.

use alloc::vec::Vec;

use crate::id::MicroBatch;

/// The sending or the receiving end of an edge, up to some place in its row.
#[derive(Clone)]
pub(crate) struct EdgeEnd {
    /// `[micro-batch]`: position of the compute that makes the message (at the sender) or reads it (at the receiver).
    compute: Vec<Option<usize>>,
    /// `[micro-batch]`: position of the transfer.
    transfer: Vec<Option<usize>>,
    /// The messages in the order of their transfers.
    transfers: Vec<MicroBatch>,
    /// The messages in the order of their computes.
    computes: Vec<MicroBatch>,
}

impl EdgeEnd {
    /// The end before its row begins.
    pub(crate) fn new(num_micro_batches: u32) -> Self {
        let none = vec![None; num_micro_batches as usize];
        Self { compute: none.clone(), transfer: none, transfers: Vec::new(), computes: Vec::new() }
    }

    /// Where a message is made or read, if it has been.
    pub(crate) fn compute(&self, micro_batch: MicroBatch) -> Option<usize> {
        self.compute[micro_batch.index()]
    }

    /// Where a message is sent or received, if it has been.
    pub(crate) fn transfer(&self, micro_batch: MicroBatch) -> Option<usize> {
        self.transfer[micro_batch.index()]
    }

    /// The messages in the order of their transfers.
    pub(crate) fn transfers(&self) -> &[MicroBatch] {
        &self.transfers
    }

    /// The message that had the buffer of the next transfer before, where transfers take buffers in turn.
    pub(crate) fn before_next_transfer(&self, num_buffers: usize) -> Option<MicroBatch> {
        Some(self.transfers[self.transfers.len().checked_sub(num_buffers)?])
    }

    /// The message that had the buffer of the next compute before, where computes take buffers in turn.
    pub(crate) fn before_next_compute(&self, num_buffers: usize) -> Option<MicroBatch> {
        Some(self.computes[self.computes.len().checked_sub(num_buffers)?])
    }

    pub(crate) fn add_compute(&mut self, index: usize, micro_batch: MicroBatch) {
        self.compute[micro_batch.index()] = Some(index);
        self.computes.push(micro_batch);
    }

    pub(crate) fn add_transfer(&mut self, index: usize, micro_batch: MicroBatch) {
        self.transfer[micro_batch.index()] = Some(index);
        self.transfers.push(micro_batch);
    }
}
