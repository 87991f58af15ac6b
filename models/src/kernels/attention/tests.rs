use super::*;
use crate::kernels::dropout::{Dropout, Place};
use crate::kernels::philox;
use crate::micro_batch::{MaskKey, MicroBatchShape};
use crate::testing::{assert_close, assert_same_bits, random, same_on_all_threads};

struct Reference {
    out: Vec<f64>,
    log_sum_exp: Vec<f64>,
    dqkv: Vec<f64>,
}

/// Dropout of a quarter, in block 1 of a micro-batch that begins with sequence 6 of step 9.
fn masks(shape: AttentionShape) -> Masks {
    let AttentionShape { num_sequences, seq_length, .. } = shape;
    let key = MaskKey { seed: 2, step: 9, first_sequence: 6 };
    let dropout = Dropout::new(0.25, Place::AttentionWeights(1)).unwrap();
    dropout.masks(key, MicroBatchShape { num_sequences, seq_length })
}

/// What these masks multiply a probability by, from the documented counters, a number at a time.
fn factor(sequence: usize, head: usize, query: usize, key: usize) -> f64 {
    let [key_a, key_b, ..] = philox::block([2, 0], [9, 0, 6 + sequence as u32, 0]);
    let column = 16 * (key / 64) + key % 16;
    let numbers = philox::block([key_a, key_b], [column as u32, query as u32, head as u32, 4]);
    if numbers[key / 16 % 4] < 1 << 30 { 0.0 } else { 4.0 / 3.0 }
}

/// Forward and backward in f64, one query at a time, from the definition, with probabilities multiplied by `factor`.
fn reference(
    shape: AttentionShape,
    document_starts: Option<&[u32]>,
    factor: impl Fn(usize, usize, usize, usize) -> f64,
    qkv: &[f32],
    dout: &[f32],
) -> Reference {
    let AttentionShape { num_sequences, seq_length, num_heads, num_kv_heads, head_size } = shape;
    let width = shape.width();
    let scale = 1.0 / (head_size as f64).sqrt();
    let mut out = vec![0.0; shape.num_tokens() * width];
    let mut log_sum_exp = Vec::new();
    let mut dqkv = vec![0.0; qkv.len()];
    for (sequence, head) in (0..num_sequences).flat_map(|s| (0..num_heads).map(move |h| (s, h))) {
        // Where part 0, 1, 2 (queries, keys, values) of a token of this head begins.
        let at = |part: usize, token: usize| {
            let kv_head = head / (num_heads / num_kv_heads);
            let head = [head, num_heads + kv_head, num_heads + num_kv_heads + kv_head][part];
            ((sequence * seq_length + token) * (num_heads + 2 * num_kv_heads) + head) * head_size
        };
        let get = |start: usize, d: usize| f64::from(qkv[start + d]);
        for query in 0..seq_length {
            let first = document_starts.map_or(0, |starts| starts[sequence * seq_length + query] as usize);
            let score = |key: usize| -> f64 {
                (0..head_size).map(|d| scale * get(at(0, query), d) * get(at(1, key), d)).sum()
            };
            let exponentials: Vec<f64> = (first..=query).map(|key| score(key).exp()).collect();
            let sum: f64 = exponentials.iter().sum();
            log_sum_exp.push(sum.ln());
            let start = (sequence * seq_length + query) * width + head * head_size;
            let dout = |d: usize| f64::from(dout[start + d]);
            let factor = |key: usize| factor(sequence, head, query, key);
            let dp = |key: usize| -> f64 {
                factor(key) * (0..head_size).map(|d| dout(d) * get(at(2, key), d)).sum::<f64>()
            };
            let mean_dp: f64 = (first..=query).map(|key| exponentials[key - first] / sum * dp(key)).sum();
            for key in first..=query {
                let p = exponentials[key - first] / sum;
                let dscore = scale * p * (dp(key) - mean_dp);
                for d in 0..head_size {
                    out[start + d] += factor(key) * p * get(at(2, key), d);
                    dqkv[at(0, query) + d] += dscore * get(at(1, key), d);
                    dqkv[at(1, key) + d] += dscore * get(at(0, query), d);
                    dqkv[at(2, key) + d] += factor(key) * p * dout(d);
                }
            }
        }
    }
    Reference { out, log_sum_exp, dqkv }
}

