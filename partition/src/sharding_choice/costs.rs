//! What a choice is made from: the costs of each weight of a rank, and its row.

/// One weight of a rank: a unit, or both uses of a tied weight if both are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightCosts {
    /// Its elements.
    pub num_elements: u64,
    /// Its elements that are trained.
    pub num_trained: u64,
    /// Bytes of the gathered weight.
    pub gathered_bytes: u64,
    /// `[kind]`, by [`UnitSharding`](crate::UnitSharding): bytes that the rank holds of it between uses; buffers are not counted. What
    /// all kinds have in common may be left to the rank's fixed bytes, here and below.
    pub at_rest_bytes: [u64; 3],
    /// `[kind]`: bytes that the rank sends for it in a step; gathers before uses are not counted.
    pub sent_bytes: [u64; 3],
    /// Whether it may be nothing but whole.
    pub must_be_whole: bool,
    /// The number of the tied weight whose other use is on another rank, if it is one.
    pub tied: Option<usize>,
}

/// What a rank gathers if some of its weights are sharded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GatherCosts {
    /// Bytes of all gather buffers.
    pub buffer_bytes: u64,
    /// `[weight]`: bytes that the rank sends in its gathers before uses.
    pub sent_bytes: Vec<u64>,
}

/// Between how many bytes all gather buffers of a rank have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferBounds {
    /// No fewer.
    pub least_bytes: u64,
    /// No more.
    pub most_bytes: u64,
}

/// A rank's row of a program, asked what it would need for other choices.
pub trait RankRow {
    /// What is known of gather buffers without planning the row, if these weights are sharded: an entry for each weight.
    fn buffer_bounds(&self, is_sharded: &[bool]) -> BufferBounds;

    /// Gathers if these weights are sharded.
    fn gathers(&self, is_sharded: &[bool]) -> GatherCosts;

    /// Bytes of all gradient buffers if these weights' gradients are reduced after every micro-batch.
    fn gradient_buffer_bytes(&self, is_reduced_often: &[bool]) -> u64;
}

/// What is to be chosen for one rank.
#[derive(Clone, Debug)]
pub struct RankCosts<R> {
    /// Its weights.
    pub weights: Vec<WeightCosts>,
    /// Bytes that it holds whatever is chosen.
    pub fixed_peak_bytes: u64,
    /// Bytes that it sends whatever is chosen.
    pub fixed_sent_bytes: u64,
    /// Whether it may do what ZeRO-2 does ([`WeightElements`](crate::WeightElements)).
    pub may_be_zero_2: bool,
    /// Its row.
    pub row: R,
}
