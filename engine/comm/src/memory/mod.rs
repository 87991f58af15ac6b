//! The memory of a rank: an [`Allocator`] charges every large buffer to a category of a [`Ledger`].
//!
//! What the plan predicts is compared with what the ledger measured, category by category.

mod allocator;
mod host_values;
mod ledger;
mod ledgers;
mod lendable;
mod tracked_buffer;

pub use allocator::Allocator;
pub use host_values::HostValues;
pub use ledger::Ledger;
pub use ledgers::Ledgers;
pub use lendable::Lendable;
pub use pipezero_partition::Category;
pub use tracked_buffer::Charge;
pub use tracked_buffer::TrackedBuffer;
