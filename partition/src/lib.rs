//! Which layers go to which stage and unit, and what that costs each rank in memory and traffic.
//!
//! # The problem
//!
//! A model is a chain of layers `l_0 -> l_1 -> ... -> l_{n-1}`: embeddings, transformer blocks, heads. On a grid of
//! `p` pipeline ranks and `d` data ranks it is cut twice:
//!
//! ```text
//! split   0 = b_0 < b_1 < ... < b_p = n         stage s has the layers b_s .. b_{s+1}
//! units   b_s = c_0 < c_1 < ... < c_k = b_{s+1}  unit j of stage s has the layers c_j .. c_{j+1}
//! ```
//!
//! A stage is what a pipeline rank computes, a unit is what its `d` data ranks gather at once under ZeRO-3. With
//! `|u|` for a unit's parameters, a rank of stage `s` then holds, of weights alone,
//!
//! ```text
//! sum over u in s of |u| / d   +   (1 + prefetch) * max over u in s of |u|
//! ```
//!
//! which beats the unsharded `sum |u|` only where units are small enough.
//!
//! # Five ways to split
//!
//! | split | makes even | sees |
//! |---|---|---|
//! | [`uniform()`] | transformer blocks | nothing else |
//! | [`manual()`] | what the user says | - |
//! | [`parameters()`] | parameters | embedding and head |
//! | [`by_type()`] | layers that match | - |
//! | [`balanced()`] | time | embedding, head, and the memory that each rank has |
//!
//! The last three are exact: no split has a smaller maximum, and among those that share it theirs is the most even.
//!
//! # From a graph to bytes
//!
//! ```
//! use pipezero_partition::{LayerGraph, LayerNode, LayerRole, Tying, UnitLayers, UnitSplit, uniform};
//!
//! let layer = |name: &str, role, num_parameters| LayerNode {
//!     name: name.to_owned(),
//!     role,
//!     tying: Tying::Untied,
//!     num_parameters,
//!     is_frozen: false,
//!     frozen_parameters: Vec::new(),
//!     forward_flops: 2 * num_parameters,
//!     saved_elements: 64,
//!     is_slice: false,
//!     is_input_encoder: false,
//! };
//! let mut layers = vec![layer("wte", LayerRole::Embedding, 512)];
//! layers.extend((0..4).map(|index| layer(&format!("h.{index}"), LayerRole::Block { index }, 768)));
//! layers.push(layer("lm_head", LayerRole::Head, 512));
//!
//! let graph = LayerGraph::chain(layers, &[64; 5])?;
//! let split = uniform(&graph, 2)?;
//! assert_eq!(split.layers(0), 0..3);
//! let units = UnitSplit::new(&graph, &split, UnitLayers::of_blocks(1).expect("1 is not 0"))?;
//! assert_eq!(units.iter().map(|unit| unit.layers.clone()).collect::<Vec<_>>(), [0..2, 2..3, 3..4, 4..6]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`RankMemory`] and [`Traffic`] are closed formulas over facts of one rank. Everything here is arithmetic on
//! numbers that the caller brings: this crate knows no tensor, no program, no file and no clock.

#![forbid(unsafe_code)]

mod balanced;
mod by_type;
mod element;
mod flat;
mod graph;
mod manual;
mod memory;
mod minimax;
mod parameters;
mod role;
mod shard_layout;
mod sharding_choice;
mod split;
mod states;
#[cfg(test)]
mod testing;
mod traffic;
mod uniform;
mod units;
mod zero;

pub use balanced::{BalanceError, Balanced, MemoryBound, balanced};
pub use by_type::by_type;
pub use element::ElementBytes;
pub use flat::{ALIGNMENT_ELEMENTS, padded_elements, shard_elements};
pub use graph::{GraphError, LayerGraph, LayerNode};
pub use manual::manual;
pub use memory::{Category, Purpose, RankFacts, RankMemory, ReductionTerms, StageFacts, UnitFacts};
pub use parameters::parameters;
pub use role::{LayerRole, Tying, UnitSharding};
pub use shard_layout::ShardLayout;
pub use sharding_choice::{
    BufferBounds, GatherCosts, RankChoice, RankCosts, RankRow, TRIED_WEIGHTS_MAX, WeightCosts, choose,
};
pub use split::{Split, SplitError};
pub use states::ModelStates;
pub use traffic::{
    LOSS_PART_WORDS, NORM_RECORD_WORDS, StageTraffic, Traffic, TrafficFacts, UnitTraffic, Volume, part_bytes,
};
pub use uniform::uniform;
pub use units::{Unit, UnitError, UnitLayers, UnitSplit, units_of_stage};
pub use zero::{ReductionPolicy, Sharding, WeightElements, ZeroLevel};
