//! Every generated program is accepted.

use alloc::vec::Vec;

use super::CheckedProgram;
use crate::chain::{Tying, UnitFacts};
use crate::generate::{forward_only, gpipe, one_f_one_b};
use crate::id::Stage;
use crate::lower::lower;
use crate::options::{LowerOptions, Residency};

fn units(num_stages: u32, per_stage: u32, tied: bool) -> Vec<UnitFacts> {
    let num_units = num_stages * per_stage;
    (0..num_units)
        .map(|unit| UnitFacts {
            stage: Stage(unit / per_stage),
            forward_reads_weights: true,
            backward_reads_weights: unit > 0,
            tying: match unit {
                0 if tied => Tying::Embedding,
                _ if tied && unit + 1 == num_units => Tying::Head,
                _ => Tying::Untied,
            },
        })
        .collect()
}

#[test]
fn smoke() {
    for p in 1..=4 {
        for m in 1..=8 {
            for per_stage in 1..=3 {
                for order in [gpipe(p, m), one_f_one_b(p, m), forward_only(p, m)] {
                    for options in [
                        LowerOptions::ZERO_0,
                        LowerOptions::ZERO_1,
                        LowerOptions::ZERO_2,
                        LowerOptions::zero_3(Residency::Strict, 0),
                        LowerOptions::zero_3(Residency::Strict, 1),
                    ] {
                        let program =
                            lower(order.as_ref().unwrap(), &units(p, per_stage, p * per_stage > 1), &options)
                                .unwrap();
                        if let Err(violation) = CheckedProgram::new(program) {
                            panic!("p {p} m {m} {options:?}: {violation}");
                        }
                    }
                }
            }
        }
    }
}
