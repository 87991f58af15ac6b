//! Rows of programs in random orders of the ranks' threads, reduced to what ranks send each other.

mod messages;
mod programs;
mod shuttle_rows;
