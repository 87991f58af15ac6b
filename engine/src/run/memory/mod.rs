//! The memory of a rank: every large allocation is charged to a category of its ledger.
//!
//! What the plan predicts is compared with what the [`Ledger`] measured, category by category, so nothing large may
//! be allocated without it.

mod available;
mod ledger;
mod lendable;
mod tracked_buffer;

pub use available::available_bytes;
pub use ledger::Ledger;
pub(crate) use lendable::Lendable;
pub use pipezero_partition::Category;
pub(crate) use tracked_buffer::Charge;
pub use tracked_buffer::TrackedBuffer;
