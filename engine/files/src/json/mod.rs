//! JSON with places: text into nodes or types, and every mistake reported with key, value, rule and repair at its line and column. It
//! is strict, but for the comments and last commas of a run file.
//!
//! ```text
//! text -> Parser -+-> Node        the run file, whose sections know more than types; and whatever is refused
//!                 +-> serde's     types: costs files, traces, summaries
//! ```

mod error;
pub mod nearest;
mod node;
pub mod parse;
mod read;
mod relaxed;
mod source;
mod source_code;
mod words;

pub use error::{Edit, JsonError};
pub use nearest::{is_slip, nearest};
pub use node::{Entry, Node, Value};
pub use parse::{parse, parse_first, parse_from};
pub use source::{Source, SourceKind, Span};
pub use words::{join, shorten};

#[cfg(test)]
mod tests;
