//! How processes find each other, or do not.

use std::time::Duration;

use shuttle::rand::{Rng, thread_rng};

use super::in_memory::{Coordinator, in_processes, member};
use crate::sync::testing::in_random_orders;
use crate::testing::while_time_passes;
use crate::world::{ControlChannelError, Member};

const TIMEOUT: Duration = Duration::from_secs(1);

#[test]
fn processes_that_do_not_fit_together_all_hear_why() {
    in_random_orders(1200, || {
        let coordinator = [Coordinator::Stays, Coordinator::Ends][thread_rng().gen_range(0..2)];
        let twice = [0..1, 1..2, 1..2].map(|ranks| member(3, ranks, TIMEOUT));
        for given in in_processes(3, &twice, coordinator, |_| ()) {
            let error = given.unwrap_err();
            assert!(matches!(&error, ControlChannelError::Refused(_)), "{error:?}");
        }
        let other = Member { program: "pipezero 1.1".to_owned(), ..member(2, 1..2, TIMEOUT) };
        for given in in_processes(2, &[member(2, 0..1, TIMEOUT), other], coordinator, |_| ()) {
            let error = given.unwrap_err().to_string();
            assert!(error.starts_with("the process of rank 1 runs pipezero 1.1"), "{error}");
        }
    });
}

#[test]
fn who_waits_for_processes_that_do_not_come_is_told_in_time() {
    in_random_orders(400, || {
        while_time_passes(TIMEOUT / 2, || {
            for given in in_processes(
                3,
                &[member(3, 0..1, TIMEOUT), member(3, 1..2, TIMEOUT)],
                Coordinator::Ends,
                |_| (),
            ) {
                let error = given.unwrap_err();
                // One of them gives up first and ends, which the other is told if its time is not up.
                let is_expected = match &error {
                    ControlChannelError::Missing { waited, .. } => *waited >= TIMEOUT,
                    error => matches!(error, ControlChannelError::Refused(_)),
                };
                assert!(is_expected, "{error:?}");
            }
        });
    });
}
