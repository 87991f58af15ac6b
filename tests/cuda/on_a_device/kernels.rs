//! Each kernel beside the host's, whose own tests hold it to f64, autograd and closed forms.

use std::sync::Arc;

use pipezero::models::element::ElementType;
use pipezero::models::kernels::adamw::AdamWStep;
use pipezero::models::kernels::attention::AttentionShape;
use pipezero::models::kernels::dropout::{Dropout, Masks, Place};
use pipezero::models::kernels::linear::LinearShape;
use pipezero::models::kernels::matmul::WriteMode;
use pipezero::models::kernels::sgd::SgdStep;
use pipezero::models::layer::{MaskKey, MicroBatchShape};
use pipezero::models::queue::{Affine, Attended, Host, Onto, Queue};
use pipezero::models::{Buffer, Device};

use super::device;

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
        self.queue.download_floats(floats.view(), &mut values);
        Values { values, rounded_to: of.element_type() }
    }

    /// Words as the floats whose bits they are.
    fn bits(&self, of: &Buffer) -> Values {
        let mut words = vec![0; of.len()];
        self.queue.download(of.view(), &mut words);
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

/// Does the same on the host and on the device: what is returned agrees within `tolerance` of the largest element and the rounding of what is
/// stored, or to the bit for 0.
fn same_in(element: ElementType, what: &str, tolerance: f32, run: impl Fn(&mut On) -> Vec<Values>) {
    let on = |queue: Arc<dyn Queue>, stored| On { queue, numbers: Numbers(7), rounded_to: element, stored };
    let expected = run(&mut on(Arc::new(Host), ElementType::F32));
    let found = run(&mut on(device().queue().unwrap(), element));
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
                "{what} in {element}, result {index}, element {place}: {a} on the device, {b} on the host"
            );
        }
    }
}

/// The same in f32.
fn same(what: &str, tolerance: f32, run: impl Fn(&mut On) -> Vec<Values>) {
    same_in(ElementType::F32, what, tolerance, run);
}

const ELEMENTS: [ElementType; 3] = [ElementType::F32, ElementType::Bf16, ElementType::F16];
const MODES: [WriteMode; 2] = [WriteMode::Overwrite, WriteMode::Add];
/// Rows and columns: single ones, odd ones, and more than a block has threads.
const SHAPES: [(usize, usize); 5] = [(1, 1), (3, 7), (33, 12), (5, 257), (70, 1030)];

#[test]
#[ignore = "needs a GPU, or the imitation of one"]
fn products() {
    for (n, i, o) in [(1, 1, 1), (6, 12, 36), (17, 33, 9), (64, 48, 100)] {
        let shape = LinearShape { num_rows: n, num_inputs: i, num_outputs: o };
        for element in ELEMENTS {
            same_in(element, &format!("{shape:?}"), 1e-5, |on| {
                let (x, weight, bias) = (on.elements(n * i), on.elements(o * i), on.elements(o));
                let (residual, dy) = (on.elements(n * o), on.elements(n * o));
                let mut results = Vec::new();
                let both = Onto::BiasAndResidual { bias: bias.view(), residual: residual.view() };
                for onto in [Onto::Nothing, Onto::Bias(bias.view()), both] {
                    let mut y = on.elements(n * o);
                    on.queue.linear(shape, x.view(), weight.view(), onto, y.view_mut());
                    results.push(on.values(&y));
                }
                let mut logits = on.floats(n * o);
                on.queue.linear(shape, x.view(), weight.view(), Onto::Nothing, logits.view_mut());
                results.push(on.values(&logits));
                let mut dx = on.elements(n * i);
                on.queue.linear_backward_input(
                    shape,
                    dy.view(),
                    weight.view(),
                    dx.view_mut(),
                    WriteMode::Overwrite,
                );
                results.push(on.values(&dx));
                for mode in MODES {
                    let (mut dx, mut dweight, mut dbias) = (on.floats(n * i), on.floats(o * i), on.floats(o));
                    on.queue.linear_backward_input(shape, dy.view(), weight.view(), dx.view_mut(), mode);
                    on.queue.linear_backward_weight(shape, dy.view(), x.view(), dweight.view_mut(), mode);
                    on.queue.bias_backward(dy.view(), dbias.view_mut(), mode);
                    results.extend([on.values(&dx), on.values(&dweight), on.values(&dbias)]);
                }
                results
            });
        }
    }
}

