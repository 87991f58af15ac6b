//! Conversations as a model reads them: the chat template of its tokenizer, as transformers renders it, and what the assistant says in the result.
//!
//! ```text
//! object in JSON --Conversation--> messages --ChatTemplate--> text, and which of it the assistant says
//! ```
//!
//! Templates are programs in Jinja, by which models are published. They are run by minijinja with Python's names for methods, values written as
//! Python writes them, and a bound on the work and the memory of each rendering.

mod bounded_value;
mod conversation;
mod date;
mod fault;
mod files;
mod generation;
mod python;
mod targets;
mod template;
#[cfg(test)]
mod tests;

pub use conversation::{ASSISTANT, Conversation};
pub use date::Date;
pub use fault::ChatFault;
pub use targets::Targets;
pub use template::ChatTemplate;
