//! One conformance suite for every backend: what `pipezero_comm` promises, bit for bit.
//!
//! The suite knows a backend only by [`backend::Backend`], and its bodies assert inside the rank, so that ranks may as well
//! be processes.

mod backend;
mod delays;
mod exchanges;
mod refusals;

/// Makes the suite's tests for each backend, with attributes for its module and its tests.
macro_rules! conformance {
    ($($(#[$of_module:meta])? $backend:ident as $module:ident $(#[$of_test:meta])?),+ : $parts:tt) => {
        $($(#[$of_module])? mod $module { conformance! { @tests $backend $(#[$of_test])?: $parts } })+
    };
    (@tests $backend:ident $(#[$of_test:meta])?: { $($parts:tt)+ }) => {
        conformance! { @each $backend [$(#[$of_test])?] $($parts)+ }
    };
    (@each $backend:ident $of_test:tt $($part:ident::$test:ident),+ $(,)?) => {
        $(conformance! { @one $backend $of_test $part::$test })+
    };
    (@one $backend:ident [$(#[$of_test:meta])?] $part:ident::$test:ident) => {
        $(#[$of_test])?
        #[test]
        fn $test() {
            super::$part::$test::<super::backend::$backend>();
        }
    };
}

conformance! {
    Threads as threads, Shaped as shaped,
    #[cfg(feature = "mpi")] Mpi as mpi #[ignore = "needs a job of five processes"]: {
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