/// What a loss leaves of logits goes into products where it lies.
#[test]
#[ignore = "needs a GPU, or the imitation of one"]
fn narrowed_rows_are_factors() {
    for (n, i, o) in [(1, 3, 1), (6, 12, 37), (9, 16, 600)] {
        let shape = LinearShape { num_rows: n, num_inputs: i, num_outputs: o };
        for element in [ElementType::Bf16, ElementType::F16] {
            same_in(element, &format!("{shape:?}"), 1e-5, |on| {
                let (x, weight) = (on.elements(n * i), on.elements(o * i));
                let (mut dy, mut dx, mut dweight) = (on.floats(n * o), on.floats(n * i), on.floats(o * i));
                if on.stored == element {
                    on.queue.narrow_rows(dy.view_mut(), o, element);
                } else {
                    on.round(&mut dy);
                }
                let dy = dy.view().cast(on.stored);
                for mode in MODES {
                    on.queue.linear_backward_input(shape, dy, weight.view(), dx.view_mut(), mode);
                    on.queue.linear_backward_weight(shape, dy, x.view(), dweight.view_mut(), mode);
                }
                vec![on.values(&dx), on.values(&dweight)]
            });
        }
    }
}

#[test]
#[ignore = "needs a GPU, or the imitation of one"]
fn conversions_are_the_hosts_to_the_bit() {
    for half in [ElementType::Bf16, ElementType::F16] {
        same(&format!("{half:?}"), 0.0, |on| {
            let mut special =
                vec![0.0, -0.0, f32::INFINITY, 1e-7, 65520.0, -65519.0, 1e38, 6e-8, 3e-8, 1e-40];
            // The NaN that is nearest to infinity.
            special.push(f32::from_bits(0x7f80_0001));
            special.extend((0..300).map(|_| on.numbers.next()));
            let len = special.len();
            let mut x = on.queue.zeros(len, ElementType::F32).unwrap();
            on.queue.upload_floats(&special, x.view_mut());
            let mut narrow = on.queue.zeros(len, half).unwrap();
            // Over what is there.
            let (before, mut wide) = (on.floats(len), on.floats(len));
            on.queue.copy(before.view(), narrow.view_mut());
            on.queue.copy(x.view(), narrow.view_mut());
            on.queue.copy(narrow.view(), wide.view_mut());
            on.queue.round(x.view_mut().range(5..len), half);
            // On the host too, whose own rows of 16 bits no kernel reads.
            let mut rows = on.floats(6 * 300);
            on.queue.narrow_rows(rows.view_mut(), 300, half);
            let mut firsts = Vec::new();
            for row in 0..6 {
                let mut first = on.queue.zeros(300, ElementType::F32).unwrap();
                on.queue.copy(rows.view().cast(half).range(600 * row..600 * row + 300), first.view_mut());
                firsts.push(on.values(&first));
            }
            firsts.extend([on.values(&wide), on.values(&x)]);
            firsts
        });
    }
}

