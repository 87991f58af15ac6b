//! GELU in its tanh form (arXiv:1606.08415), GPT-2's.
//!
//! `x (1 + tanh u) / 2 = x σ(2u)` with `u = sqrt(2/π) (x + 0.044715 x³)`: one exponential, and no cancellation where
//! tanh nears -1.

use super::exp::exp;
use super::parallel::{for_blocks, read, write};

/// `2 sqrt(2/π)`
const SCALE: f32 = 1.595_769;
const CUBE: f32 = 0.044_715;

/// `y = gelu(x)`, element by element.
pub fn forward(x: &[f32], y: &mut [f32]) {
    for_blocks(
        (write(y, 1), read(x, 1)),
        #[inline(always)]
        |(y, x)| {
            for (y, &x) in y.elements.iter_mut().zip(x.elements) {
                *y = x * gate(x).0;
            }
        },
    );
}

/// `dx = dy gelu'(x)`, in place in `dy`; `x` becomes `gelu(x)`, which the next weight gradient needs and which costs
/// nothing here.
pub fn backward(x: &mut [f32], dy: &mut [f32]) {
    for_blocks(
        (write(dy, 1), write(x, 1)),
        #[inline(always)]
        |(dy, x)| {
            for (dy, x) in dy.elements.iter_mut().zip(x.elements) {
                let (gate, complement) = gate(*x);
                let slope = SCALE * (1.0 + 3.0 * CUBE * *x * *x);
                *dy *= gate + *x * gate * complement * slope;
                *x *= gate;
            }
        },
    );
}

/// `σ(2u)` and `1 - σ(2u)`, the latter without the cancellation of a subtraction.
#[inline(always)]
fn gate(x: f32) -> (f32, f32) {
    let exponential = exp(-SCALE * (x + CUBE * x * x * x));
    let gate = 1.0 / (1.0 + exponential);
    (gate, exponential * gate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_close, random, same_at_every_place};

    fn tanh_of(x: f64) -> f64 {
        ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh()
    }

    #[test]
    fn value_and_slope_equal_the_tanh_form() {
        for step in -1500..=1500 {
            let x = step as f32 * 0.01;
            let wide = f64::from(x);
            let tanh = tanh_of(wide);
            let inner_slope = (2.0 / std::f64::consts::PI).sqrt() * (1.0 + 3.0 * 0.044715 * wide * wide);
            let slope = 0.5 * (1.0 + tanh) + 0.5 * wide * (1.0 - tanh * tanh) * inner_slope;
            let (mut y, mut active, mut dy) = ([0.0], [x], [1.0]);
            forward(&[x], &mut y);
            backward(&mut active, &mut dy);
            assert_eq!(active, y, "at {x}");
            // Relative to 1, the size of the slope: the tanh form itself cancels where it nears -1.
            let (value_error, slope_error) =
                (f64::from(y[0]) - 0.5 * wide * (1.0 + tanh), f64::from(dy[0]) - slope);
            assert!(value_error.abs() <= 4e-7 * wide.abs().max(0.1), "value at {x}: {value_error:e}");
            assert!(slope_error.abs() <= 5e-7, "slope at {x}: {slope_error:e}");
        }
    }

    #[test]
    fn large_arguments_saturate_and_nan_stays() {
        let mut y = [0.0; 4];
        forward(&[40.0, -40.0, f32::INFINITY, f32::NAN], &mut y);
        assert_eq!(y[0], 40.0);
        assert!(y[1].abs() < 1e-35);
        assert_eq!(y[2], f32::INFINITY);
        assert!(y[3].is_nan());
    }

    #[test]
    fn an_element_has_the_same_bits_on_every_thread_and_at_every_place() {
        let x = random("x", 40_000);
        let dy = random("dy", 40_000);
        let whole = same_at_every_place("GELU", x.len(), |range| {
            let x = &x[range.clone()];
            let (mut y, mut active, mut dx) = (vec![0.0; x.len()], x.to_vec(), dy[range].to_vec());
            forward(x, &mut y);
            backward(&mut active, &mut dx);
            [y, dx]
        });
        assert_close("gelu", &whole[..1], &[f64::from(x[0]) * 0.5 * (1.0 + tanh_of(f64::from(x[0])))], 1e-6);
    }
}