/// Output, log-sum-exp and gradients of the kernels.
fn run(shape: AttentionShape, mask: Mask<'_>, qkv: &[f32], dout: &[f32]) -> [Vec<f32>; 3] {
    let mut out = vec![f32::NAN; dout.len()];
    let mut log_sum_exp = vec![f32::NAN; shape.num_log_sum_exp()];
    let mut workspace = vec![f32::NAN; shape.forward_workspace()];
    forward(shape, mask, qkv, &mut out, &mut log_sum_exp, &mut workspace);
    let mut dqkv = qkv.to_vec();
    let mut workspace = vec![f32::NAN; shape.backward_workspace()];
    backward(shape, mask, &mut dqkv, &out, &log_sum_exp, dout, &mut workspace);
    [out, log_sum_exp, dqkv]
}

fn shape([num_sequences, seq_length, num_heads, head_size]: [usize; 4]) -> AttentionShape {
    AttentionShape { num_sequences, seq_length, num_heads, num_kv_heads: num_heads, head_size }
}

/// As many heads of queries to each of keys.
fn grouped(group_size: usize, sizes: [usize; 4]) -> AttentionShape {
    let shape = shape(sizes);
    AttentionShape { num_heads: group_size * shape.num_heads, ..shape }
}

#[test]
fn forward_and_backward_equal_the_definition() {
    let sizes = [
        [1, 1, 1, 1],
        [2, 1, 3, 4],
        [1, 2, 1, 5],
        [3, 17, 2, 7],
        // Around the size of a block of queries.
        [1, 63, 1, 8],
        [1, 64, 2, 8],
        [2, 65, 1, 3],
        [1, 131, 3, 16],
    ];
    let grouped_sizes = [[2, 1, 1, 1], [2, 17, 2, 6], [1, 65, 3, 4], [3, 64, 1, 16]];
    let shared = grouped_sizes.into_iter().zip([2, 3, 2, 5]).map(|(sizes, group)| grouped(group, sizes));
    for shape in sizes.map(shape).into_iter().chain(shared) {
        let (qkv, dout) = (
            random("qkv", shape.num_tokens() * shape.qkv_width()),
            random("dout", shape.num_tokens() * shape.width()),
        );
        let kept = reference(shape, None, |_, _, _, _| 1.0, &qkv, &dout);
        let dropped = reference(shape, None, factor, &qkv, &dout);
        for (masks, want) in [(None, kept), (Some(masks(shape)), dropped)] {
            let mask = Mask { dropout: masks, document_starts: None };
            let [out, log_sum_exp, dqkv] = run(shape, mask, &qkv, &dout);
            // Sums of at most 131 terms in f32.
            assert_close("out", &out, &want.out, 3e-6);
            assert_close("dqkv", &dqkv, &want.dqkv, 5e-6);
            // With D = 1 and T = 1 the only value may be near 0.
            let raised: Vec<f64> = want.log_sum_exp.iter().map(|x| x + 1.0).collect();
            let got: Vec<f32> = log_sum_exp.iter().map(|x| x + 1.0).collect();
            assert_close("log-sum-exp", &got, &raised, 2e-6);
        }
    }
}

#[test]
fn large_scores_do_not_overflow() {
    let shape = shape([1, 70, 1, 4]);
    let qkv: Vec<f32> = random("qkv", 70 * 12).iter().map(|x| 100.0 * x).collect();
    let [out, log_sum_exp, dqkv] = run(shape, Mask::default(), &qkv, &random("dout", 70 * 4));
    assert!([out, log_sum_exp, dqkv].concat().iter().all(|x| x.is_finite()));
}

#[test]
fn a_token_does_not_see_what_comes_after_it() {
    let shape = shape([1, 100, 2, 5]);
    let (mut qkv, dout) = (random("qkv", 100 * 30), random("dout", 100 * 10));
    let before = run(shape, Mask::default(), &qkv, &dout)[0].clone();
    qkv[70 * 30..].fill(3.0);
    let after = run(shape, Mask::default(), &qkv, &dout)[0].clone();
    assert_eq!(before[..70 * 10], after[..70 * 10]);
    assert_ne!(before[70 * 10..], after[70 * 10..]);
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let grouped = grouped(3, [1, 90, 2, 8]);
    for shape in [shape([3, 70, 3, 9]), shape([1, 200, 5, 16]), shape([2, 257, 1, 33]), grouped] {
        let (qkv, dout) = (
            random("qkv", shape.num_tokens() * shape.qkv_width()),
            random("dout", shape.num_tokens() * shape.width()),
        );
        let starts = starts_of(shape, &[7, 1, 66]);
        for (dropout, document_starts) in [None, Some(masks(shape))]
            .into_iter()
            .flat_map(|masks| [(masks, None), (masks, Some(&starts[..]))])
        {
            let mask = Mask { dropout, document_starts };
            same_on_all_threads("attention", || run(shape, mask, &qkv, &dout).concat());
        }
    }
}