#[test]
#[ignore = "needs a GPU, or the imitation of one"]
fn elementwise() {
    for len in [1, 255, 256, 257, 1000] {
        for element in ELEMENTS {
            same_in(element, &format!("gelu of {len}"), 1e-6, |on| {
                let (mut x, mut y, mut dy) = (on.elements(len), on.elements(len), on.elements(len));
                on.queue.gelu(x.view(), y.view_mut());
                on.queue.gelu_backward(x.view_mut(), dy.view_mut());
                vec![on.values(&y), on.values(&x), on.values(&dy)]
            });
        }
        same(&format!("sums of {len}"), 0.0, |on| {
            let (a, b, c, mut own) = (on.floats(len), on.floats(len), on.floats(len), on.floats(len));
            on.queue.sum_in_order(&[a.view(), b.view()], own.view_mut(), &[c.view()]);
            let mut sum = on.floats(len);
            on.queue.add(own.view(), sum.view_mut());
            let mut squares = on.words(&[0; 20]);
            on.queue.add_squares(own.view(), squares.view_mut());
            on.queue.add_squares(sum.view(), squares.view_mut());
            on.queue.clear(own.view_mut().range(0..len / 2));
            vec![on.values(&own), on.values(&sum), on.bits(&squares)]
        });
        same(&format!("squares of {len} and 40,000"), 0.0, |on| {
            // More than a block has, and one with the largest exponent.
            let mut values: Vec<f32> = (0..len + 40_000).map(|_| on.numbers.next()).collect();
            values[0] = 3e38;
            let mut x = on.queue.zeros(values.len(), ElementType::F32).unwrap();
            on.queue.upload_floats(&values, x.view_mut());
            let mut squares = on.words(&[0; 20]);
            on.queue.add_squares(x.view(), squares.view_mut());
            // 2^-5 squared is 1 in a word: it makes the word the largest number, and the second carries.
            let mut carried = on.words(&[&[u32::MAX - 1; 18][..], &[0; 2]].concat());
            on.queue.upload_floats(&[1.0 / 32.0], x.view_mut().range(0..1));
            on.queue.add_squares(x.view().range(0..1), carried.view_mut());
            let once = on.bits(&carried);
            on.queue.add_squares(x.view().range(0..1), carried.view_mut());
            let mut broken = on.words(&[0; 20]);
            on.queue.upload_floats(&[f32::INFINITY], x.view_mut().range(0..1));
            on.queue.add_squares(x.view().range(0..1), broken.view_mut());
            vec![on.bits(&squares), once, on.bits(&carried), on.bits(&broken)]
        });
        same(&format!("updates of {len}"), 0.0, |on| {
            let (mut p, g) = (on.floats(len), on.floats(len));
            let (mut m, mut v) = (on.floats(len), on.floats(len));
            let (mut square, lr, weight_decay) = (on.floats(len), 1e-2, 0.1);
            // A second moment is no negative number.
            let seconds: Vec<f32> = (0..len).map(|_| on.numbers.next().abs()).collect();
            on.queue.upload_floats(&seconds, v.view_mut());
            let step =
                AdamWStep { gradient_scale: 0.5, lr, betas: (0.9, 0.95), eps: 1e-8, weight_decay, step: 3 };
            on.queue.adamw(step, p.view_mut(), g.view(), [m.view_mut(), v.view_mut()]);
            let step = SgdStep { gradient_scale: 0.5, lr, weight_decay };
            on.queue.sgd(step, square.view_mut(), g.view());
            on.queue.sgd_with_momentum(step, 0.9, square.view_mut(), g.view(), m.view_mut());
            vec![on.values(&p), on.values(&m), on.values(&v), on.values(&square)]
        });
    }
}

