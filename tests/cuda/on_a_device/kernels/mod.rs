//! Each kernel beside the host's, whose own tests hold it to f64, autograd and closed forms.

use std::sync::Arc;

use pipezero_models::element::ElementType;
use pipezero_models::kernels::dropout::{Dropout, Masks, Place};
use pipezero_models::kernels::matmul::WriteMode;
use pipezero_models::layer::{MaskKey, MicroBatchShape};
use pipezero_models::queue::{Cuda, Host, Queue};
use pipezero_models::{Buffer, Device};

use tests::{Draws, seed_of_draws};

use super::device;

mod attention;
mod elementwise;
mod heads;
mod masks;
mod products;
mod rows;

/// Numbers between -1 and 1 that a counter gives.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> f32 {
        // The mixture of SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed >> 40) as f32 / (1 << 23) as f32) - 1.0
    }
}

/// A queue, and buffers that are filled alike on every device.
struct On {
    queue: Arc<dyn Queue>,
    numbers: Numbers,
    /// What elements are rounded to.
    rounded_to: ElementType,
    /// What they are stored in: the same, or f32 on the host, which computes in nothing else.
    stored: ElementType,
}

/// What a kernel has written.
struct Values {
    values: Vec<f32>,
    /// What they were rounded to when they were written.
    rounded_to: ElementType,
}

impl On {
    /// The elements of 16 bits at the beginnings of rows of f32 of this width: on the host too, whose own rows of 16 bits no kernel reads.
    fn firsts_of_rows(&mut self, rows: &Buffer, width: usize, half: ElementType) -> Values {
        let mut all = self.queue.zeros(2 * rows.len(), ElementType::F32).unwrap();
        self.queue.copy(rows.view().cast(half), all.view_mut());
        let values = self.values(&all).values;
        let firsts = values.chunks(2 * width).flat_map(|row| &row[..width]).copied().collect();
        Values { values: firsts, rounded_to: half }
    }

    fn floats(&mut self, len: usize) -> Buffer {
        let values: Vec<f32> = (0..len).map(|_| self.numbers.next()).collect();
        let mut buffer = self.queue.zeros(len, ElementType::F32).unwrap();
        self.queue.upload_floats(&values, buffer.view_mut());
        buffer
    }

    /// As [`On::floats`], of the elements' type.
    fn elements(&mut self, len: usize) -> Buffer {
        let mut floats = self.floats(len);
        self.round(&mut floats);
        self.converted(&floats, self.stored)
    }

    /// What is stored in f32 in the place of elements is as exact as they are.
    fn round(&self, buffer: &mut Buffer) {
        if buffer.element_type() != self.rounded_to {
            self.queue.round(buffer.view_mut(), self.rounded_to);
        }
    }

    fn converted(&self, buffer: &Buffer, to: ElementType) -> Buffer {
        let mut converted = self.queue.zeros(buffer.len(), to).unwrap();
        self.queue.copy(buffer.view(), converted.view_mut());
        converted
    }

    fn words(&mut self, words: &[u32]) -> Buffer {
        let mut buffer = self.queue.zeros(words.len(), ElementType::U32).unwrap();
        self.queue.upload(words, buffer.view_mut());
        buffer
    }

    fn values(&self, of: &Buffer) -> Values {
        let floats = self.converted(of, ElementType::F32);
        let mut values = vec![0.0; of.len()];
        self.queue.download_floats(floats.view(), &mut values).unwrap();
        Values { values, rounded_to: of.element_type() }
    }

    /// Words as the floats whose bits they are.
    fn bits(&self, of: &Buffer) -> Values {
        let mut words = vec![0; of.len()];
        self.queue.download(of.view(), &mut words).unwrap();
        Values { values: words.into_iter().map(f32::from_bits).collect(), rounded_to: ElementType::F32 }
    }
}

/// How far two numbers may be apart that are rounded to this type, as a share of them, where they were nearly the same before: a unit in the
/// last place.
fn unit_in_the_last_place(element: ElementType) -> f32 {
    match element {
        ElementType::Bf16 => 1.0 / 128.0,
        ElementType::F16 => 1.0 / 1024.0,
        _ => 0.0,
    }
}

/// As [`same_in_types`], for elements that are stored as they are rounded.
fn same_in(element: ElementType, what: &str, tolerance: f32, run: impl Fn(&mut On) -> Vec<Values>) {
    same_in_types([element, element], &device(), what, tolerance, run);
}

/// Does the same on the host and on a device, in elements that are rounded to one type and there stored in another: what is returned agrees within
/// `tolerance` of the largest element and the rounding of what is stored, or to the bit for 0.
fn same_in_types(
    [rounded_to, stored]: [ElementType; 2],
    device: &Cuda,
    what: &str,
    tolerance: f32,
    run: impl Fn(&mut On) -> Vec<Values>,
) {
    let seed = seed_of_draws().unwrap_or(7);
    let on = |queue: Arc<dyn Queue>, stored| On { queue, numbers: Numbers(seed), rounded_to, stored };
    let expected = run(&mut on(Arc::new(Host), ElementType::F32));
    let found = run(&mut on(device.queue().unwrap(), stored));
    for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
        let expected = &expected.values;
        let last_place = unit_in_the_last_place(found.rounded_to);
        assert_eq!(found.values.len(), expected.len());
        let largest = expected.iter().fold(f32::MIN_POSITIVE, |max, value| max.max(value.abs()));
        for (place, (a, b)) in found.values.iter().zip(expected).enumerate() {
            let limit = tolerance * largest + last_place * b.abs();
            let is_same = a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
            let is_close = is_same || (tolerance > 0.0 && (a - b).abs() <= limit);
            assert!(
                is_close,
                "{what} in {rounded_to}, result {index}, element {place}: {a} on the device, {b} on the host"
            );
        }
    }
}

/// The same in f32.
fn same(what: &str, tolerance: f32, run: impl Fn(&mut On) -> Vec<Values>) {
    same_in(ElementType::F32, what, tolerance, run);
}

/// Shapes beside those of a test's list: the same few in every run, or those of `PIPEZERO_SEED`.
fn drawn<T>(mut shape: impl FnMut(&mut Draws) -> T) -> Vec<T> {
    let mut draws = Draws(seed_of_draws().unwrap_or(1));
    (0..4).map(|_| shape(&mut draws)).collect()
}

const ELEMENTS: [ElementType; 3] = [ElementType::F32, ElementType::Bf16, ElementType::F16];
const MODES: [WriteMode; 2] = [WriteMode::Overwrite, WriteMode::Add];

/// Where documents begin in rows of `t` tokens: random lengths of up to `longest`, and each row goes on with a document of the one before
/// it.
fn document_starts(sequences: usize, t: usize, longest: usize) -> Vec<u32> {
    let mut numbers = Numbers(longest as u64);
    let mut starts = Vec::with_capacity(sequences * t);
    for _ in 0..sequences {
        let (mut start, mut end) = (0, 0);
        for position in 0..t {
            if position == end {
                start = position;
                end += 1 + (longest as f32 * numbers.next().abs()) as usize;
            }
            starts.push(start as u32);
        }
    }
    starts
}

fn masks(probability: f64, place: Place, sequences: usize, seq_length: usize) -> Option<Masks> {
    let key = MaskKey { seed: 11, step: 5, first_sequence: 3 };
    let shape = MicroBatchShape { num_sequences: sequences, seq_length };
    Some(Dropout::new(probability, place)?.masks(key, shape))
}
