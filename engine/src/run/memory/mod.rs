//! Memory with a name on it: every large allocation of a rank is charged to a category.
//!
//! What the plan predicts is compared with what the [`Ledger`] measured, category by category, so nothing large may
//! be allocated past it.

mod available;
mod ledger;
mod tagged;

pub use available::available_bytes;
pub use ledger::Ledger;
pub use pipezero_partition::Category;
pub(crate) use tagged::Charge;
pub use tagged::Tagged;
