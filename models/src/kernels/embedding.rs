//! Looking up rows of a table by token and by position.
//!
//! Legend: B sequences, T tokens each, N = B T, C columns, V rows of the token table; `y, dy: [N, C]`,
//! `token_table: [V, C]`, `position_table: [at least T, C]`.

use super::parallel::{PerRow, for_blocks, write};

/// `y[n] = token_table[tokens[n]]`.
///
/// # Panics
/// If a token is not below V.
pub fn forward(tokens: &[u32], token_table: &[f32], y: &mut [f32]) {
    let width = y.len() / tokens.len();
    for_blocks(
        (write(y, width), PerRow(tokens)),
        #[inline(always)]
        |(y, tokens)| {
            for (y, &token) in y.elements.chunks_exact_mut(width).zip(tokens.0) {
                y.copy_from_slice(&token_table[token as usize * width..][..width]);
            }
        },
    );
}

/// `dtoken_table[tokens[n]] += dy[n]`, in row order on one thread, since two rows may hit the same token.
pub fn backward(tokens: &[u32], dy: &[f32], dtoken_table: &mut [f32]) {
    let width = dy.len() / tokens.len();
    for (&token, dy) in tokens.iter().zip(dy.chunks_exact(width)) {
        add(&mut dtoken_table[token as usize * width..][..width], dy);
    }
}

/// `y[b, t] += position_table[t]`.
pub fn add_positions(seq_length: usize, position_table: &[f32], y: &mut [f32], width: usize) {
    for sequence in y.chunks_exact_mut(seq_length * width) {
        add(sequence, &position_table[..seq_length * width]);
    }
}

/// `dposition_table[t] += ` the sum over the sequences of `dy[b, t]`, in order.
pub fn backward_positions(seq_length: usize, dy: &[f32], dposition_table: &mut [f32], width: usize) {
    for sequence in dy.chunks_exact(seq_length * width) {
        add(&mut dposition_table[..seq_length * width], sequence);
    }
}

fn add(sum: &mut [f32], term: &[f32]) {
    for (sum, term) in sum.iter_mut().zip(term) {
        *sum += term;
    }
}
