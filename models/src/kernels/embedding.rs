//! Looking up rows of a table by token and by position.
//!
//! Legend: B sequences, T tokens each, N = B T, C columns, V rows of the token table; `y, dy: [N, C]`,
//! `token_table: [V, C]`, `position_table: [at least T, C]`.

use super::parallel::{for_blocks, read, write};

/// `y[n] = token_table[tokens[n]]`.
///
/// # Panics
/// If a token is not below V.
pub fn forward(tokens: &[u32], token_table: &[f32], y: &mut [f32]) {
    let width = y.len() / tokens.len();
    for_blocks(
        (write(y, width), read(tokens, 1)),
        #[inline(always)]
        |(y, tokens)| {
            for (y, &token) in y.elements.chunks_exact_mut(width).zip(tokens.elements) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{random, same_on_all_threads};

    #[test]
    fn rows_are_looked_up_and_their_gradients_return_to_them() {
        let (width, vocab) = (3, 4);
        let table: Vec<f32> = (0..vocab * width).map(|e| e as f32).collect();
        let tokens = [2, 0, 2, 3];
        let mut y = vec![f32::NAN; tokens.len() * width];
        forward(&tokens, &table, &mut y);
        assert_eq!(y, [6.0, 7.0, 8.0, 0.0, 1.0, 2.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0]);
        let mut dtable = vec![100.0; vocab * width];
        backward(&tokens, &y, &mut dtable);
        assert_eq!(
            dtable,
            [100.0, 101.0, 102.0, 100.0, 100.0, 100.0, 112.0, 114.0, 116.0, 109.0, 110.0, 111.0]
        );
    }

    #[test]
    fn positions_repeat_over_the_sequences() {
        let table = [1.0, 2.0, 3.0, 4.0, 9.0, 9.0];
        let mut y = vec![10.0; 8];
        add_positions(2, &table, &mut y, 2);
        assert_eq!(y, [11.0, 12.0, 13.0, 14.0, 11.0, 12.0, 13.0, 14.0]);
        let mut dtable = vec![0.5; 6];
        backward_positions(2, &y, &mut dtable, 2);
        assert_eq!(dtable, [22.5, 24.5, 26.5, 28.5, 0.5, 0.5]);
    }

    #[test]
    fn lookup_is_the_same_on_every_number_of_threads() {
        let (num_tokens, width, vocab) = (900, 37, 11);
        let table = random("table", vocab * width);
        let tokens: Vec<u32> = (0..num_tokens as u32).map(|n| n * n % vocab as u32).collect();
        let y = same_on_all_threads("lookup", || {
            let mut y = vec![f32::NAN; num_tokens * width];
            forward(&tokens, &table, &mut y);
            y
        });
        for (row, &token) in y.chunks_exact(width).zip(&tokens) {
            assert_eq!(row, &table[token as usize * width..][..width]);
        }
    }
}
