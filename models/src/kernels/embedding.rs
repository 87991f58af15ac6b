//! Looking up rows of a table by token and by position.
//!
//! Legend: B sequences, T tokens each, N = B T, C columns, V rows of the token table; `y, dy: [N, C]`,
//! `token_table: [V, C]` or a slice of its rows, `position_table: [at least T, C]`.

use std::ops::Range;

use super::documents::{self, documents};
use super::matmul::WriteMode;
use super::parallel::{check_rows, for_blocks, read, width_of, write};

/// `y[n] = token_table[tokens[n] - first_token]`; rows of `y` whose token is not in the table, a slice of the vocabulary's, stay
/// as they are.
pub fn forward(tokens: &[u32], first_token: u32, token_table: &[f32], y: &mut [f32]) {
    let width = width_of(y.len(), tokens.len());
    check_rows(token_table.len(), width);
    let place = place_in(first_token, token_table.len(), width);
    for_blocks(
        (write(y, width), read(tokens, 1)),
        #[inline(always)]
        |(y, tokens)| {
            for (y, &token) in y.elements.chunks_exact_mut(width).zip(tokens.elements) {
                if let Some(place) = place(token) {
                    y.copy_from_slice(&token_table[place..][..width]);
                }
            }
        },
    );
}

/// `dtoken_table[tokens[n] - first_token] += dy[n]`, in row order on one thread, since two rows may hit the same token; onto zeros
/// where the table is overwritten, since some rows may be hit by none.
pub fn backward(tokens: &[u32], first_token: u32, dy: &[f32], dtoken_table: &mut [f32], mode: WriteMode) {
    let width = width_of(dy.len(), tokens.len());
    check_rows(dtoken_table.len(), width);
    if mode == WriteMode::Overwrite {
        dtoken_table.fill(0.0);
    }
    let place = place_in(first_token, dtoken_table.len(), width);
    for (&token, dy) in tokens.iter().zip(dy.chunks_exact(width)) {
        if let Some(place) = place(token) {
            add(&mut dtoken_table[place..][..width], dy);
        }
    }
}

/// Where a token's row begins in a table of so many elements whose first row is that of `first_token`.
fn place_in(first_token: u32, num_elements: usize, width: usize) -> impl Fn(u32) -> Option<usize> + Sync {
    move |token| {
        let place = token.checked_sub(first_token)? as usize * width;
        (place < num_elements).then_some(place)
    }
}

/// `y[b, t] += position_table[p]`, where `p` is the token's position in its [document](crate::layer::Tokens::document_starts).
pub fn add_positions(
    seq_length: usize,
    document_starts: Option<&[u32]>,
    position_table: &[f32],
    y: &mut [f32],
    width: usize,
) {
    check_rows(position_table.len(), width);
    check_rows(y.len(), seq_length * width);
    documents::check(document_starts, y.len() / width);
    for (sequence, y) in y.chunks_exact_mut(seq_length * width).enumerate() {
        for document in documents_of(document_starts, seq_length, sequence) {
            let positions = &position_table[..document.len() * width];
            add(&mut y[document.start * width..document.end * width], positions);
        }
    }
}

