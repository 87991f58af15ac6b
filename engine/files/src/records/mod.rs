//! The documents of a file of training data, read one after the other in bounded memory: pieces of a text, lines of JSON, or the entries of a
//! list in JSON.
//!
//! ```text
//! name, first bytes --Layout--> how documents follow each other --read--> one record at a time
//! ```
//!
//! A list in JSON is never parsed as a whole: an entry is cut out of it by counting brackets outside of strings, and parsed on its own by whoever
//! asked for it. So a file may be larger than the memory, and work that was interrupted can go on between two entries.

mod conversation;
mod entry;
mod error;
mod iterate;
mod layout;
mod read;
#[cfg(test)]
mod tests;

pub use conversation::{COMPLETION, INSTRUCTION, MESSAGES, OUTPUT, PROMPT, first_with_conversations};
pub use error::{RecordError, RecordFault};
pub use iterate::Records;
pub use layout::{Layout, begins_as_json, is_json, is_json_lines};
pub use read::{Record, read};

/// Bytes of the longest record that is read. A record is read whole, since its tokens depend on what stands beside them, and each takes more
/// than a hundred bytes meanwhile.
pub const RECORD_BYTES_MAX: usize = 64 << 20;
