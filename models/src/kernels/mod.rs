//! The CPU's kernels: pure functions on slices, a forward and a backward side by side.
//!
//! Three rules hold for all of them, and the tests check that:
//! - no result depends on the number of threads: work is shared out over disjoint outputs only, never inside a sum;
//! - an elementwise kernel gives an element the same bits wherever it lies, so shards may be cut anywhere;
//! - sums over rows run in row order, and sums along a row in an order that depends on its length alone.
//!
//! Loops are plain Rust, compiled for the vector units that the machine has (`simd.rs`). Rust never contracts a
//! multiply and an add, so wide and narrow code give the same bits.

pub mod adamw;
pub mod attention;
pub mod bias;
pub mod convert;
pub mod cross_entropy;
pub mod distillation;
pub mod dropout;
pub mod embedding;
pub mod gelu;
pub mod head_norm;
pub mod linear;
pub mod matmul;
pub mod matrix;
pub mod norm;
pub mod philox;
pub mod rope;
pub mod sgd;
pub mod square_sum;
pub mod sum;
pub mod swiglu;

mod columns;
mod documents;
mod exp;
mod parallel;
mod row;
mod simd;

pub use simd::instruction_set;