/// `dposition_table[p] += dy[b, t]`, document by document. Where the table is overwritten and a row is one document, the first sequence
/// is not added; positions that no token has become zero.
pub fn backward_positions(
    seq_length: usize,
    document_starts: Option<&[u32]>,
    dy: &[f32],
    dposition_table: &mut [f32],
    width: usize,
    mode: WriteMode,
) {
    check_rows(dposition_table.len(), width);
    check_rows(dy.len(), seq_length * width);
    documents::check(document_starts, dy.len() / width);
    if document_starts.is_some() {
        if mode == WriteMode::Overwrite {
            dposition_table.fill(0.0);
        }
        for (sequence, dy) in dy.chunks_exact(seq_length * width).enumerate() {
            for document in documents_of(document_starts, seq_length, sequence) {
                let sums = &mut dposition_table[..document.len() * width];
                add(sums, &dy[document.start * width..document.end * width]);
            }
        }
        return;
    }
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

/// The documents of one sequence.
fn documents_of(
    document_starts: Option<&[u32]>,
    seq_length: usize,
    sequence: usize,
) -> impl Iterator<Item = Range<usize>> {
    documents(document_starts.map(|starts| &starts[sequence * seq_length..][..seq_length]), seq_length)
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
        forward(&tokens, 0, &table, &mut y);
        assert_eq!(y, [6.0, 7.0, 8.0, 0.0, 1.0, 2.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0]);
        let gradient = |before: f32, mode| {
            let mut dtable = vec![before; vocab * width];
            backward(&tokens, 0, &y, &mut dtable, mode);
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

    /// The whole table in slices of any sizes: each row is written by one of them, and its gradient goes there.
    #[test]
    fn slices_of_a_table_do_what_the_table_does() {
        let (width, vocab) = (3, 5);
        let table = random("table", vocab * width);
        let (tokens, dy) = ([4, 0, 2, 4, 3, 1], random("dy", 6 * width));
        let (mut want, mut dwant) = (vec![f32::NAN; dy.len()], vec![f32::NAN; table.len()]);
        forward(&tokens, 0, &table, &mut want);
        backward(&tokens, 0, &dy, &mut dwant, WriteMode::Overwrite);
        for (first, second) in
            (0..=vocab).flat_map(|first| (first..=vocab).map(move |second| (first, second)))
        {
            let (mut y, mut dtable) = (vec![f32::NAN; want.len()], vec![f32::NAN; table.len()]);
            for rows in [0..first, first..second, second..vocab] {
                let (first_token, cut) = (rows.start as u32, rows.start * width..rows.end * width);
                forward(&tokens, first_token, &table[cut.clone()], &mut y);
                backward(&tokens, first_token, &dy, &mut dtable[cut], WriteMode::Overwrite);
            }
            assert_same_bits("rows", &y, &want);
            assert_same_bits("gradients", &dtable, &dwant);
        }
    }

    #[test]
    fn positions_repeat_over_the_sequences() {
        let table = [1.0, 2.0, 3.0, 4.0, 9.0, 9.0];
        let mut y = vec![10.0; 8];
        add_positions(2, None, &table, &mut y, 2);
        assert_eq!(y, [11.0, 12.0, 13.0, 14.0, 11.0, 12.0, 13.0, 14.0]);
        let gradient = |dy: &[f32], before: f32, mode| {
            let mut dtable = vec![before; 6];
            backward_positions(2, None, dy, &mut dtable, 2, mode);
            dtable
        };
        assert_eq!(gradient(&y, 0.5, WriteMode::Add), [22.5, 24.5, 26.5, 28.5, 0.5, 0.5]);
        for dy in [y, vec![-0.0; 8]] {
            let assigned = gradient(&dy, f32::NAN, WriteMode::Overwrite);
            assert_same_bits("assigned", &assigned, &gradient(&dy, 0.0, WriteMode::Add));
        }
    }

    #[test]
    fn positions_begin_anew_with_each_document() {
        let table: Vec<f32> = (0..5).map(|position| (1 << position) as f32).collect();
        let starts = [0, 0, 2, 2, 0, 1, 1, 3];
        let mut y = vec![100.0; 8];
        add_positions(4, Some(&starts), &table, &mut y, 1);
        assert_eq!(y, [101.0, 102.0, 101.0, 102.0, 101.0, 101.0, 102.0, 101.0]);
        for (mode, before) in [(WriteMode::Overwrite, 0.0), (WriteMode::Add, 7.0)] {
            let mut dtable = vec![7.0; 5];
            let dy = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];
            backward_positions(4, Some(&starts), &dy, &mut dtable, 1, mode);
            assert_eq!(dtable, [181.0, 74.0, 0.0, 0.0, 0.0].map(|sum| before + sum));
        }
        // One document to a row is what a row is without.
        let (x, dy) = (random("x", 8), random("dy", 8));
        for starts in [None, Some(&[0; 8][..])] {
            let (mut y, mut dtable) = (x.clone(), vec![f32::NAN; 5]);
            add_positions(4, starts, &table, &mut y, 1);
            backward_positions(4, starts, &dy, &mut dtable, 1, WriteMode::Overwrite);
            let want: Vec<f32> =
                x.iter().zip(table[..4].iter().cycle()).map(|(x, position)| x + position).collect();
            assert_same_bits("forward", &y, &want);
            let sums = (0..4).map(|t| dy[t] + dy[t + 4]).chain([0.0]);
            assert_same_bits("backward", &dtable, &sums.collect::<Vec<f32>>());
        }
    }

    #[test]
    fn lookup_is_the_same_on_every_number_of_threads() {
        let (num_tokens, width, vocab) = (900, 37, 11);
        let table = random("table", vocab * width);
        let tokens: Vec<u32> = (0..num_tokens as u32).map(|n| n * n % vocab as u32).collect();
        let y = same_on_all_threads("lookup", || {
            let mut y = vec![f32::NAN; num_tokens * width];
            forward(&tokens, 0, &table, &mut y);
            y
        });
        for (row, &token) in y.chunks_exact(width).zip(&tokens) {
            assert_eq!(row, &table[token as usize * width..][..width]);
        }
    }
}
