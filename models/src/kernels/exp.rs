//! The exponential in plain f32 arithmetic, so that loops over it vectorise.
//!
//! A call into the C library would run element by element and differ between machines.

/// Below, `2^n` would leave the normal numbers.
const SMALLEST: f32 = -87.33;
/// Above, `n` would leave the exponent's range.
const LARGEST: f32 = 88.37;
/// `1.5 * 2^23`: adding it rounds to the nearest integer and leaves that integer in the low bits.
const ROUND: f32 = 12_582_912.0;
/// The upper bits of ln 2: its product with any `n` in range is exact.
const LN_2_HIGH: f32 = 355.0 / 512.0;
/// ln 2 less its upper bits.
const LN_2_LOW: f32 = -2.121_944_4e-4;

/// `e^x` within two units in the last place; arguments outside [-87.33, 88.37] count as the nearer end, NaN stays.
///
/// `e^x = 2^n e^r` with `|r| <= ln(2)/2`, and a polynomial for `e^r`. Method and coefficients: Cephes, `expf`.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    // Comparisons rather than `clamp`, `min` and `max`: these let NaN through and compile to one instruction each.
    let x = if x < SMALLEST { SMALLEST } else { x };
    let x = if x > LARGEST { LARGEST } else { x };
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = x - n * LN_2_HIGH - n * LN_2_LOW;
    let mut p = 1.987_569_1e-4;
    p = p * r + 1.398_199_9e-3;
    p = p * r + 8.333_452e-3;
    p = p * r + 4.166_579_6e-2;
    p = p * r + 1.666_666_5e-1;
    p = p * r + 0.5;
    let exp_r = p * (r * r) + r + 1.0;
    let exponent = shifted.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127);
    exp_r * f32::from_bits(exponent << 23)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_within_two_units_in_the_last_place() {
        let mut worst = 0.0_f64;
        for step in 0..=2_000_000 {
            let x = (SMALLEST + (LARGEST - SMALLEST) * (step as f32 / 2_000_000.0)).min(LARGEST);
            let want = f64::from(x).exp();
            let unit = f64::from(f32::EPSILON) * 2_f64.powi(want.log2().floor() as i32);
            worst = worst.max((f64::from(exp(x)) - want).abs() / unit);
        }
        assert!(worst < 2.0, "worst error is {worst} units in the last place");
    }

    #[test]
    fn exp_is_exact_at_zero_and_saturates() {
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(-1000.0), exp(SMALLEST));
        assert_eq!(exp(f32::NEG_INFINITY), exp(SMALLEST));
        assert_eq!(exp(f32::INFINITY), exp(LARGEST));
        assert!(exp(LARGEST).is_finite() && exp(SMALLEST).is_normal());
    }

    #[test]
    fn nan_is_not_hidden() {
        assert!(exp(f32::NAN).is_nan());
    }
}
