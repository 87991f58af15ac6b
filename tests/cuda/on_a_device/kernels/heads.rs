//! Kernels of heads of queries and keys.

use pipezero_models::kernels::attention::AttentionShape;
use pipezero_models::kernels::rope::{Rope, Turn};
use pipezero_models::queue::{HeadWeights, Rotation};

use super::{ELEMENTS, MODES, document_starts, drawn, same_in};

/// Sequences, tokens of each, heads of queries, heads of keys, the size of a head, and the first element of each matrix: one head of keys, some,
/// and as many as of queries; heads that a warp reads at once, and larger ones; more tokens than a block has groups for; and matrices that
/// begin where no 16 bytes are read at once.
const SHAPES: [(usize, usize, usize, usize, usize, usize); 10] = [
    (1, 1, 1, 1, 2, 0),
    (2, 5, 3, 1, 6, 0),
    (3, 4, 4, 2, 10, 0),
    (2, 7, 2, 2, 16, 0),
    (1, 130, 4, 2, 8, 0),
    (1, 260, 1, 1, 24, 0),
    (1, 6, 6, 3, 128, 0),
    (2, 3, 2, 1, 256, 0),
    (1, 9, 4, 1, 130, 0),
    (2, 5, 4, 2, 32, 3),
];

/// Heads that cannot be turned, whose last element is alone in what a thread takes at a time.
const ODD_SHAPES: [(usize, usize, usize, usize, usize, usize); 2] = [(2, 3, 2, 1, 5, 0), (1, 4, 3, 3, 9, 0)];

fn shapes() -> impl Iterator<Item = (usize, usize, usize, usize, usize, usize)> {
    let drawn = drawn(|draws| {
        let kv_heads = 1 + draws.below(3);
        let heads = kv_heads * (1 + draws.below(3));
        let [sequences, tokens, pairs] = [3, 40, 70].map(|end| 1 + draws.below(end));
        (sequences, tokens, heads, kv_heads, 2 * pairs, draws.of(&[0, 0, 1, 4]))
    });
    SHAPES.into_iter().chain(drawn)
}

fn shape_of((b, t, h, g, d, _): (usize, usize, usize, usize, usize, usize)) -> AttentionShape {
    AttentionShape { num_sequences: b, seq_length: t, num_heads: h, num_kv_heads: g, head_size: d }
}

#[test]
#[ignore = "needs a GPU, or the fake GPU"]
fn turned_heads() {
    for (sizes, element) in shapes().flat_map(|sizes| ELEMENTS.map(|element| (sizes, element))) {
        let (shape, start) = (shape_of(sizes), sizes.5);
        let at = start..start + shape.num_sequences * shape.seq_length * shape.qkv_width();
        // The first turns by whole radians, the last by a little.
        let num_pairs = shape.head_size / 2;
        let frequency = |pair: usize| 1e-4_f32.powf(pair as f32 / num_pairs as f32);
        let rope = Rope { frequencies: (0..num_pairs).map(frequency).collect(), scale: 1.25 };
        same_in(element, &format!("turns of {shape:?} from {start}"), 1e-6, |on| {
            let starts = document_starts(shape.num_sequences, shape.seq_length, 3);
            let starts = on.words(&starts);
            let turns = [Turn::Forward, Turn::Backward].into_iter();
            turns
                .flat_map(|turn| [(turn, None), (turn, Some(starts.view()))])
                .map(|(turn, document_starts)| {
                    let mut qkv = on.elements(at.end);
                    let rotation = Rotation { rope: &rope, turn, document_starts };
                    on.queue.rope(shape, rotation, qkv.view_mut().range(at.clone()));
                    on.values(&qkv)
                })
                .collect()
        });
    }
}

/// Angles of positions far into a long sequence are as exact as others.
#[test]
#[ignore = "needs a GPU, or the fake GPU"]
fn heads_turned_by_large_angles() {
    let shape = shape_of((1, 2100, 1, 1, 2, 0));
    let rope = Rope { frequencies: [97.3].into(), scale: 1.0 };
    for element in ELEMENTS {
        same_in(element, "turns by large angles", 1e-6, |on| {
            let mut qkv = on.elements(shape.seq_length * shape.qkv_width());
            let rotation = Rotation { rope: &rope, turn: Turn::Forward, document_starts: None };
            on.queue.rope(shape, rotation, qkv.view_mut());
            vec![on.values(&qkv)]
        });
    }
}

#[test]
#[ignore = "needs a GPU, or the fake GPU"]
fn head_norms() {
    let shapes = shapes().chain(ODD_SHAPES);
    for (sizes, element) in shapes.flat_map(|sizes| ELEMENTS.map(|element| (sizes, element))) {
        let (shape, start) = (shape_of(sizes), sizes.5);
        same_in(element, &format!("norms of {shape:?} from {start}"), 1e-5, |on| {
            let at = start..start + shape.num_sequences * shape.seq_length * shape.qkv_width();
            let along = start..start + shape.head_size;
            let epsilon = 1e-2;
            let (mut x, mut y, dy) = (on.elements(at.end), on.elements(at.end), on.elements(at.end));
            let (queries, keys) = (on.elements(along.end), on.elements(along.end));
            let [queries, keys] = [&queries, &keys].map(|of| of.view().range(along.clone()));
            let (weights, dy) = (HeadWeights { queries, keys }, dy.view().range(at.clone()));
            let out = y.view_mut().range(at.clone());
            on.queue.head_norm(shape, epsilon, x.view().range(at.clone()), weights, out);
            let mut results = vec![on.values(&y)];
            for mode in MODES {
                let mut dweights = [on.floats(along.end), on.floats(along.end)];
                let [of_queries, of_keys] = &mut dweights;
                let out = [of_queries, of_keys].map(|of| of.view_mut().range(along.clone()));
                let input = x.view().range(at.clone());
                on.queue.head_norm_backward_weight(shape, epsilon, input, dy, out, mode);
                results.extend(dweights.iter().map(|dweight| on.values(dweight)));
            }
            on.queue.head_norm_backward_input(shape, epsilon, x.view_mut().range(at.clone()), weights, dy);
            results.push(on.values(&x));
            results
        });
    }
}
