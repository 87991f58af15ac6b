//! Products of matrices.

use pipezero::models::element::ElementType;
use pipezero::models::kernels::linear::LinearShape;
use pipezero::models::kernels::matmul::WriteMode;
use pipezero::models::queue::{Affine, Onto};

use super::{ELEMENTS, MODES, same_in, unit_in_the_last_place};

/// The last of the numbers is where matrices begin: also where the library's algorithms must not read 16 bytes at once.
#[test]
#[ignore = "needs a GPU, or the imitation of one"]
fn products() {
    for (n, i, o, start) in [(1, 1, 1, 0), (6, 12, 36, 0), (17, 33, 9, 0), (64, 48, 104, 0), (8, 16, 64, 1)] {
        let shape = LinearShape { num_rows: n, num_inputs: i, num_outputs: o };
        let [of_x, of_y, of_weight, of_bias] = [n * i, n * o, o * i, o].map(|len| start..start + len);
        for element in ELEMENTS {
            same_in(element, &format!("{shape:?} from {start}"), 1e-5, |on| {
                let (x, weight) = (on.elements(of_x.end), on.elements(of_weight.end));
                let (bias, residual, dy) =
                    (on.elements(of_bias.end), on.elements(of_y.end), on.elements(of_y.end));
                let (x, weight) = (x.view().range(of_x.clone()), weight.view().range(of_weight.clone()));
                let (bias, dy) = (bias.view().range(of_bias.clone()), dy.view().range(of_y.clone()));
                let residual = residual.view().range(of_y.clone());
                let mut results = Vec::new();
                for onto in [Onto::Nothing, Onto::Bias(bias), Onto::BiasAndResidual { bias, residual }] {
                    let mut y = on.elements(of_y.end);
                    on.queue.linear(shape, x, weight, onto, y.view_mut().range(of_y.clone()));
                    results.push(on.values(&y));
                }
                let mut logits = on.floats(of_y.end);
                let all = logits.view_mut().range(of_y.clone());
                on.queue.linear(shape, x, weight, Onto::Nothing, all);
                results.push(on.values(&logits));
                let mut dx = on.elements(of_x.end);
                let mode = WriteMode::Overwrite;
                let all = dx.view_mut().range(of_x.clone());
                on.queue.linear_backward_input(shape, dy, weight, all, mode);
                results.push(on.values(&dx));
                for mode in MODES {
                    let (mut dx, mut dweight) = (on.floats(of_x.end), on.floats(of_weight.end));
                    let all = dx.view_mut().range(of_x.clone());
                    on.queue.linear_backward_input(shape, dy, weight, all, mode);
                    let all = dweight.view_mut().range(of_weight.clone());
                    on.queue.linear_backward_weight(shape, dy, x, all, mode);
                    results.extend([on.values(&dx), on.values(&dweight)]);
                }
                results
            });
        }
    }
}

/// What a loss leaves of logits goes into products where it lies.
#[test]
#[ignore = "needs a GPU, or the imitation of one"]
fn narrowed_rows_are_factors() {
    for (n, i, o) in [(1, 3, 1), (6, 12, 37), (9, 16, 600)] {
        let shape = LinearShape { num_rows: n, num_inputs: i, num_outputs: o };
        for element in [ElementType::Bf16, ElementType::F16] {
            same_in(element, &format!("{shape:?}"), 1e-5, |on| {
                let (x, weight) = (on.elements(n * i), on.elements(o * i));
                let (mut dy, mut dx, mut dweight) = (on.floats(n * o), on.floats(n * i), on.floats(o * i));
                if on.stored == element {
                    on.queue.narrow_rows(dy.view_mut(), o, element);
                } else {
                    on.round(&mut dy);
                }
                let dy = dy.view().cast(on.stored);
                for mode in MODES {
                    on.queue.linear_backward_input(shape, dy, weight.view(), dx.view_mut(), mode);
                    on.queue.linear_backward_weight(shape, dy, x.view(), dweight.view_mut(), mode);
                }
                vec![on.values(&dx), on.values(&dweight)]
            });
        }
    }
}

/// With the library's epilogues, and without where it has none: for single rows, and where matrices do not begin at 16 bytes.
#[test]
#[ignore = "needs a GPU, or the imitation of one"]
fn products_with_gelu() {
    for (n, i, o, start) in [(1, 16, 64, 0), (6, 24, 36, 0), (17, 32, 8, 0), (64, 48, 104, 0), (8, 16, 64, 1)]
    {
        let shape = LinearShape { num_rows: n, num_inputs: i, num_outputs: o };
        let [of_x, of_y, of_weight, of_bias] = [n * i, n * o, o * i, o].map(|len| start..start + len);
        for element in ELEMENTS {
            // What GELU is given is rounded first where it is a kernel of its own.
            let tolerance = 1e-5 + unit_in_the_last_place(element);
            same_in(element, &format!("{shape:?} from {start}"), tolerance, |on| {
                let (x, weight) = (on.elements(of_x.end), on.elements(of_weight.end));
                let (bias, dy) = (on.elements(of_bias.end), on.elements(of_y.end));
                let (x, weight) = (x.view().range(of_x.clone()), weight.view().range(of_weight.clone()));
                let affine = Affine { weight, bias: bias.view().range(of_bias.clone()) };
                let (mut before_gelu, mut y) = (on.elements(of_y.end), on.elements(of_y.end));
                let [sum, out] = [&mut before_gelu, &mut y].map(|of| of.view_mut().range(of_y.clone()));
                on.queue.linear_gelu(shape, x, affine, sum, out);
                let (mut hidden, mut dhidden) = (on.elements(of_x.end), on.elements(of_x.end));
                let [h, dh] = [&mut hidden, &mut dhidden].map(|of| of.view_mut().range(of_x.clone()));
                on.queue.linear_gelu_backward_input(shape, dy.view().range(of_y.clone()), weight, h, dh);
                [before_gelu, y, hidden, dhidden].iter().map(|of| on.values(of)).collect()
            });
        }
    }
}
