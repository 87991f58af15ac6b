//! Kernels along rows.

use pipezero_models::element::ElementType;
use pipezero_models::kernels::norm::{Norm, NormKind};
use pipezero_models::queue::{Affine, NormGradient};

use super::{ELEMENTS, MODES, Values, drawn, same, same_in};

/// Rows, columns, and the first element of each matrix: single ones, odd ones, more than a block takes at a time; and matrices that begin
/// where no 16 bytes are read at once.
const SHAPES: [(usize, usize, usize); 11] = [
    (1, 1, 0),
    (3, 7, 0),
    (33, 12, 0),
    (5, 257, 0),
    (70, 1030, 0),
    (300, 24, 0),
    // More rows than all groups of a block read at once.
    (1100, 16, 0),
    (140, 7, 0),
    (9, 1032, 0),
    (260, 16, 3),
    (5, 520, 1),
];

/// Both kinds, with an epsilon that shows.
const NORMS: [Norm; 2] = [Norm::GPT2, Norm { kind: NormKind::Rms, epsilon: 1e-2 }];

#[test]
#[ignore = "needs a GPU, or the fake GPU"]
fn norms() {
    let drawn = drawn(|draws| (1 + draws.below(150), 1 + draws.below(1100), draws.of(&[0, 0, 1, 4])));
    let shapes = SHAPES.into_iter().chain(drawn);
    let cases = shapes.flat_map(|shape| ELEMENTS.map(|element| (shape, element)));
    for ((shape, element), norm) in cases.flat_map(|case| NORMS.map(|norm| (case, norm))) {
        let (rows, width, start) = shape;
        same_in(element, &format!("{norm:?} of {rows} x {width} from {start}"), 1e-5, |on| {
            let (all, along) = (start..start + rows * width, start..start + width);
            let of_bias = start..start + norm.num_biases(width);
            let (x, dy) = (on.elements(all.end), on.elements(all.end));
            let (x, dy) = (x.view().range(all.clone()), dy.view().range(all.clone()));
            let (weight, bias) = (on.elements(along.end), on.elements(along.end));
            let weight = weight.view().range(along.clone());
            let affine = Affine { weight, bias: bias.view().range(of_bias.clone()) };
            let (mut y, mut statistics) = (on.elements(all.end), on.floats(2 * rows));
            on.queue.norm(norm, x, affine, y.view_mut().range(all.clone()), statistics.view_mut());
            let mut results = vec![on.values(&y), on.values(&statistics)];
            // Over what is there.
            let (mut y, mut statistics) = (on.elements(all.end), on.floats(2 * rows));
            on.queue.norm_statistics(norm, x, width, statistics.view_mut());
            let kept = statistics.view();
            on.queue.norm_again(norm, x, affine, kept, y.view_mut().range(all.clone()));
            results.push(on.values(&y));
            for mode in MODES {
                let (mut dx, mut dweight, mut dbias) =
                    (on.floats(all.end), on.floats(along.end), on.floats(along.end));
                let dinput = dx.view_mut().range(all.clone());
                let of = NormGradient { x, statistics: kept, dy };
                on.queue.norm_backward_input(norm, of, weight, dinput, mode);
                let dw = dweight.view_mut().range(along.clone());
                let db = dbias.view_mut().range(of_bias.clone());
                on.queue.norm_backward_weight(norm, of, dw, db, mode);
                // A row of one element has no deviation: its gradient is what rounding leaves.
                if width > 1 {
                    results.push(on.values(&dx));
                }
                results.extend([on.values(&dweight), on.values(&dbias)]);
                let mut dbias = on.floats(along.end);
                on.queue.bias_backward(dy, dbias.view_mut().range(along.clone()), mode);
                results.push(on.values(&dbias));
            }
            results
        });
    }
}

