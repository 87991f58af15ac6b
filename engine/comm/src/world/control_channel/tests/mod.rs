//! Processes that are threads here.

#[cfg(feature = "shuttle")]
mod in_memory;
mod over_tcp;
#[cfg(feature = "shuttle")]
mod shuttle_exchanges;
#[cfg(feature = "shuttle")]
mod shuttle_starts;
mod unknown_programs;
