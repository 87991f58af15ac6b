//! A number of resident units for each pipeline rank.

use crate::check::CheckedProgram;
use crate::generate::{gpipe, interleaved, one_f_one_b, zb_h1};
use crate::lower::lower;
use crate::options::LowerOptions;
use crate::testing::{mixed_units, resident, resident_in_turn, units};

/// A rank's gathers depend on its own number alone.
#[test]
fn each_rank_gathers_as_if_its_number_were_that_of_all() {
    for (p, m, prefetch_units) in
        (1..=4).flat_map(|p| [1, 4, 9].into_iter().flat_map(move |m| [0, 1].map(|prefetch| (p, m, prefetch))))
    {
        for (order, units) in [
            (one_f_one_b(p, m).unwrap(), mixed_units(p, 4)),
            (gpipe(p, m).unwrap(), units(p, 4, p > 1)),
            (zb_h1(p, m).unwrap(), units(p, 3, false)),
            (interleaved(p, 2, m, p).unwrap(), mixed_units(2 * p, 2)),
        ] {
            let lowered = |residency| {
                let options = LowerOptions::zero_3(residency, prefetch_units);
                lower(&order, &units, &options).unwrap()
            };
            let numbers = [4, 1 + prefetch_units, 3, 2];
            let listed = lowered(resident_in_turn(&numbers, p));
            for (rank, number) in listed.ranks().zip(numbers) {
                assert_eq!(
                    listed.row(rank),
                    lowered(resident(number)).row(rank),
                    "{rank} of {p}, {m} micro-batches"
                );
            }
            CheckedProgram::new(listed).unwrap();
        }
    }
}