/// Documents of these lengths, over and over, across the sequences: a document that does not fit goes on in the next one.
fn starts_of(shape: AttentionShape, lens: &[usize]) -> Vec<u32> {
    let mut ends = lens.iter().cycle().scan(0, |end, len| {
        *end += len;
        Some(*end)
    });
    let (mut start, mut end) = (0, ends.next().unwrap());
    let start_of = |n: usize| {
        if n == end {
            start = n;
            end = ends.next().unwrap();
        }
        start.saturating_sub(n / shape.seq_length * shape.seq_length) as u32
    };
    (0..shape.num_tokens()).map(start_of).collect()
}

#[test]
fn documents_equal_the_definition() {
    for (shape, lens) in [
        (shape([1, 1, 1, 3]), &[1][..]),
        (shape([3, 17, 2, 7]), &[1, 2, 5]),
        (shape([2, 65, 1, 3]), &[40]),
        (shape([1, 131, 3, 16]), &[64, 3, 64]),
        (grouped(2, [2, 90, 2, 6]), &[70, 1, 1]),
    ] {
        let (qkv, dout) = (
            random("qkv", shape.num_tokens() * shape.qkv_width()),
            random("dout", shape.num_tokens() * shape.width()),
        );
        let starts = starts_of(shape, lens);
        let kept = reference(shape, Some(&starts), |_, _, _, _| 1.0, &qkv, &dout);
        let dropped = reference(shape, Some(&starts), factor, &qkv, &dout);
        for (dropout, want) in [(None, kept), (Some(masks(shape)), dropped)] {
            let mask = Mask { dropout, document_starts: Some(&starts) };
            let [out, log_sum_exp, dqkv] = run(shape, mask, &qkv, &dout);
            // As above.
            assert_close("out", &out, &want.out, 3e-6);
            assert_close("dqkv", &dqkv, &want.dqkv, 5e-6);
            assert_close("log-sum-exp", &log_sum_exp, &want.log_sum_exp, 4e-6);
        }
    }
}

/// Output, sums and gradients of each document are to the bit those that it has alone in a row.
#[test]
fn a_document_in_a_packed_row_is_what_it_is_alone() {
    let packed = grouped(2, [2, 150, 2, 9]);
    let (qkv, dout) = (
        random("qkv", packed.num_tokens() * packed.qkv_width()),
        random("dout", packed.num_tokens() * packed.width()),
    );
    for lens in [&[150][..], &[70, 80], &[1, 2, 147], &[30; 5], &[100, 60]] {
        let starts = starts_of(packed, lens);
        let mask = Mask { dropout: None, document_starts: Some(&starts) };
        let of_packed = run(packed, mask, &qkv, &dout);
        let mut first = 0;
        let rows = starts.chunks_exact(packed.seq_length).enumerate();
        for (sequence, document) in rows
            .flat_map(|(sequence, row)| row.chunk_by(|a, b| a == b).map(move |document| (sequence, document)))
        {
            let tokens = first..first + document.len();
            first = tokens.end;
            let of = |values: &[f32], width: usize| values[tokens.start * width..tokens.end * width].to_vec();
            let alone = AttentionShape { num_sequences: 1, seq_length: tokens.len(), ..packed };
            let of_alone =
                run(alone, Mask::default(), &of(&qkv, packed.qkv_width()), &of(&dout, packed.width()));
            assert_same_bits("out", &of(&of_packed[0], packed.width()), &of_alone[0]);
            assert_same_bits("dqkv", &of(&of_packed[2], packed.qkv_width()), &of_alone[2]);
            for head in 0..packed.num_heads {
                let start = (sequence * packed.num_heads + head) * packed.seq_length + document[0] as usize;
                let sums = &of_packed[1][start..][..tokens.len()];
                assert_same_bits("log-sum-exp", sums, &of_alone[1][head * tokens.len()..][..tokens.len()]);
            }
        }
    }
}