#[test]
#[ignore = "needs a GPU, or the fake GPU"]
fn cross_entropies() {
    // Blocks of 1024 tokens: a part of one, one less a token, a whole one, more than the warps of a block take at a
    // time; and one row more than losses are laid ready at a time.
    let sizes =
        [(1, 1), (1, 1023), (6, 17), (3, 2047), (5, 1024), (33, 2500), (2, 20_000), (3, 9216), (1025, 5)];
    let drawn = drawn(|draws| (1 + draws.below(70), 2 + draws.below(5000)));
    for (rows, vocabulary) in sizes.into_iter().chain(drawn) {
        let ignored = u32::MAX;
        let targets: Vec<u32> = (0..rows as u32)
            .map(|row| if row % 7 == 3 { ignored } else { (row * 313) % vocabulary as u32 })
            .collect();
        same(&format!("targets of {rows}"), 0.0, |on| {
            // Over what is there.
            let (targets, mut count) = (on.words(&targets), on.words(&[1, 2, 3, 4]));
            on.queue.count_targets(targets.view(), count.view_mut());
            vec![on.bits(&count)]
        });
        same(&format!("cross-entropy of {rows} x {vocabulary}"), 1e-5, |on| {
            let targets = on.words(&targets);
            // In every second row, one is so far above the others that it must be found before exponentials are taken; in the others all count.
            let mut values: Vec<f32> = (0..rows * vocabulary).map(|_| on.numbers.next()).collect();
            for (row, logits) in values.chunks_mut(vocabulary).enumerate().filter(|(row, _)| row % 2 == 1) {
                logits[(32 + 33 * row) % vocabulary] += 200.0;
            }
            let mut logits = on.queue.zeros(values.len(), ElementType::F32).unwrap();
            on.queue.upload_floats(&values, logits.view_mut());
            let mut statistics = on.floats(3 * rows);
            // Over what is there.
            let mut loss = on.words(&[1, 2, 3, 4]);
            on.queue.cross_entropy(0, logits.view(), targets.view(), statistics.view_mut());
            on.queue.cross_entropy_loss(targets.view(), statistics.view_mut(), loss.view_mut());
            let (of_rows, mut narrow) = (statistics.view(), Vec::new());
            for half in [ElementType::Bf16, ElementType::F16] {
                let mut rows = on.queue.zeros(values.len(), ElementType::F32).unwrap();
                on.queue.upload_floats(&values, rows.view_mut());
                on.queue.cross_entropy_backward(0, rows.view_mut(), targets.view(), of_rows, 0.25, half);
                narrow.push(on.firsts_of_rows(&rows, vocabulary, half));
            }
            let f32 = ElementType::F32;
            on.queue.cross_entropy_backward(0, logits.view_mut(), targets.view(), of_rows, 0.25, f32);
            let mut words = [0; 4];
            on.queue.download(loss.view(), &mut words).unwrap();
            let sum = f64::from_bits(u64::from(words[0]) | u64::from(words[1]) << 32) as f32;
            let kept = on.values(&statistics).values.chunks(3).map(|row| row[0]).collect();
            let targets = words[2..].iter().map(|&word| word as f32).collect();
            let [sum, kept, targets] =
                [vec![sum], kept, targets].map(|values| Values { values, rounded_to: ElementType::F32 });
            let mut results = vec![sum, on.values(&logits), kept, targets];
            results.extend(narrow);
            results
        });
    }
}

#[test]
#[ignore = "needs a GPU, or the fake GPU"]
fn cross_entropies_of_slices() {
    // At the edges of both slices, and none. Behind the last row there is no other.
    let targets = [0, 1023, 2999, u32::MAX, 1024];
    same("cross-entropy of slices of a vocabulary", 1e-5, |on| {
        let words = on.words(&targets);
        let mut statistics = on.floats(3 * targets.len());
        let mut results = Vec::new();
        for (first_token, num_columns) in [(0, 1024), (1024, 1976)] {
            let mut logits = on.floats(targets.len() * num_columns);
            on.queue.cross_entropy(first_token, logits.view(), words.view(), statistics.view_mut());
            let (dlogits, of_rows) = (logits.view_mut(), statistics.view());
            let f32 = ElementType::F32;
            on.queue.cross_entropy_backward(first_token, dlogits, words.view(), of_rows, 0.25, f32);
            results.extend([on.values(&statistics), on.values(&logits)]);
        }
        results
    });
}
