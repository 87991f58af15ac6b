//! Attention.

use pipezero_models::kernels::attention::AttentionShape;
use pipezero_models::kernels::dropout::Place;
use pipezero_models::queue::{Attended, AttentionMask};
use pipezero_models::{Buffer, ElementType};

use tests::Draws;

use super::{ELEMENTS, document_starts, drawn, masks, same_in, unit_in_the_last_place};

#[test]
#[ignore = "needs a GPU, or the fake GPU"]
fn attentions() {
    let shapes = [
        (1, 1, 1, 1, 1),
        (2, 6, 3, 3, 4),
        (1, 33, 2, 2, 64),
        (2, 40, 1, 1, 96),
        (1, 20, 1, 1, 130),
        // Several tiles of every kernel, and ends that fill none.
        (2, 65, 2, 2, 16),
        (1, 64, 1, 1, 32),
        (1, 130, 1, 1, 48),
        (1, 100, 2, 2, 128),
        (1, 40, 1, 1, 256),
        // Heads of queries that share one of keys, in every kernel.
        (2, 37, 6, 2, 5),
        (2, 66, 4, 2, 16),
        (1, 17, 3, 1, 100),
        (1, 70, 4, 2, 80),
        (2, 9, 4, 2, 132),
        (1, 128, 3, 1, 64),
    ];
    for (b, t, h, g, d) in shapes.into_iter().chain(drawn(drawn_shape)) {
        let shape =
            AttentionShape { num_sequences: b, seq_length: t, num_heads: h, num_kv_heads: g, head_size: d };
        for element in ELEMENTS {
            for probability in [0.0, 0.3] {
                same_attention(shape, probability, None, element);
            }
        }
    }
}

/// Of any size of heads, or of one that tensor cores take.
fn drawn_shape(draws: &mut Draws) -> (usize, usize, usize, usize, usize) {
    let kv_heads = 1 + draws.below(2);
    let heads = kv_heads * (1 + draws.below(3));
    let (any, sixteenth) = (1 + draws.below(150), 1 + draws.below(8));
    (
        1 + draws.below(2),
        1 + draws.below(140),
        heads,
        kv_heads,
        draws.of(&[any, 16 * sixteenth, 16 * sixteenth]),
    )
}

/// Rows of documents: as long as a token, shorter than a tile, and longer than some; with tiles of which no query sees a key, and with
/// queries of one block whose documents begin in different tiles.
#[test]
#[ignore = "needs a GPU, or the fake GPU"]
fn attentions_within_documents() {
    let shapes = [
        (1, 1, 1, 1, 1, 1),
        (2, 6, 3, 3, 4, 1),
        (2, 65, 2, 2, 16, 9),
        (1, 130, 1, 1, 48, 40),
        (1, 200, 2, 1, 32, 150),
        (1, 200, 1, 1, 20, 90),
        (2, 70, 4, 2, 80, 30),
        (1, 140, 2, 2, 128, 70),
        (1, 75, 2, 2, 100, 50),
        (2, 40, 2, 1, 132, 25),
        (1, 128, 3, 1, 64, 64),
        (1, 330, 1, 1, 16, 100),
    ];
    let drawn = drawn(|draws| {
        let (b, t, h, g, d) = drawn_shape(draws);
        (b, t, h, g, d, 1 + draws.below(t))
    });
    for (b, t, h, g, d, longest) in shapes.into_iter().chain(drawn) {
        let shape =
            AttentionShape { num_sequences: b, seq_length: t, num_heads: h, num_kv_heads: g, head_size: d };
        let starts = document_starts(b, t, longest);
        for element in ELEMENTS {
            for probability in [0.0, 0.3] {
                same_attention(shape, probability, Some(&starts), element);
            }
        }
    }
}

