//! SwiGLU (Shazeer, arXiv:2002.05202): `silu(gate) * up` with `silu(x) = x σ(x)`.
//!
//! Legend: N rows; F columns of each of gate and up, one behind the other in a row of `x: [N, 2 F]`; `y, dy: [N, F]`.

use super::exp::exp;
use super::parallel::{for_blocks, read, write};

/// `y = silu(gate) * up`.
pub fn forward(x: &[f32], y: &mut [f32], width: usize) {
    for_blocks(
        (write(y, width), read(x, 2 * width)),
        #[inline(always)]
        |(y, x)| {
            for (y, x) in y.elements.chunks_exact_mut(width).zip(x.elements.chunks_exact(2 * width)) {
                let (gates, ups) = x.split_at(width);
                for ((y, &gate), up) in y.iter_mut().zip(gates).zip(ups) {
                    *y = gate * sigmoid(gate).0 * up;
                }
            }
        },
    );
}

/// `x` becomes its gradient, and `dy` becomes `swiglu(x)`, which the next weight gradient needs and which costs nothing here.
pub fn backward(x: &mut [f32], dy: &mut [f32], width: usize) {
    for_blocks(
        (write(dy, width), write(x, 2 * width)),
        #[inline(always)]
        |(dy, x)| {
            let rows = dy.elements.chunks_exact_mut(width).zip(x.elements.chunks_exact_mut(2 * width));
            for (dy, x) in rows {
                let (gates, ups) = x.split_at_mut(width);
                for ((dy, gate), up) in dy.iter_mut().zip(gates).zip(ups) {
                    let (sigmoid, complement) = sigmoid(*gate);
                    let silu = *gate * sigmoid;
                    let y = silu * *up;
                    *gate = *dy * *up * sigmoid * (1.0 + *gate * complement);
                    *up = *dy * silu;
                    *dy = y;
                }
            }
        },
    );
}

/// `σ(x)` and `1 - σ(x)`, the latter without the cancellation of a subtraction.
#[inline(always)]
fn sigmoid(x: f32) -> (f32, f32) {
    let exponential = exp(-x);
    let sigmoid = 1.0 / (1.0 + exponential);
    (sigmoid, exponential * sigmoid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_close, random, same_on_all_threads};

    #[test]
    fn value_and_gradient_equal_the_definition() {
        for (num_rows, width) in [(1, 1), (3, 5), (40, 33)] {
            let x: Vec<f32> = random("x", 2 * num_rows * width).iter().map(|x| 4.0 * x).collect();
            let dy = random("dy", num_rows * width);
            let (mut y, mut dx, mut again) = (vec![f32::NAN; dy.len()], x.clone(), dy.clone());
            forward(&x, &mut y, width);
            backward(&mut dx, &mut again, width);
            assert_eq!(again, y);
            for row in 0..num_rows {
                let at = |column: usize| f64::from(x[2 * row * width + column]);
                let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
                let columns = 0..width;
                let silu = |c: usize| at(c) * sigmoid(at(c));
                let want: Vec<f64> = columns.clone().map(|c| silu(c) * at(width + c)).collect();
                assert_close("y", &y[row * width..][..width], &want, 1e-6);
                let dy = |c: usize| f64::from(dy[row * width + c]);
                let slope = |x: f64| sigmoid(x) * (1.0 + x * (1.0 - sigmoid(x)));
                let of_gate = columns.clone().map(|c| dy(c) * at(width + c) * slope(at(c)));
                let want: Vec<f64> = of_gate.chain(columns.map(|c| dy(c) * silu(c))).collect();
                assert_close("dx", &dx[2 * row * width..][..2 * width], &want, 1e-6);
            }
        }
    }

    #[test]
    fn large_gates_saturate_and_nan_stays() {
        let mut y = [0.0; 3];
        forward(&[100.0, -100.0, f32::NAN, 2.0, 2.0, 2.0], &mut y, 3);
        assert_eq!(y[0], 200.0);
        assert!(y[1].abs() < 1e-35);
        assert!(y[2].is_nan());
    }

    #[test]
    fn results_do_not_depend_on_the_number_of_threads() {
        let (x, dy) = (random("x", 2 * 900 * 70), random("dy", 900 * 70));
        same_on_all_threads("SwiGLU", || {
            let (mut y, mut dx, mut again) = (vec![0.0; dy.len()], x.clone(), dy.clone());
            forward(&x, &mut y, 70);
            backward(&mut dx, &mut again, 70);
            [y, dx, again].concat()
        });
    }
}
