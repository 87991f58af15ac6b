//! Kernels whose elements know nothing of each other.

use pipezero_models::element::ElementType;
use pipezero_models::kernels::adamw::AdamWStep;
use pipezero_models::kernels::sgd::SgdStep;

use super::{ELEMENTS, drawn, same, same_in};

#[test]
#[ignore = "needs a GPU, or the fake GPU"]
fn conversions_are_the_hosts_to_the_bit() {
    for half in [ElementType::Bf16, ElementType::F16] {
        same(&format!("{half:?}"), 0.0, |on| {
            let mut special =
                vec![0.0, -0.0, f32::INFINITY, 1e-7, 65520.0, -65519.0, 1e38, 6e-8, 3e-8, 1e-40];
            // The NaN that is nearest to infinity.
            special.push(f32::from_bits(0x7f80_0001));
            special.extend((0..300).map(|_| on.numbers.next()));
            let len = special.len();
            let mut x = on.queue.zeros(len, ElementType::F32).unwrap();
            on.queue.upload_floats(&special, x.view_mut());
            let mut narrow = on.queue.zeros(len, half).unwrap();
            // Over what is there.
            let (before, mut wide) = (on.floats(len), on.floats(len));
            on.queue.copy(before.view(), narrow.view_mut());
            on.queue.copy(x.view(), narrow.view_mut());
            on.queue.copy(narrow.view(), wide.view_mut());
            // From where no 16 bytes are read at once, to there, and to the other type of 16 bits.
            let mut other = on.queue.zeros(len, ElementType::Bf16).unwrap();
            on.queue.copy(x.view().range(1..len), other.view_mut().range(0..len - 1));
            let mut shifted = on.queue.zeros(len, ElementType::F16).unwrap();
            on.queue.copy(other.view().range(0..len - 3), shifted.view_mut().range(3..len));
            on.queue.copy(shifted.view().range(3..len), other.view_mut().range(0..len - 3));
            on.queue.round(x.view_mut().range(5..len), half);
            let mut firsts = Vec::new();
            // Rows that take two turns, and that are no multiple of what a thread takes.
            for width in [300, 1401] {
                let mut rows = on.floats(6 * width);
                on.queue.narrow_rows(rows.view_mut(), width, half);
                firsts.push(on.firsts_of_rows(&rows, width, half));
            }
            firsts.extend([on.values(&wide), on.values(&other), on.values(&shifted), on.values(&x)]);
            firsts
        });
    }
}

#[test]
#[ignore = "needs a GPU, or the fake GPU"]
fn elementwise() {
    // The second is where views begin: where no 16 bytes are read at once, and where they are.
    let sizes = [(1, 0), (255, 0), (256, 0), (257, 0), (1000, 0), (2049, 0), (1000, 1), (2048, 3)];
    let drawn = drawn(|draws| (1 + draws.below(3000), draws.of(&[0, 0, 1, 4])));
    for (len, start) in sizes.into_iter().chain(drawn) {
        let (at, end) = (start..start + len, start + len);
        for element in ELEMENTS {
            same_in(element, &format!("gelu of {len} from {start}"), 1e-6, |on| {
                let (mut x, mut y, mut dy) = (on.elements(end), on.elements(end), on.elements(end));
                on.queue.gelu(x.view().range(at.clone()), y.view_mut().range(at.clone()));
                let [x_at, dy_at] = [&mut x, &mut dy].map(|of| of.view_mut().range(at.clone()));
                on.queue.gelu_backward(x_at, dy_at);
                vec![on.values(&y), on.values(&x), on.values(&dy)]
            });
        }
        same(&format!("sums of {len} from {start}"), 0.0, |on| {
            let (a, b, c, mut own) = (on.floats(end), on.floats(end), on.floats(end), on.floats(end));
            let [a, b, c] = [&a, &b, &c].map(|of| of.view().range(at.clone()));
            on.queue.sum_in_order(&[a, b], own.view_mut().range(at.clone()), &[c]);
            // The first, four that are read together, and one more, which begins where the others do not.
            let (mut shifted, last) = (on.floats(end), on.floats(len + 1));
            let last = last.view().range(1..len + 1);
            on.queue.sum_in_order(&[a, b, c], shifted.view_mut().range(at.clone()), &[a, last]);
            // -0 stays, unless 0 is added to it.
            let (mut zeros, mut zero) = (on.floats(len), on.floats(len));
            for of in [&mut zeros, &mut zero] {
                on.queue.upload_floats(&vec![-0.0; len], of.view_mut());
            }
            on.queue.sum_in_order(&[zeros.view()], zero.view_mut(), &[]);
            let mut sum = on.floats(end);
            on.queue.add(own.view().range(at.clone()), sum.view_mut().range(at.clone()));
            let mut squares = on.words(&[0; 20]);
            on.queue.add_squares(own.view().range(at.clone()), squares.view_mut());
            on.queue.add_squares(sum.view().range(at.clone()), squares.view_mut());
            on.queue.clear(own.view_mut().range(0..len / 2));
            vec![on.values(&own), on.values(&shifted), on.values(&zero), on.values(&sum), on.bits(&squares)]
        });
        same(&format!("updates of {len} from {start}"), 0.0, |on| {
            let (mut p, g) = (on.floats(end), on.floats(end));
            let (mut m, mut v) = (on.floats(end), on.floats(end));
            let (mut square, lr, weight_decay) = (on.floats(end), 1e-2, 0.1);
            // A second moment is no negative number.
            let seconds: Vec<f32> = (0..end).map(|_| on.numbers.next().abs()).collect();
            on.queue.upload_floats(&seconds, v.view_mut());
            let step =
                AdamWStep { gradient_scale: 0.5, lr, betas: (0.9, 0.95), eps: 1e-8, weight_decay, step: 3 };
            let g = g.view().range(at.clone());
            let moments = [&mut m, &mut v].map(|of| of.view_mut().range(at.clone()));
            on.queue.adamw(step, p.view_mut().range(at.clone()), g, moments);
            let step = SgdStep { gradient_scale: 0.5, lr, weight_decay };
            on.queue.sgd(step, square.view_mut().range(at.clone()), g);
            let [p_at, m_at] = [&mut square, &mut m].map(|of| of.view_mut().range(at.clone()));
            on.queue.sgd_with_momentum(step, 0.9, p_at, g, m_at);
            vec![on.values(&p), on.values(&m), on.values(&v), on.values(&square)]
        });
    }
}