/// Documents that begin just before, at and just behind the rows at which steps, tiles and blocks do, each long enough for queries far
/// behind its beginning.
#[test]
#[ignore = "needs a GPU, or the fake GPU"]
fn documents_that_begin_around_the_beginnings_of_tiles() {
    // The kernels' head sizes, with tensor cores and without.
    for (h, g, d) in [(2, 1, 16), (1, 1, 128), (2, 1, 20), (1, 1, 100), (1, 1, 132)] {
        for begin in [31, 32, 33, 63, 64, 65] {
            let shape = AttentionShape {
                num_sequences: 1,
                seq_length: 150,
                num_heads: h,
                num_kv_heads: g,
                head_size: d,
            };
            let starts: Vec<u32> = (0..150).map(|n| if n < begin { 0 } else { begin }).collect();
            for element in ELEMENTS {
                same_attention(shape, 0.0, Some(&starts), element);
            }
        }
    }
}

/// Forward and backward, on the device and on the host.
fn same_attention(
    shape: AttentionShape,
    probability: f64,
    document_starts: Option<&[u32]>,
    element: ElementType,
) {
    let AttentionShape { num_sequences, seq_length, .. } = shape;
    let dropout = masks(probability, Place::AttentionWeights(2), num_sequences, seq_length);
    // Tensor cores take probabilities and gradients of scores in 16 bits.
    let tolerance = 2e-5 + unit_in_the_last_place(element);
    same_in(element, &format!("{shape:?}, dropout {probability}, {document_starts:?}"), tolerance, |on| {
        let (n, c) = (num_sequences * seq_length, shape.width());
        let starts = document_starts.map(|starts| on.words(starts));
        let mask = AttentionMask { dropout, document_starts: starts.as_ref().map(Buffer::view) };
        let (mut qkv, mut out) = (on.elements(n * shape.qkv_width()), on.elements(n * c));
        let dout = on.elements(n * c);
        let mut log_sum_exp = on.floats(shape.num_log_sum_exp());
        let mut workspace = on.floats(shape.forward_workspace().max(shape.backward_workspace()));
        // Nothing that is there before may count.
        let nothing = vec![f32::NAN; workspace.len()];
        on.queue.upload_floats(&nothing, workspace.view_mut());
        let (y, sums) = (out.view_mut(), log_sum_exp.view_mut());
        on.queue.attention(shape, mask, qkv.view(), y, sums, workspace.view_mut());
        on.round(&mut out);
        let forward = [on.values(&out), on.values(&log_sum_exp)];
        let attended = Attended { out: out.view(), log_sum_exp: log_sum_exp.view() };
        let (dqkv, space) = (qkv.view_mut(), workspace.view_mut());
        on.queue.attention_backward(shape, mask, dqkv, attended, dout.view(), space);
        let mut results = Vec::from(forward);
        // A single key has no gradient: what is left is rounding.
        let sees_another =
            |n: usize| n % seq_length != document_starts.map_or(0, |starts| starts[n] as usize);
        if (0..n).any(sees_another) {
            results.push(on.values(&qkv));
        }
        results
    });
}

/// One is so far above the others that it must be found before exponentials are taken, which would be infinite.
#[test]
#[ignore = "needs a GPU, or the fake GPU"]
fn the_largest_score_is_found_among_the_last_keys() {
    let (t, h) = (64, 4);
    for (d, element) in [32, 96, 130].iter().flat_map(|&d| ELEMENTS.map(|element| (d, element))) {
        let shape =
            AttentionShape { num_sequences: 1, seq_length: t, num_heads: h, num_kv_heads: h, head_size: d };
        let tolerance = 2e-5 + unit_in_the_last_place(element);
        same_in(element, &format!("{shape:?}"), tolerance, |on| {
            let c = h * d;
            let (mut qkv, mut out) = (on.elements(3 * t * c), on.elements(t * c));
            let (mut large, key) = (on.floats(c), ((t - 4) * 3 + 1) * c);
            on.queue.upload_floats(&vec![1000.0; c], large.view_mut());
            on.queue.copy(large.view(), qkv.view_mut().range(key..key + c));
            let mut log_sum_exp = on.floats(shape.num_log_sum_exp());
            let mut workspace = on.floats(shape.forward_workspace());
            let (y, sums) = (out.view_mut(), log_sum_exp.view_mut());
            on.queue.attention(shape, AttentionMask::default(), qkv.view(), y, sums, workspace.view_mut());
            on.round(&mut out);
            vec![on.values(&out), on.values(&log_sum_exp)]
        });
    }
}
