//! Closed forms that the figures of generated programs are held against.

mod bubble;
mod gathers;
mod in_flight;
mod makespan;
mod zero_bubble;

pub use bubble::{bubble_share, looped_bubble_share};
pub use gathers::{last_rank_gathers, strict_gathers};
pub use in_flight::{
    eager_1f1b_in_flight, interleaved_in_flight, longest_group, one_f_one_b_in_flight, zb_h1_in_flight,
    zb_h2_in_flight,
};
pub use makespan::{
    StageTimes, bfs_makespan, eager_1f1b_makespan, gpipe_makespan, interleaved_makespan, one_f_one_b_makespan,
};
pub use zero_bubble::{
    SplitTimes, zb_h1_makespan, zb_h2_longest_rank_span, zb_h2_makespan, zb_v_longest_rank_span,
    zb_v_makespan,
};

#[cfg(test)]
mod tests;
