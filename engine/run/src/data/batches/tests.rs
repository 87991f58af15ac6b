//! The same samples on every grid, each exactly once per epoch.

use std::sync::Arc;

use super::super::store::Store;
use super::*;

/// The micro-batches of a text.
fn batches(text: Vec<u8>, layout: BatchLayout, seed: u64) -> Option<TokenBatches> {
    let num_tokens = text.len() as u64;
    let mut stream = Stream::new(Arc::new(vec![Store::of_bytes(&text)]), 256);
    stream.push(0, 0..num_tokens);
    TokenBatches::new(vec![stream], None, layout, seed)
}

/// A text of 256 tokens in which every token is its own position.
fn positions() -> Vec<u8> {
    (0..=255).collect()
}

fn layout(data_degree: usize, num_micro_batches: usize, micro_batch_size: usize) -> BatchLayout {
    BatchLayout { data_degree, num_micro_batches, micro_batch_size, seq_length: 5 }
}

/// The inputs and targets of a step, data ranks and micro-batches in order.
fn step_tokens(source: &TokenBatches, step: u64) -> (Vec<u32>, Vec<u32>) {
    let mut batch = TokenBatch::zeros(source.layout.micro_batch_size, source.layout.seq_length);
    let (mut inputs, mut targets) = (Vec::new(), Vec::new());
    for data_rank in 0..source.layout.data_degree {
        for micro_batch in 0..source.layout.num_micro_batches {
            source.micro_batch(step, data_rank, micro_batch, &mut batch).expect("text never fails");
            inputs.extend_from_slice(&batch.inputs);
            targets.extend_from_slice(&batch.targets);
        }
    }
    (inputs, targets)
}

/// Every way to write 12 sequences as data degree x micro-batches x micro-batch size sees the same tokens in the same
/// order, at every step of more than one epoch.
#[test]
fn samples_do_not_depend_on_the_grid() {
    let reference = batches(positions(), layout(1, 1, 12), 11).expect("long enough");
    let factors = |number: usize| (1..=number).filter(move |factor| number.is_multiple_of(*factor));
    let mut num_grids = 0;
    for data_degree in factors(12) {
        for num_micro_batches in factors(12 / data_degree) {
            let micro_batch_size = 12 / data_degree / num_micro_batches;
            let layout = layout(data_degree, num_micro_batches, micro_batch_size);
            let source = batches(positions(), layout, 11).expect("long enough");
            for step in 1..=9 {
                assert_eq!(
                    step_tokens(&source, step),
                    step_tokens(&reference, step),
                    "{layout:?}, step {step}"
                );
            }
            num_grids += 1;
        }
    }
    // 12 = 2^2 * 3 falls into three ordered factors in 6 * 3 ways.
    assert_eq!(num_grids, 18);
}

#[test]
fn an_epoch_makes_every_token_but_the_first_a_target_once() {
    // 256 tokens hold 51 windows of 5 + 1; 3 sequences a step end the epoch after 17 steps.
    let source = batches(positions(), layout(1, 3, 1), 2).expect("long enough");
    assert_eq!(source.num_samples(), 51);
    for epoch in 0..2 {
        let mut all_targets = Vec::new();
        for step in 1 + 17 * epoch..=17 + 17 * epoch {
            let (inputs, targets) = step_tokens(&source, step);
            assert!(inputs.iter().zip(&targets).all(|(input, target)| input + 1 == *target));
            assert!(inputs.chunks(5).all(|row| row[0] % 5 == 0 && row[4] == row[0] + 4));
            all_targets.extend(targets);
        }
        all_targets.sort_unstable();
        assert!(all_targets.into_iter().eq(1..=255));
    }
    assert_eq!([0, 17, 34].map(|step| source.epoch(step)), [0.0, 1.0, 2.0]);
}

