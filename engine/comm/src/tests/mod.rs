//! The threads backend in random orders of its threads.

mod shuttle_failures;
mod shuttle_operations;
