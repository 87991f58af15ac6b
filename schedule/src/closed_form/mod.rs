//! Closed forms that the figures of generated programs are held against.

mod bubble;
mod gathers;
mod in_flight;
mod makespan;

pub use bubble::{bubble_share, looped_bubble_share};
pub use gathers::{last_rank_gathers, strict_gathers};
pub use in_flight::{
    bfs_in_flight, eager_1f1b_in_flight, gpipe_in_flight, interleaved_in_flight, longest_group,
    one_f_one_b_in_flight,
};
pub use makespan::{
    StageTimes, bfs_makespan, eager_1f1b_makespan, gpipe_makespan, interleaved_makespan, one_f_one_b_makespan,
};

#[cfg(test)]
mod tests;
