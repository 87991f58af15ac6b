use super::*;
use crate::testing::{assert_close, random, same_on_all_threads};

struct Reference {
    out: Vec<f64>,
    log_sum_exp: Vec<f64>,
    dqkv: Vec<f64>,
}

/// Forward and backward in f64, one query at a time, from the definition.
fn reference(shape: AttentionShape, qkv: &[f32], dout: &[f32]) -> Reference {
    let AttentionShape { num_sequences, seq_length, num_heads, head_size } = shape;
    let width = shape.width();
    let scale = 1.0 / (head_size as f64).sqrt();
    let mut out = vec![0.0; shape.num_tokens() * width];
    let mut log_sum_exp = Vec::new();
    let mut dqkv = vec![0.0; qkv.len()];
    for (sequence, head) in (0..num_sequences).flat_map(|s| (0..num_heads).map(move |h| (s, h))) {
        // Where part 0, 1, 2 (queries, keys, values) of a token of this head begins.
        let at = |part: usize, token: usize| {
            (sequence * seq_length + token) * 3 * width + part * width + head * head_size
        };
        let get = |start: usize, d: usize| f64::from(qkv[start + d]);
        for query in 0..seq_length {
            let score = |key: usize| -> f64 {
                (0..head_size).map(|d| scale * get(at(0, query), d) * get(at(1, key), d)).sum()
            };
            let exponentials: Vec<f64> = (0..=query).map(|key| score(key).exp()).collect();
            let sum: f64 = exponentials.iter().sum();
            log_sum_exp.push(sum.ln());
            let start = (sequence * seq_length + query) * width + head * head_size;
            let dout = |d: usize| f64::from(dout[start + d]);
            let dp = |key: usize| -> f64 { (0..head_size).map(|d| dout(d) * get(at(2, key), d)).sum() };
            let mean_dp: f64 = (0..=query).map(|key| exponentials[key] / sum * dp(key)).sum();
            for key in 0..=query {
                let p = exponentials[key] / sum;
                let dscore = scale * p * (dp(key) - mean_dp);
                for d in 0..head_size {
                    out[start + d] += p * get(at(2, key), d);
                    dqkv[at(0, query) + d] += dscore * get(at(1, key), d);
                    dqkv[at(1, key) + d] += dscore * get(at(0, query), d);
                    dqkv[at(2, key) + d] += p * dout(d);
                }
            }
        }
    }
    Reference { out, log_sum_exp, dqkv }
}

/// Output, log-sum-exp and gradients of the kernels.
fn run(shape: AttentionShape, qkv: &[f32], dout: &[f32]) -> [Vec<f32>; 3] {
    let mut out = vec![f32::NAN; dout.len()];
    let mut log_sum_exp = vec![f32::NAN; shape.num_log_sum_exp()];
    let mut workspace = vec![f32::NAN; shape.forward_workspace()];
    forward(shape, qkv, &mut out, &mut log_sum_exp, &mut workspace);
    let mut dqkv = qkv.to_vec();
    let mut workspace = vec![f32::NAN; shape.backward_workspace()];
    backward(shape, &mut dqkv, &out, &log_sum_exp, dout, &mut workspace);
    [out, log_sum_exp, dqkv]
}

fn shape([num_sequences, seq_length, num_heads, head_size]: [usize; 4]) -> AttentionShape {
    AttentionShape { num_sequences, seq_length, num_heads, head_size }
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
    for shape in sizes.map(shape) {
        let (qkv, dout) = (
            random("qkv", shape.num_tokens() * 3 * shape.width()),
            random("dout", shape.num_tokens() * shape.width()),
        );
        let want = reference(shape, &qkv, &dout);
        let [out, log_sum_exp, dqkv] = run(shape, &qkv, &dout);
        // Sums of at most 131 terms in f32.
        assert_close("out", &out, &want.out, 3e-6);
        assert_close("dqkv", &dqkv, &want.dqkv, 5e-6);
        // With D = 1 and T = 1 the only value may be near 0.
        let raised: Vec<f64> = want.log_sum_exp.iter().map(|x| x + 1.0).collect();
        let got: Vec<f32> = log_sum_exp.iter().map(|x| x + 1.0).collect();
        assert_close("log-sum-exp", &got, &raised, 2e-6);
    }
}

#[test]
fn large_scores_do_not_overflow() {
    let shape = shape([1, 70, 1, 4]);
    let qkv: Vec<f32> = random("qkv", 70 * 12).iter().map(|x| 100.0 * x).collect();
    let [out, log_sum_exp, dqkv] = run(shape, &qkv, &random("dout", 70 * 4));
    assert!([out, log_sum_exp, dqkv].concat().iter().all(|x| x.is_finite()));
}

#[test]
fn a_token_does_not_see_what_comes_after_it() {
    let shape = shape([1, 100, 2, 5]);
    let (mut qkv, dout) = (random("qkv", 100 * 30), random("dout", 100 * 10));
    let before = run(shape, &qkv, &dout)[0].clone();
    qkv[70 * 30..].fill(3.0);
    let after = run(shape, &qkv, &dout)[0].clone();
    assert_eq!(before[..70 * 10], after[..70 * 10]);
    assert_ne!(before[70 * 10..], after[70 * 10..]);
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    for shape in [shape([3, 70, 3, 9]), shape([1, 200, 5, 16]), shape([2, 257, 1, 33])] {
        let (qkv, dout) = (
            random("qkv", shape.num_tokens() * 3 * shape.width()),
            random("dout", shape.num_tokens() * shape.width()),
        );
        same_on_all_threads("attention", || run(shape, &qkv, &dout).concat());
    }
}