#[test]
#[ignore = "needs a GPU, or the fake GPU"]
fn swiglus() {
    // Rows, columns, and the first element of each matrix: rows that take two turns of a block, and matrices that begin where no 16 bytes are
    // read at once.
    let shapes = [(1, 1, 0), (3, 7, 0), (2, 1032, 0), (2, 2056, 0), (1, 2059, 0), (5, 24, 3), (4, 16, 0)];
    let drawn = drawn(|draws| (1 + draws.below(6), 1 + draws.below(2500), draws.of(&[0, 0, 1, 4])));
    let shapes = shapes.into_iter().chain(drawn);
    for ((rows, width, start), element) in shapes.flat_map(|shape| ELEMENTS.map(|of| (shape, of))) {
        same_in(element, &format!("swiglu of {rows} x {width} from {start}"), 1e-6, |on| {
            let (of_x, of_y) = (start..start + 2 * rows * width, start..start + rows * width);
            let (mut x, mut y, mut dy) =
                (on.elements(of_x.end), on.elements(of_y.end), on.elements(of_y.end));
            let at = y.view_mut().range(of_y.clone());
            on.queue.swiglu(x.view().range(of_x.clone()), at, width);
            let (dx, at) = (x.view_mut().range(of_x.clone()), dy.view_mut().range(of_y.clone()));
            on.queue.swiglu_backward(dx, at, width);
            vec![on.values(&y), on.values(&x), on.values(&dy)]
        });
    }
    // A gate so small that its exponential would be infinite, and one that is no number.
    for element in ELEMENTS {
        same_in(element, "swiglu of gates that saturate", 1e-6, |on| {
            let (mut floats, mut x, mut y) = (on.floats(8), on.elements(8), on.elements(4));
            on.queue.upload_floats(&[100.0, -1000.0, f32::NAN, 1.0, 2.0, 3.0, 4.0, 5.0], floats.view_mut());
            on.queue.copy(floats.view(), x.view_mut());
            on.queue.swiglu(x.view(), y.view_mut(), 4);
            let mut dy = on.elements(4);
            on.queue.swiglu_backward(x.view_mut(), dy.view_mut(), 4);
            for of in [&mut x, &mut y, &mut dy] {
                on.round(of);
            }
            vec![on.values(&x), on.values(&y), on.values(&dy)]
        });
    }
}

#[test]
#[ignore = "needs a GPU, or the fake GPU"]
fn sums_of_squares() {
    // One, one less than a block has, a block, and more.
    for len in [1, 32_767, 32_768, 34_561] {
        same(&format!("squares of {len}"), 0.0, |on| {
            // One has the largest exponent.
            let mut values: Vec<f32> = (0..len).map(|_| on.numbers.next()).collect();
            values[0] = 3e38;
            let mut x = on.queue.zeros(values.len(), ElementType::F32).unwrap();
            on.queue.upload_floats(&values, x.view_mut());
            let mut squares = on.words(&[0; 20]);
            on.queue.add_squares(x.view(), squares.view_mut());
            // 2^-5 squared is 1 in the tenth word: it makes this the largest number, and the second carries into all
            // words above.
            let mut carried = on.words(&[&[u32::MAX - 1; 10][..], &[u32::MAX; 8], &[0; 2]].concat());
            on.queue.upload_floats(&[1.0 / 32.0], x.view_mut().range(0..1));
            on.queue.add_squares(x.view().range(0..1), carried.view_mut());
            let once = on.bits(&carried);
            on.queue.add_squares(x.view().range(0..1), carried.view_mut());
            let mut broken = on.words(&[0; 20]);
            on.queue.upload_floats(&[f32::INFINITY], x.view_mut().range(0..1));
            on.queue.add_squares(x.view().range(0..1), broken.view_mut());
            vec![on.bits(&squares), once, on.bits(&carried), on.bits(&broken)]
        });
    }
}