#[test]
#[ignore = "needs a GPU, or the imitation of one"]
fn layer_norms() {
    let cases = SHAPES.iter().flat_map(|shape| ELEMENTS.map(|element| (*shape, element)));
    for ((rows, width), element) in cases {
        same_in(element, &format!("layer norm of {rows} x {width}"), 1e-5, |on| {
            let (x, dy) = (on.elements(rows * width), on.elements(rows * width));
            let (weight, bias) = (on.elements(width), on.elements(width));
            let affine = Affine { weight: weight.view(), bias: bias.view() };
            let (mut y, mut statistics) = (on.elements(rows * width), on.floats(2 * rows));
            on.queue.layer_norm(x.view(), affine, y.view_mut(), statistics.view_mut());
            let mut results = vec![on.values(&y)];
            on.queue.layer_norm_statistics(x.view(), width, statistics.view_mut());
            on.queue.layer_norm_again(x.view(), affine, statistics.view(), y.view_mut());
            results.push(on.values(&y));
            for mode in MODES {
                let (mut dx, mut dweight, mut dbias) =
                    (on.floats(rows * width), on.floats(width), on.floats(width));
                let kept = statistics.view();
                on.queue.layer_norm_backward_input(
                    x.view(),
                    weight.view(),
                    kept,
                    dy.view(),
                    dx.view_mut(),
                    mode,
                );
                let (dw, db) = (dweight.view_mut(), dbias.view_mut());
                on.queue.layer_norm_backward_weight(x.view(), kept, dy.view(), dw, db, mode);
                // A row of one element has no deviation: its gradient is what rounding leaves.
                if width > 1 {
                    results.push(on.values(&dx));
                }
                results.extend([on.values(&dweight), on.values(&dbias)]);
            }
            results
        });
    }
}

fn masks(probability: f64, place: Place, sequences: usize, seq_length: usize) -> Option<Masks> {
    let key = MaskKey { seed: 11, step: 5, first_sequence: 3 };
    let shape = MicroBatchShape { num_sequences: sequences, seq_length };
    Some(Dropout::new(probability, place)?.masks(key, shape))
}