/// A micro-batch has one of the lengths, whichever data rank reads it, and of its samples the first tokens.
#[test]
fn micro_batches_have_the_lengths_that_are_asked_for() {
    let lengths = [1, 3, 5];
    let of = |data_degree, num_micro_batches| {
        batches(positions(), layout(data_degree, num_micro_batches, 2), 7).expect("long enough")
    };
    let (all, whole) = (of(1, 6).of_lengths(&lengths), of(1, 6));
    assert_eq!(whole.seq_length(1, 0, 0), None);
    let mut seen = [0; 3];
    for (step, micro_batch) in (1..=50).flat_map(|step| (0..6).map(move |micro_batch| (step, micro_batch))) {
        let length = all.seq_length(step, 0, micro_batch).expect("one of three");
        seen[lengths.iter().position(|&known| known == length).expect("one of three")] += 1;
        for data_degree in [2, 3] {
            let shared = of(data_degree, 6 / data_degree).of_lengths(&lengths);
            let (data_rank, own) = (micro_batch / (6 / data_degree), micro_batch % (6 / data_degree));
            assert_eq!(shared.seq_length(step, data_rank, own), Some(length));
        }
        let [mut short, mut long] = [length, 5].map(|length| TokenBatch::zeros(2, length));
        all.micro_batch(step, 0, micro_batch, &mut short).expect("text never fails");
        whole.micro_batch(step, 0, micro_batch, &mut long).expect("text never fails");
        for row in 0..2 {
            assert_eq!(short.inputs[row * length..][..length], long.inputs[row * 5..][..length]);
            assert_eq!(short.targets[row * length..][..length], long.targets[row * 5..][..length]);
        }
    }
    // 300 draws of three: each expected 100 times, with a deviation of 8.
    assert!(seen.iter().all(|num| (60..140).contains(num)), "{seen:?}");
}

/// A batch may be larger than the text: then a step reads some samples more than once.
#[test]
fn a_batch_may_hold_several_epochs() {
    let source = batches(b"abcdef".to_vec(), layout(2, 1, 2), 1).expect("long enough");
    assert_eq!(source.num_samples(), 1);
    let (inputs, targets) = step_tokens(&source, 3);
    assert!(inputs.chunks(5).all(|row| row.iter().copied().eq(97..102)), "{inputs:?}");
    assert!(targets.chunks(5).all(|row| row.iter().copied().eq(98..103)), "{targets:?}");
    assert_eq!(source.epoch(3), 12.0);
}

#[test]
fn texts_without_a_sequence_make_no_source() {
    assert!(batches(vec![0; 6], layout(1, 1, 1), 1).is_some());
    for num_tokens in 0..6 {
        assert!(batches(vec![0; num_tokens], layout(1, 1, 1), 1).is_none(), "{num_tokens} tokens");
    }
    let no_tokens = BatchLayout { seq_length: 0, ..layout(1, 1, 1) };
    assert!(batches(positions(), no_tokens, 1).is_none());
}

/// Steps of 12 sequences, then of 4, 6 and 12 again: each goes on where the one before has stopped, over more than one epoch.
#[test]
fn another_batch_size_goes_on_with_the_next_sequence() {
    let source = |size| batches(positions(), layout(1, 1, size), 11).expect("long enough");
    let one_by_one = source(1);
    let mut start = Start::default();
    for size in [12, 4, 6, 12] {
        let resumed = source(size).starting_at(start);
        for step in start.num_steps + 1..=start.num_steps + 3 {
            let before = start.num_sequences + (step - start.num_steps - 1) * size as u64;
            let expected = (1..=size as u64).map(|sequence| step_tokens(&one_by_one, before + sequence).0);
            assert_eq!(
                step_tokens(&resumed, step).0,
                expected.collect::<Vec<_>>().concat(),
                "{size}, step {step}"
            );
            let read = before + size as u64;
            assert!((resumed.epoch(step) - read as f64 / resumed.num_samples() as f64).abs() < 1e-12);
        }
        start =
            Start { num_steps: start.num_steps + 3, num_sequences: start.num_sequences + 3 * size as u64 };
    }
}
