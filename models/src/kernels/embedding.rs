//! Looking up rows of a table by token and by position.
//!
//! Legend: B sequences, T tokens each, N = B T, C columns, V rows of the token table; `y, dy: [N, C]`,
//! `token_table: [V, C]`, `position_table: [at least T, C]`.

use super::matmul::WriteMode;
use super::parallel::{check_rows, for_blocks, read, width_of, write};

/// `y[n] = token_table[tokens[n]]`.
///
/// # Panics
/// If a token is not below V.
pub fn forward(tokens: &[u32], token_table: &[f32], y: &mut [f32]) {
    let width = width_of(y.len(), tokens.len());
    check_rows(token_table.len(), width);
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

/// `dtoken_table[tokens[n]] += dy[n]`, in row order on one thread, since two rows may hit the same token; onto zeros where the
/// table is overwritten, since some rows may be hit by none.
pub fn backward(tokens: &[u32], dy: &[f32], dtoken_table: &mut [f32], mode: WriteMode) {
    let width = width_of(dy.len(), tokens.len());
    check_rows(dtoken_table.len(), width);
    if mode == WriteMode::Overwrite {
        dtoken_table.fill(0.0);
    }
    for (&token, dy) in tokens.iter().zip(dy.chunks_exact(width)) {
        add(&mut dtoken_table[token as usize * width..][..width], dy);
    }
}

/// `y[b, t] += position_table[t]`.
pub fn add_positions(seq_length: usize, position_table: &[f32], y: &mut [f32], width: usize) {
    check_rows(position_table.len(), width);
    check_rows(y.len(), seq_length * width);
    for sequence in y.chunks_exact_mut(seq_length * width) {
        add(sequence, &position_table[..seq_length * width]);
    }
}

/// `dposition_table[t] += dy[b, t]`, sequence by sequence. Where the table is overwritten, the first sequence is not added, and
/// positions from `seq_length` on become zero.
pub fn backward_positions(
    seq_length: usize,
    dy: &[f32],
    dposition_table: &mut [f32],
    width: usize,
    mode: WriteMode,
) {
    check_rows(dposition_table.len(), width);
    check_rows(dy.len(), seq_length * width);
    let (sums, unused) = dposition_table.split_at_mut(seq_length * width);
    let mut sequences = dy.chunks_exact(sums.len());
    if mode == WriteMode::Overwrite {
        unused.fill(0.0);
        let first = sequences.next().expect("a micro-batch has at least one sequence");
        // A sum that begins at zero is never -0.0: the bits are those of an addition to zeros.
        sums.iter_mut().zip(first).for_each(|(sum, term)| *sum = 0.0 + term);
    }
    sequences.for_each(|sequence| add(sums, sequence));
}

fn add(sum: &mut [f32], term: &[f32]) {
    for (sum, term) in sum.iter_mut().zip(term) {
        *sum += term;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_same_bits, random, same_on_all_threads};

    #[test]
    fn rows_are_looked_up_and_their_gradients_return_to_them() {
        let (width, vocab) = (3, 4);
        let table: Vec<f32> = (0..vocab * width).map(|e| e as f32).collect();
        let tokens = [2, 0, 2, 3];
        let mut y = vec![f32::NAN; tokens.len() * width];
        forward(&tokens, &table, &mut y);
        assert_eq!(y, [6.0, 7.0, 8.0, 0.0, 1.0, 2.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0]);
        let gradient = |before: f32, mode| {
            let mut dtable = vec![before; vocab * width];
            backward(&tokens, &y, &mut dtable, mode);
            dtable
        };
        assert_eq!(
            gradient(100.0, WriteMode::Add),
            [100.0, 101.0, 102.0, 100.0, 100.0, 100.0, 112.0, 114.0, 116.0, 109.0, 110.0, 111.0]
        );
        assert_same_bits(
            "assigned",
            &gradient(f32::NAN, WriteMode::Overwrite),
            &gradient(0.0, WriteMode::Add),
        );
    }

    #[test]
    fn positions_repeat_over_the_sequences() {
        let table = [1.0, 2.0, 3.0, 4.0, 9.0, 9.0];
        let mut y = vec![10.0; 8];
        add_positions(2, &table, &mut y, 2);
        assert_eq!(y, [11.0, 12.0, 13.0, 14.0, 11.0, 12.0, 13.0, 14.0]);
        let gradient = |dy: &[f32], before: f32, mode| {
            let mut dtable = vec![before; 6];
            backward_positions(2, dy, &mut dtable, 2, mode);
            dtable
        };
        assert_eq!(gradient(&y, 0.5, WriteMode::Add), [22.5, 24.5, 26.5, 28.5, 0.5, 0.5]);
        for dy in [y, vec![-0.0; 8]] {
            let assigned = gradient(&dy, f32::NAN, WriteMode::Overwrite);
            assert_same_bits("assigned", &assigned, &gradient(&dy, 0.0, WriteMode::Add));
        }
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