#[test]
#[ignore = "needs a GPU, or the imitation of one"]
fn attentions() {
    let shapes = [
        (1, 1, 1, 1),
        (2, 6, 3, 4),
        (1, 33, 2, 64),
        (2, 40, 1, 96),
        (1, 20, 1, 130),
        // Several tiles of every kernel, and ends that fill none.
        (2, 65, 2, 16),
        (1, 130, 1, 48),
        (1, 100, 2, 128),
        (1, 40, 1, 256),
    ];
    for (b, t, h, d) in shapes {
        let shape = AttentionShape { num_sequences: b, seq_length: t, num_heads: h, head_size: d };
        for (probability, element) in [0.0, 0.3].iter().flat_map(|&p| ELEMENTS.map(|element| (p, element))) {
            let masks = masks(probability, Place::AttentionWeights(2), b, t);
            // Tensor cores take probabilities and gradients of scores in 16 bits.
            let tolerance = 2e-5 + unit_in_the_last_place(element);
            same_in(element, &format!("{shape:?}, dropout {probability}"), tolerance, |on| {
                let (n, c) = (b * t, h * d);
                let (mut qkv, mut out) = (on.elements(3 * n * c), on.elements(n * c));
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

#[test]
#[ignore = "needs a GPU, or the imitation of one"]
fn masks_and_lookups_are_the_hosts_to_the_bit() {
    // More columns than a block has counters for, and more tokens than are compared at a time.
    let large = [(1, 2, 1104), (1, 1300, 3)];
    for (sequences, t, width) in [(1, 1, 1), (2, 6, 12), (3, 5, 130), (1, 33, 257)].into_iter().chain(large) {
        let rows = sequences * t;
        for element in ELEMENTS {
            same_in(element, &format!("dropout of {rows} x {width}"), 0.0, |on| {
                let masks = masks(0.3, Place::MlpBranch(1), sequences, t).unwrap();
                let (mut x, mut y) = (on.elements(rows * width), on.elements(rows * width));
                on.queue.dropout(masks, x.view_mut(), width);
                on.round(&mut x);
                on.queue.dropout_add_residual(masks, x.view(), y.view_mut(), width);
                on.round(&mut y);
                vec![on.values(&x), on.values(&y)]
            });
            same_in(element, &format!("lookups of {rows} x {width}"), 0.0, |on| {
                // Neighbours are alike, and one token comes again at the distances at which tiles end.
                let token = |n: u32| if [256, 512, 1279, 1280].contains(&n) { 10 } else { (n / 2 * 7) % 10 };
                let tokens: Vec<u32> = (0..rows as u32).map(token).collect();
                let tokens = on.words(&tokens);
                let mut results = Vec::new();
                // A whole table, and a slice of one.
                for (first_token, num_rows) in [(0, 11), (4, 5)] {
                    let (table, mut y) = (on.elements(num_rows * width), on.elements(rows * width));
                    on.queue.embedding(tokens.view(), first_token, table.view(), y.view_mut());
                    results.push(on.values(&y));
                    for mode in MODES {
                        let mut dtable = on.floats(num_rows * width);
                        on.queue.embedding_backward(
                            tokens.view(),
                            first_token,
                            y.view(),
                            dtable.view_mut(),
                            mode,
                        );
                        results.push(on.values(&dtable));
                    }
                }
                let (positions, mut y) = (on.elements((t + 2) * width), on.elements(rows * width));
                on.queue.add_positions(t, positions.view(), y.view_mut(), width);
                on.round(&mut y);
                results.push(on.values(&y));
                for mode in MODES {
                    let mut dpositions = on.floats((t + 2) * width);
                    on.queue.positions_backward(t, y.view(), dpositions.view_mut(), width, mode);
                    results.push(on.values(&dpositions));
                }
                results
            });
        }
    }
}

#[test]
#[ignore = "needs a GPU, or the imitation of one"]
fn cross_entropies() {
    // Blocks of 1024 tokens: a part of one, one less a token, a whole one, more than the warps of a block take at a
    // time; and one row more than losses are laid ready at a time.
    for (rows, vocabulary) in [(1, 1), (6, 17), (3, 2047), (5, 1024), (33, 2500), (2, 20_000), (1025, 5)] {
        same(&format!("cross-entropy of {rows} x {vocabulary}"), 1e-5, |on| {
            let ignored = u32::MAX;
            let targets: Vec<u32> = (0..rows as u32)
                .map(|row| if row % 7 == 3 { ignored } else { (row * 313) % vocabulary as u32 })
                .collect();
            let targets = on.words(&targets);
            // In every second row, one is so far above the others that it must be found before exponentials are taken; in the others all count.
            let mut values: Vec<f32> = (0..rows * vocabulary).map(|_| on.numbers.next()).collect();
            for (row, logits) in values.chunks_mut(vocabulary).enumerate().filter(|(row, _)| row % 2 == 1) {
                logits[(32 + 33 * row) % vocabulary] += 200.0;
            }
            let mut logits = on.queue.zeros(values.len(), ElementType::F32).unwrap();
            on.queue.upload_floats(&values, logits.view_mut());
            let mut statistics = on.floats(3 * rows);
            // Over what is there.
            let (mut loss, mut count) = (on.words(&[1, 2, 3, 4]), on.words(&[1, 2, 3, 4]));
            on.queue.cross_entropy(0, logits.view(), targets.view(), statistics.view_mut());
            on.queue.cross_entropy_loss(targets.view(), statistics.view_mut(), loss.view_mut());
            on.queue.count_targets(targets.view(), count.view_mut());
            on.queue.cross_entropy_backward(0, logits.view_mut(), targets.view(), statistics.view(), 0.25);
            let mut words = [0; 4];
            on.queue.download(loss.view(), &mut words);
            let sum = f64::from_bits(u64::from(words[0]) | u64::from(words[1]) << 32) as f32;
            let kept = on.values(&statistics).values.chunks(3).map(|row| row[0]).collect();
            let targets = words[2..].iter().map(|&word| word as f32).collect();
            let [sum, kept, targets] =
                [vec![sum], kept, targets].map(|values| Values { values, rounded_to: ElementType::F32 });
            vec![sum, on.values(&logits), on.bits(&count), kept, targets]
        });
    }
}
