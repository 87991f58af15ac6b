//! Whether FSDP units pay: when gathered copies and shards together are less than the weights themselves.
//!
//! Under ZeRO-3 a data rank of a stage with `layers` parameters holds its shard, `layers / d`, and at the high-water
//! mark `1 + prefetch` gathered units. Without sharding it holds `layers`. So units save weight memory only where
//!
//! ```text
//! unit * (1 + prefetch)  <  layers * (1 - 1/d)
//! ```
//!
//! A stage of 12 layers at `d = 2` in 3 units of 4 layers with one unit of prefetch holds 8 gathered layers and a
//! shard of 6: 14 layers where the unsharded stage has 12. Units of 2 layers hold 4 + 6 = 10.
//!
//! Padding is left out on purpose: the rule is about the model, and must not flip on a few elements of alignment.

/// One stage's sizes, for the comparison. Decided in whole numbers, so that equality never depends on rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakEven {
    /// Parameters of the stage's largest unit.
    pub unit_parameters: u64,
    /// Parameters of the whole stage.
    pub stage_parameters: u64,
    /// How many uses ahead a gather is issued.
    pub prefetch_units: u64,
    /// Data ranks, at least 1.
    pub data_degree: u64,
}

impl BreakEven {
    /// Parameters in gathered copies at the high-water mark: `unit * (1 + prefetch)`.
    pub fn gathered_parameters(&self) -> u64 {
        self.unit_parameters.saturating_mul(self.prefetch_units.saturating_add(1))
    }

    /// Whether the units hold fewer weights than no sharding would: the inequality of the module's head, strict.
    pub fn pays(&self) -> bool {
        // With x gathered: x < n (1 - 1/d)  <=>  x < n and n < d (n - x). This form fits 128 bits for any input.
        let freed = self.stage_parameters.saturating_sub(self.gathered_parameters());
        u128::from(self.stage_parameters) < u128::from(self.data_degree) * u128::from(freed)
    }

    /// Parameters of the largest unit that would pay in this stage; 0 where none does (one data rank).
    pub fn largest_paying_unit(&self) -> u64 {
        // x <= n - floor(n / d) - 1 is the largest x with n < d (n - x).
        let shard = self.stage_parameters / self.data_degree.max(1);
        let gathered = self.stage_parameters.saturating_sub(shard).saturating_sub(1);
        gathered / self.prefetch_units.saturating_add(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage_of_twelve(unit_parameters: u64, prefetch_units: u64, data_degree: u64) -> BreakEven {
        BreakEven { unit_parameters, stage_parameters: 12, prefetch_units, data_degree }
    }

    #[test]
    fn the_twelve_layer_stage_breaks_even_where_it_should() {
        // At d = 2 the limit is 6 layers gathered: units of 5 without prefetch, of 2 with one unit of prefetch.
        assert!(!stage_of_twelve(4, 1, 2).pays());
        assert_eq!(stage_of_twelve(4, 0, 2).largest_paying_unit(), 5);
        assert_eq!(stage_of_twelve(4, 1, 2).largest_paying_unit(), 2);
        // More data ranks make room: at d = 4 nine layers may be gathered, and 4 + 4 fit.
        assert!(stage_of_twelve(4, 1, 4).pays());
    }

    #[test]
    fn agrees_with_rational_arithmetic_on_all_small_cases() {
        for stage_parameters in 0..=24 {
            for unit_parameters in 0..=stage_parameters {
                for prefetch_units in 0..=3 {
                    for data_degree in 1..=6 {
                        let case =
                            BreakEven { unit_parameters, stage_parameters, prefetch_units, data_degree };
                        let exact = unit_parameters * (1 + prefetch_units) * data_degree
                            < stage_parameters * (data_degree - 1);
                        assert_eq!(case.pays(), exact, "{case:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_largest_paying_unit_pays_and_the_next_does_not() {
        for stage_parameters in 1..=40 {
            for prefetch_units in 0..=3 {
                for data_degree in 1..=6 {
                    let of = |unit_parameters| BreakEven {
                        unit_parameters,
                        stage_parameters,
                        prefetch_units,
                        data_degree,
                    };
                    let largest = of(1).largest_paying_unit();
                    assert!(largest == 0 || of(largest).pays(), "{:?}", of(largest));
                    assert!(!of(largest + 1).pays(), "{:?}", of(largest + 1));
                }
            }
        }
    }

    #[test]
    fn the_largest_numbers_do_not_overflow() {
        let case = BreakEven {
            unit_parameters: u64::MAX,
            stage_parameters: u64::MAX,
            prefetch_units: u64::MAX,
            data_degree: u64::MAX,
        };
        assert!(!case.pays());
        assert_eq!(case.gathered_parameters(), u64::MAX);
    }
}
