//! Attention.

use pipezero::models::kernels::attention::AttentionShape;
use pipezero::models::kernels::dropout::Place;
use pipezero::models::queue::Attended;

use super::{ELEMENTS, masks, same_in, unit_in_the_last_place};

#[test]
#[ignore = "needs a GPU, or the imitation of one"]
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
    for (b, t, h, g, d) in shapes {
        let shape =
            AttentionShape { num_sequences: b, seq_length: t, num_heads: h, num_kv_heads: g, head_size: d };
        for (probability, element) in [0.0, 0.3].iter().flat_map(|&p| ELEMENTS.map(|element| (p, element))) {
            let masks = masks(probability, Place::AttentionWeights(2), b, t);
            // Tensor cores take probabilities and gradients of scores in 16 bits.
            let tolerance = 2e-5 + unit_in_the_last_place(element);
            same_in(element, &format!("{shape:?}, dropout {probability}"), tolerance, |on| {
                let (n, c) = (b * t, h * d);
                let (mut qkv, mut out) = (on.elements(n * shape.qkv_width()), on.elements(n * c));
                let dout = on.elements(n * c);
                let mut log_sum_exp = on.floats(shape.num_log_sum_exp());
                let mut workspace = on.floats(shape.forward_workspace().max(shape.backward_workspace()));
                // Nothing that is there before may count.
                let nothing = vec![f32::NAN; workspace.len()];
                on.queue.upload_floats(&nothing, workspace.view_mut());
                let (y, sums) = (out.view_mut(), log_sum_exp.view_mut());
                on.queue.attention(shape, masks, qkv.view(), y, sums, workspace.view_mut());
                on.round(&mut out);
                let forward = [on.values(&out), on.values(&log_sum_exp)];
                let attended = Attended { out: out.view(), log_sum_exp: log_sum_exp.view() };
                on.queue.attention_backward(
                    shape,
                    masks,
                    qkv.view_mut(),
                    attended,
                    dout.view(),
                    workspace.view_mut(),
                );
                let gradient = on.values(&qkv);
                let mut results = Vec::from(forward);
                // A single key has no gradient: what is left is rounding.
                if t > 1 {
                    results.push(gradient);
                }
                results
            });
        }
    }
}

/// One is so far above the others that it must be found before exponentials are taken, which would be infinite.
#[test]
#[ignore = "needs a GPU, or the imitation of one"]
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
            on.queue.attention(shape, None, qkv.view(), y, sums, workspace.view_mut());
            on.round(&mut out);
            vec![on.values(&out), on.values(&log_sum_exp)]
        });
    }
}
