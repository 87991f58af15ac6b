//! GELU in its tanh form (arXiv:1606.08415), GPT-2's.
//!
//! `x (1 + tanh u) / 2 = x σ(2u)` with `u = sqrt(2/π) (x + 0.044715 x³)`: one exponential, and no cancellation where
//! tanh nears -1.

use super::exp::sigmoid;
use super::parallel::{for_blocks, read, write};

/// `2 sqrt(2/π)`
const SCALE: f32 = 1.595_769_1;
const CUBE: f32 = 0.044_715;

/// `y = gelu(x)`, element by element.
pub fn forward(x: &[f32], y: &mut [f32]) {
    for_blocks(
        (write(y, 1), read(x, 1)),
        #[inline(always)]
        |(y, x)| {
            for (y, &x) in y.elements.iter_mut().zip(x.elements) {
                *y = x * gate(x);
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
                let gate = gate(*x);
                let slope = SCALE * (1.0 + 3.0 * CUBE * *x * *x);
                *dy *= gate + *x * gate * (1.0 - gate) * slope;
                *x *= gate;
            }
        },
    );
}

/// `σ(2u)`
#[inline(always)]
fn gate(x: f32) -> f32 {
    sigmoid(SCALE * (x + CUBE * x * x * x))
}
