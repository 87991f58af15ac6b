//! One conformance suite for every backend: what `pipezero::run::comm` promises, bit for bit.
//!
//! The suite knows a backend only by [`backend::Backend`], and its bodies assert inside the rank, so that ranks may as well
//! be processes.

mod backend;
mod delays;
mod exchanges;
mod refusals;

/// Makes the suite's tests for each backend.
macro_rules! conformance {
    ($($backend:ident as $module:ident),+: $parts:tt) => {
        $(mod $module { conformance! { @tests $backend: $parts } })+
    };
    (@tests $backend:ident: { $($part:ident::$test:ident),+ $(,)? }) => {
        $(#[test]
        fn $test() {
            super::$part::$test::<super::backend::$backend>();
        })+
    };
}

conformance! {
    Threads as threads, Shaped as shaped: {
        exchanges::an_all_gather_fills_the_other_parts_and_touches_nothing_else,
        exchanges::elements_of_every_type_are_gathered_and_sent,
        exchanges::a_reduce_scatter_adds_in_rank_order,
        exchanges::an_all_reduce_is_a_reduce_scatter_and_an_all_gather,
        exchanges::words_are_added_wrapping,
        exchanges::every_pair_exchanges_at_once,
        exchanges::many_operations_are_in_flight_on_every_channel,
        exchanges::groups_that_share_members_do_not_mix,
        exchanges::a_group_of_one_leaves_buffers_unchanged,
        exchanges::an_abandoned_operation_still_serves_its_peers,
        exchanges::counts_are_those_of_the_direct_exchange,
        exchanges::narrow_elements_are_half_the_bytes,
        refusals::what_has_no_equal_parts_is_refused_before_any_traffic,
        refusals::what_reaches_beyond_its_buffer_is_refused_before_any_traffic,
        refusals::sums_of_narrow_elements_are_refused_before_any_traffic,
        refusals::ranks_outside_the_group_or_world_are_refused_before_any_traffic,
        refusals::a_mismatch_reaches_every_member,
        refusals::a_wait_is_bounded_and_names_who_is_missing,
        refusals::a_stop_ends_waits_and_refuses_starts,
    }
}
