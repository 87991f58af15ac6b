//! Whether FSDP units pay: when gathered copies and shards together are less than the weights themselves.
//!
//! Under ZeRO-3 a data rank holds its shard of the stage, `stage / d`, and at the high-water mark so many gathered
//! units: `1 + prefetch` of them when strict, else `resident_units`. Without sharding it holds `stage`. So units save
//! weight memory only where
//!
//! ```text
//! unit * gathered units  <  stage * (1 - 1/d)
//! ```
//!
//! A stage of 12 layers at `d = 2` in 3 units of 4 layers with one unit of prefetch holds 8 gathered layers and a
//! shard of 6: 14 layers where the unsharded stage has 12. Units of 2 layers hold 4 + 6 = 10.
//!
//! Padding is left out on purpose: the rule is about the model, and must not flip on a few elements of alignment.

/// One stage's sizes, for the comparison; both in one measure, be it parameters, layers or half layers.
///
/// Decided in whole numbers, so that equality never depends on rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakEven {
    /// The size of the stage's largest unit.
    pub unit_size: u64,
    /// The size of the whole stage.
    pub stage_size: u64,
    /// Units gathered at once, at least 1: `1 + prefetch_units` when strict, else `resident_units`.
    pub gathered_units: u64,
    /// Data ranks, at least 1.
    pub data_degree: u64,
}

impl BreakEven {
    /// Gathered copies at the high-water mark: `unit * gathered units`.
    pub fn gathered_size(&self) -> u64 {
        self.unit_size.saturating_mul(self.gathered_units)
    }

    /// What a data rank holds between uses: `stage / d`.
    pub fn shard_size(&self) -> f64 {
        self.stage_size as f64 / self.data_degree.max(1) as f64
    }

    /// What gathered copies must stay below: `stage * (1 - 1/d)`.
    pub fn limit_size(&self) -> f64 {
        self.stage_size as f64 - self.shard_size()
    }

    /// Whether the units hold fewer weights than no sharding would: the inequality of the module's head, strict.
    pub fn pays(&self) -> bool {
        // With x gathered: x < n (1 - 1/d)  <=>  x < n and n < d (n - x). This form fits 128 bits for any input.
        let freed = self.stage_size.saturating_sub(self.gathered_size());
        u128::from(self.stage_size) < u128::from(self.data_degree) * u128::from(freed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage_of_twelve(unit_size: u64, gathered_units: u64, data_degree: u64) -> BreakEven {
        BreakEven { unit_size, stage_size: 12, gathered_units, data_degree }
    }

    #[test]
    fn the_twelve_layer_stage_breaks_even_where_it_should() {
        // At d = 2 the limit is 6 layers gathered: units of 5 without prefetch, of 2 with one unit of prefetch.
        let case = stage_of_twelve(4, 2, 2);
        assert!(!case.pays());
        assert_eq!((case.gathered_size(), case.shard_size(), case.limit_size()), (8, 6.0, 6.0));
        // With more data ranks more fits: at d = 4 nine layers may be gathered, and 4 + 4 fit.
        assert!(stage_of_twelve(4, 2, 4).pays());
        // Residency spends it: three units of 4 are the stage itself.
        assert!(!stage_of_twelve(4, 3, 4).pays());
        // The same in half layers.
        let halves = BreakEven { unit_size: 8, stage_size: 24, gathered_units: 2, data_degree: 4 };
        assert!(halves.pays());
    }

    #[test]
    fn agrees_with_rational_arithmetic_on_all_small_cases() {
        for stage_size in 0..=24 {
            for unit_size in 0..=stage_size {
                for gathered_units in 1..=4 {
                    for data_degree in 1..=6 {
                        let case = BreakEven { unit_size, stage_size, gathered_units, data_degree };
                        let exact = unit_size * gathered_units * data_degree < stage_size * (data_degree - 1);
                        assert_eq!(case.pays(), exact, "{case:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_largest_numbers_do_not_overflow() {
        let case = BreakEven {
            unit_size: u64::MAX,
            stage_size: u64::MAX,
            gathered_units: u64::MAX,
            data_degree: u64::MAX,
        };
        assert!(!case.pays());
        assert_eq!(case.gathered_size(), u64::MAX);
    }
}
