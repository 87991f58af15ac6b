//! Strict JSON with places: text into nodes, nodes into types, and every mistake told by key, value, rule and repair at its
//! line and column.
//!
//! ```text
//! text -> parse -> Node -+-> Node::read    types that serde knows: costs files, traces, summaries
//!                        +-> `config`      the run file, whose sections know more than types
//! ```

mod error;
mod nearest;
mod node;
mod parse;
mod read;
mod source;

pub(crate) use error::JsonError;
pub(crate) use nearest::nearest;
pub(crate) use node::{Entry, Node, Value, join, shorten};
pub(crate) use parse::{parse, parse_file, parse_from};
pub(crate) use source::{Source, SourceKind, Span};

#[cfg(test)]
mod tests;
