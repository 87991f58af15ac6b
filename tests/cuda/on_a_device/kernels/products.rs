//! Products of matrices.

use pipezero_models::Device;
use pipezero_models::element::ElementType;
use pipezero_models::kernels::linear::LinearShape;
use pipezero_models::kernels::matmul::WriteMode;
use pipezero_models::queue::{Affine, Cuda, F32Products, Onto};

use super::{ELEMENTS, MODES, On, Values, drawn, same_in, same_in_types, unit_in_the_last_place};

/// Sizes of products, and where matrices begin: also where the library's algorithms must not read 16 bytes at once.
const SHAPES: [(usize, usize, usize, usize); 5] =
    [(1, 1, 1, 0), (6, 12, 36, 0), (17, 33, 9, 0), (64, 48, 104, 0), (8, 16, 64, 1)];

fn shapes() -> impl Iterator<Item = (usize, usize, usize, usize)> {
    let drawn = drawn(|draws| {
        let [rows, inputs, outputs] = [80; 3].map(|end| 1 + draws.below(end));
        (rows, inputs, outputs, draws.of(&[0, 0, 1, 3]))
    });
    SHAPES.into_iter().chain(drawn)
}

/// Every product that layers ask for but those with GELU, and with a bias and a residual.
fn all_products(on: &mut On, (n, i, o, start): (usize, usize, usize, usize)) -> Vec<Values> {
    let shape = LinearShape { num_rows: n, num_inputs: i, num_outputs: o };
    let [of_x, of_y, of_weight, of_bias] = [n * i, n * o, o * i, o].map(|len| start..start + len);
    let (x, weight) = (on.elements(of_x.end), on.elements(of_weight.end));
    let (bias, residual, dy) = (on.elements(of_bias.end), on.elements(of_y.end), on.elements(of_y.end));
    let (x, weight) = (x.view().range(of_x.clone()), weight.view().range(of_weight.clone()));
    let (bias, dy) = (bias.view().range(of_bias), dy.view().range(of_y.clone()));
    let residual = residual.view().range(of_y.clone());
    let mut results = Vec::new();
    for onto in [Onto::Nothing, Onto::Bias(bias), Onto::Residual(residual)] {
        let mut y = on.elements(of_y.end);
        on.queue.linear(shape, x, weight, onto, y.view_mut().range(of_y.clone()));
        results.push(on.values(&y));
    }
    let mut logits = on.floats(of_y.end);
    let all = logits.view_mut().range(of_y.clone());
    on.queue.linear(shape, x, weight, Onto::Nothing, all);
    results.push(on.values(&logits));
    let mut dx = on.elements(of_x.end);
    let all = dx.view_mut().range(of_x.clone());
    on.queue.linear_backward_input(shape, dy, weight, all, WriteMode::Overwrite);
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
}

#[test]
#[ignore = "needs a GPU, or the fake GPU"]
fn products() {
    for shape in shapes() {
        for element in ELEMENTS {
            same_in(element, &format!("{shape:?}"), 1e-5, |on| all_products(on, shape));
        }
    }
}

/// The library may round the sum of a product and a residual before it adds a bias, as a layer does where they are two calls.
#[test]
#[ignore = "needs a GPU, or the fake GPU"]
fn products_with_a_bias_and_a_residual() {
    for (n, i, o, start) in shapes() {
        let shape = LinearShape { num_rows: n, num_inputs: i, num_outputs: o };
        for element in ELEMENTS {
            let tolerance = 1e-5 + unit_in_the_last_place(element);
            same_in(element, &format!("{shape:?} from {start}"), tolerance, |on| {
                let [x, weight, bias, residual] =
                    [n * i, o * i, o, n * o].map(|len| on.elements(start + len));
                let [of_x, of_weight, of_bias, of_residual] =
                    [&x, &weight, &bias, &residual].map(|all| all.view().range(start..all.len()));
                let onto = Onto::BiasAndResidual { bias: of_bias, residual: of_residual };
                let mut y = on.elements(start + n * o);
                let of_y = y.view_mut().range(start..start + n * o);
                on.queue.linear(shape, of_x, of_weight, onto, of_y);
                vec![on.values(&y)]
            });
        }
    }
}

/// Factors are rounded, and nothing else: those that have no more than TF32's bits, as bf16 in f32, give f32's products, others do not.
#[test]
#[ignore = "needs a GPU, or the fake GPU"]
fn products_in_tf32() {
    let device = Cuda::open(0, F32Products::Tf32).expect("a GPU, or the fake GPU");
    let same = |rounded_to, shape, tolerance| {
        let types = [rounded_to, ElementType::F32];
        same_in_types(types, &device, &format!("{shape:?} in TF32"), tolerance, |on| all_products(on, shape));
    };
    for shape in shapes() {
        same(ElementType::Bf16, shape, 1e-5);
        // A factor loses less than 1 / 1024 of itself.
        same(ElementType::F32, shape, 2.0 / 1024.0);
    }
    // The nearest of TF32 is 1. A GPU multiplies whole factors where there are too few for its tensor cores.
    const SIZE: usize = 64;
    let on_one = |device: &Cuda| {
        let queue = device.queue().unwrap();
        let [mut x, mut weight, mut y] =
            [(); 3].map(|()| queue.zeros(SIZE * SIZE, ElementType::F32).unwrap());
        let only_first = |first| {
            let mut values = vec![0.0; SIZE * SIZE];
            values[0] = first;
            values
        };
        queue.upload_floats(&only_first(1.0 + 2.0_f32.powi(-12)), x.view_mut());
        queue.upload_floats(&only_first(1.0), weight.view_mut());
        let shape = LinearShape { num_rows: SIZE, num_inputs: SIZE, num_outputs: SIZE };
        queue.linear(shape, x.view(), weight.view(), Onto::Nothing, y.view_mut());
        let mut values = vec![0.0; SIZE * SIZE];
        queue.download_floats(y.view(), &mut values).unwrap();
        values[0]
    };
    assert_eq!([on_one(&device), on_one(&super::device())], [1.0, 1.0 + 2.0_f32.powi(-12)]);
}

/// What a loss leaves of logits goes into products where it lies.
#[test]
#[ignore = "needs a GPU, or the fake GPU"]
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
#[ignore = "needs a GPU, or the fake GPU"]
fn products_with_gelu() {
    let drawn = drawn(|draws| {
        let [rows, inputs, outputs] = [80, 10, 10].map(|end| 1 + draws.below(end));
        (rows, 8 * inputs, 8 * outputs, draws.of(&[0, 0, 8, 1]))
    });
    let shapes = [(1, 16, 64, 0), (6, 24, 36, 0), (17, 32, 8, 0), (64, 48, 104, 0), (8, 16, 64, 1)];
    for (n, i, o, start) in shapes.into_iter().chain(drawn) {
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
