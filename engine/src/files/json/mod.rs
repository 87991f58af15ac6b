//! JSON with places: text into nodes or types, and every mistake reported with key, value, rule and repair at its line and column. It
//! is strict, but for the comments and last commas of a run file.
//!
//! ```text
//! text -> Parser -+-> Node        the run file, whose sections know more than types; and whatever is refused
//!                 +-> serde's     types: costs files, traces, summaries
//! ```

mod error;
mod nearest;
mod node;
mod parse;
mod read;
mod relaxed;
mod source;
mod words;

pub(crate) use error::{Edit, JsonError};
pub(crate) use nearest::{is_slip, nearest};
pub(crate) use node::{Entry, Node, Value};
pub(crate) use parse::{parse, parse_first, parse_from};
pub(crate) use source::{Source, SourceKind, Span};
pub(crate) use words::{join, shorten};

#[cfg(test)]
mod tests;
