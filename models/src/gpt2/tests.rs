//! GPT-2 against candle's autograd, against finite differences, and against itself cut in other ways.

use proptest::prelude::*;

use super::build;
use crate::element::ElementType;
use crate::error::ModelError;
use crate::init;
use crate::layer::{MaskKey, MicroBatchShape};
use crate::model::ModelLayer;
use crate::shared::{Ablation, GptConfig};
use crate::testing::{
    Backward, Batch, Oracle, Run, assert_close, assert_same_result, check_against_oracle, config, result,
    same_on_all_threads,
};
use crate::unit::Unit;

fn check(config: &GptConfig, num_sequences: usize, seq_length: usize, masked: usize) {
    let batch = Batch::random(num_sequences, seq_length, config.vocab_size, masked);
    check_against_oracle(config, &build(config).unwrap(), &batch, Oracle::gpt2_loss);
}

#[test]
fn loss_and_every_gradient_equal_autograd_in_f64() {
    check(&config(), 2, 13, 5);
    check(&config(), 1, 13, 0);
    check(&GptConfig { num_attention_heads: 1, ..config() }, 3, 13, 2);
    check(&GptConfig { hidden_size: 33, num_attention_heads: 3, num_layers: 1, ..config() }, 2, 13, 3);
    check(&GptConfig { tie_embeddings: true, ..config() }, 2, 13, 4);
    check(&GptConfig { ablation: Ablation::AttentionOutput, ..config() }, 2, 13, 0);
}

/// The masks of a micro-batch in the middle of a step.
const MASKS: MaskKey = MaskKey { seed: 7, step: 3, first_sequence: 4 };

#[test]
fn gradients_with_dropout_equal_autograd_under_the_same_masks() {
    for (tie_embeddings, seq_length) in [(false, 13), (true, 13), (false, 70)] {
        let config = GptConfig { dropout: 0.2, tie_embeddings, seq_length, ..config() };
        let batch = Batch { masks: Some(MASKS), ..Batch::random(2, seq_length, config.vocab_size, 5) };
        check_against_oracle(&config, &build(&config).unwrap(), &batch, Oracle::gpt2_loss);
        // An evaluation drops nothing.
        check(&config, 2, 7, 0);
    }
}

/// A sequence's share of the loss and of every gradient depends on its place in the step, not on its micro-batch.
#[test]
fn dropout_is_the_same_however_a_step_is_cut_into_micro_batches() {
    let config = GptConfig { dropout: 0.2, ..config() };
    let model = build(&config).unwrap();
    let whole = Batch { masks: Some(MASKS), ..Batch::random(3, 13, 37, 5) };
    let of = |range: std::ops::Range<usize>| {
        let tokens = range.start * 13..range.end * 13;
        let mut run = Run::new(&model, 2);
        let batch = Batch {
            shape: MicroBatchShape { num_sequences: range.len(), seq_length: 13 },
            inputs: whole.inputs[tokens.clone()].to_vec(),
            targets: whole.targets[tokens].to_vec(),
            document_starts: None,
            encoder_inputs: None,
            masks: Some(MaskKey { first_sequence: 4 + range.start as u64, ..MASKS }),
        };
        let loss = run.step(&batch, Backward::Full, 0.03);
        (loss.sum, run.gradients())
    };
    let (want_loss, want) = of(0..3);
    for cuts in [vec![0, 1, 3], vec![0, 2, 3], vec![0, 1, 2, 3]] {
        let parts: Vec<_> = cuts.windows(2).map(|cut| of(cut[0]..cut[1])).collect();
        let loss: f64 = parts.iter().map(|(loss, _)| loss).sum();
        // The rows of a product may be rounded otherwise in a product of fewer rows.
        assert!((loss - want_loss).abs() < 1e-6 * want_loss, "{loss} is not {want_loss}");
        for (name, want) in &want {
            let sum = |e: usize| parts.iter().map(|(_, gradients)| gradients[name][e]).sum::<f32>();
            let got: Vec<f32> = (0..want.len()).map(sum).collect();
            let want: Vec<f64> = want.iter().map(|&x| f64::from(x)).collect();
            assert_close(name, &got, &want, 1e-5);
        }
    }
}

#[test]
fn gradients_equal_autograd_at_the_edges_of_shapes() {
    // One token, one sequence, one element per head, two words.
    check(&GptConfig { seq_length: 1, ..config() }, 1, 1, 0);
    check(&GptConfig { hidden_size: 3, vocab_size: 2, ..config() }, 2, 13, 0);
    // A sequence shorter than the longest, and one longer than a block of queries.
    check(&config(), 2, 7, 3);
    check(&GptConfig { seq_length: 70, num_layers: 1, ..config() }, 1, 70, 6);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn gradients_equal_autograd_for_any_shape(
        num_layers in 1_usize..3,
        num_heads in 1_usize..5,
        head_size in 1_usize..12,
        // Of two or three words, targets that are as many of each leave of a gradient only a difference of nearly equal
        // sums, of which a relative error says nothing. Two words are among the edges above.
        vocab_size in 8_usize..60,
        num_sequences in 1_usize..4,
        seq_length in 1_usize..20,
        masked in 0_usize..6,
        tie_embeddings: bool,
    ) {
        // A row of one or two elements is normalised to signs: its gradient is zero but for rounding, and a relative
        // error says nothing. The elements of a row of four may be so close to each other that normalising them magnifies their rounding
        // a hundredfold (1.2e-5 of the largest gradient was seen).
        prop_assume!(num_heads * head_size >= 8);
        let config = GptConfig {
            num_layers,
            hidden_size: num_heads * head_size,
            num_attention_heads: num_heads,
            seq_length: 20,
            vocab_size,
            tie_embeddings,
            ..config()
        };
        // At least one target, or everything is zero.
        check(&config, num_sequences, seq_length, if masked == 1 { 0 } else { masked });
    }
}

#[test]
fn a_batch_without_any_target_has_no_loss_and_no_gradient() {
    let mut run = Run::new(&build(&config()).unwrap(), 3);
    let loss = run.step(&Batch::random(2, 13, 37, 1), Backward::Full, 1.0);
    assert_eq!((loss.sum, loss.num_targets), (0.0, 0));
    assert!(run.gradients().values().flatten().all(|&x| x == 0.0));
}

/// The largest element of every gradient against a central difference of the oracle's f64 loss: this needs no
/// autograd at all.
#[test]
fn gradients_equal_finite_differences() {
    let batch = Batch::random(2, 13, 37, 5);
    check_finite_differences(&batch);
    check_finite_differences(&batch.in_documents(&[5, 1, 7]));
}

fn check_finite_differences(batch: &Batch) {
    let config = GptConfig { tie_embeddings: true, ..config() };
    let mut run = Run::new(&build(&config).unwrap(), 1);
    let oracle = Oracle::new(&config, &run);
    run.step(batch, Backward::Full, 1.0);
    for (name, gradient) in run.gradients() {
        let at = |&a: &usize, &b: &usize| gradient[a].abs().total_cmp(&gradient[b].abs());
        let element = (0..gradient.len()).max_by(at).unwrap();
        let loss_after = |by: f64| {
            oracle.nudge(&name, element, by);
            let loss = oracle.gpt2_loss(batch).unwrap().to_scalar::<f64>().unwrap();
            oracle.nudge(&name, element, -by);
            loss
        };
        // The error of the difference is of order h^2 = 1e-8, its rounding 1e-16 / h = 1e-12.
        let slope = (loss_after(1e-4) - loss_after(-1e-4)) / 2e-4;
        let error = (f64::from(gradient[element]) - slope).abs();
        assert!(error <= 1e-5 * slope.abs(), "{name}[{element}]: {} is not {slope}", gradient[element]);
    }
}

#[test]
fn how_layers_are_grouped_and_how_the_backward_is_split_cannot_be_seen_in_the_bits() {
    for (tie_embeddings, dropout) in [(false, 0.0), (true, 0.0), (false, 0.1), (true, 0.1)] {
        let config = GptConfig { tie_embeddings, dropout, ..config() };
        let model = build(&config).unwrap();
        let batch = Batch { masks: Some(MASKS), ..Batch::random(2, 13, 37, 5) };
        let want = result(Run::new(&model, 1), &batch, Backward::Full);
        for layers_per_unit in [1, 2, 3, 100] {
            // In one unit of everything a tied weight has two entries, which the engine never does.
            for backward in [Backward::Full, Backward::Split] {
                let got = result(Run::new(&model, layers_per_unit), &batch, backward);
                assert_same_result(&format!("{layers_per_unit} layers per unit, {backward:?}"), &got, &want);
            }
        }
    }
}

/// Every set of segments of a chain of five layers in the middle, and of whole units.
#[test]
fn checkpointing_cannot_be_seen_in_the_bits() {
    for (tie_embeddings, masks) in [(false, None), (true, Some(MASKS))] {
        let config = GptConfig { tie_embeddings, dropout: 0.1, num_layers: 3, ..config() };
        let model = build(&config).unwrap();
        let batch = Batch { masks, ..Batch::random(2, 13, 37, 5) };
        let result = |run| result(run, &batch, Backward::Full);
        let want = result(Run::new(&model, 100));
        // Bit `i` of `cuts`: a segment begins with layer `i`; segments end where the next begins, the last one at 6.
        for cuts in 1_usize..64 {
            let starts: Vec<usize> = (0..6).filter(|i| cuts >> i & 1 == 1).collect();
            let ends = starts[1..].iter().copied().chain([6]);
            let segments: Vec<_> = starts.iter().zip(ends).map(|(&start, end)| start..end).collect();
            let got = result(Run::new(&model, 100).with_checkpoints(|_| segments.clone()));
            assert_same_result(&format!("{segments:?}"), &got, &want);
        }
        for layers_per_unit in [1, 2, 4, 100] {
            let run = Run::new(&model, layers_per_unit);
            let got = result(run.with_checkpoints(|num_layers| std::iter::once(0..num_layers).collect()));
            assert_same_result(&format!("whole units of {layers_per_unit}"), &got, &want);
        }
    }
}

/// With masks of dropout, recomputed, in halves and in 16 bits.
#[test]
fn documents_equal_autograd_however_the_backward_is_run() {
    for tie_embeddings in [false, true] {
        let config = GptConfig { tie_embeddings, dropout: 0.2, ..config() };
        let model = build(&config).unwrap();
        for lens in [&[5, 1, 7][..], &[1], &[4]] {
            let batch = Batch { masks: Some(MASKS), ..Batch::random(2, 13, 37, 5).in_documents(lens) };
            check_against_oracle(&config, &model, &batch, Oracle::gpt2_loss);
            for element in [ElementType::F32, ElementType::Bf16] {
                let run = || Run::new(&model, 2).with_precision(element);
                let want = result(run(), &batch, Backward::Full);
                assert_same_result("split", &result(run(), &batch, Backward::Split), &want);
                let recomputed =
                    run().with_checkpoints(|num_layers| std::iter::once(0..num_layers).collect());
                assert_same_result("recomputed", &result(recomputed, &batch, Backward::Full), &want);
            }
        }
    }
}

/// A row of several documents has the loss and the gradients of rows of one each.
#[test]
fn packed_documents_have_the_sums_of_what_they_have_alone() {
    let model = build(&config()).unwrap();
    let packed = Batch::random(1, 13, 37, 5).in_documents(&[5, 1, 7]);
    let mut run = Run::new(&model, 2);
    let loss = run.step(&packed, Backward::Full, 0.03);
    let (mut alone, mut sum) = (Run::new(&model, 2), 0.0);
    for tokens in [0..5, 5..6, 6..13] {
        let part = |of: &[u32]| of[tokens.clone()].to_vec();
        let document = Batch {
            shape: MicroBatchShape { num_sequences: 1, seq_length: tokens.len() },
            inputs: part(&packed.inputs),
            targets: part(&packed.targets),
            document_starts: None,
            masks: None,
            encoder_inputs: None,
        };
        sum += alone.step(&document, Backward::Full, 0.03).sum;
    }
    assert_close("loss", &[loss.sum as f32], &[sum], 1e-6);
    let want = alone.gradients();
    for (name, gradient) in run.gradients() {
        let want: Vec<f64> = want[&name].iter().map(|&element| f64::from(element)).collect();
        // Sums of 13 tokens in another order.
        assert_close(&name, &gradient, &want, 2e-6);
    }
}

#[test]
fn a_row_that_is_one_document_is_a_row_without_documents() {
    let model = build(&config()).unwrap();
    let batch = Batch::random(2, 13, 37, 5);
    let run = |batch: &Batch| result(Run::new(&model, 2), batch, Backward::Full);
    assert_same_result("one document", &run(&batch.clone().in_documents(&[13])), &run(&batch));
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let config = GptConfig { hidden_size: 66, seq_length: 90, vocab_size: 301, dropout: 0.1, ..config() };
    let model = build(&config).unwrap();
    let batch = Batch { masks: Some(MASKS), ..Batch::random(3, 90, 301, 7) };
    same_on_all_threads("GPT-2", || {
        let mut run = Run::new(&model, 2);
        let loss = run.step(&batch, Backward::Full, 0.03);
        run.gradients().into_values().flatten().chain([loss.sum as f32]).collect()
    });
}

#[test]
fn without_attention_no_token_sees_another() {
    let config = GptConfig { ablation: Ablation::AttentionOutput, ..config() };
    let mut run = Run::new(&build(&config).unwrap(), 2);
    run.step(&Batch::random(2, 13, 37, 0), Backward::Full, 1.0);
    let gradients = run.gradients();
    assert!(gradients["h.0.attn.qkv.weight"].iter().all(|&x| x == 0.0));
    assert!(gradients["h.0.attn.proj.weight"].iter().all(|&x| x == 0.0));
    assert!(gradients["h.0.attn.proj.bias"].iter().any(|&x| x != 0.0));
}

fn parameters(config: &GptConfig) -> String {
    let layers = build(config).unwrap().layers;
    let parameters = layers.iter().flat_map(|layer| layer.layer.parameters());
    parameters.map(|spec| format!("{} {:?}", spec.name, spec.shape)).collect::<Vec<_>>().join(", ")
}

#[test]
fn parameters_have_gpt2s_names_and_pytorchs_shapes() {
    let block = |i: usize| {
        format!(
            "h.{i}.ln_1.weight [24], h.{i}.ln_1.bias [24], h.{i}.attn.qkv.weight [72, 24], h.{i}.attn.qkv.bias [72], \
             h.{i}.attn.proj.weight [24, 24], h.{i}.attn.proj.bias [24], h.{i}.ln_2.weight [24], h.{i}.ln_2.bias [24], \
             h.{i}.mlp.up.weight [96, 24], h.{i}.mlp.up.bias [96], h.{i}.mlp.down.weight [24, 96], h.{i}.mlp.down.bias [24]"
        )
    };
    let (tables, norm) = ("wte.weight [37, 24], wpe.weight [13, 24]", "ln_f.weight [24], ln_f.bias [24]");
    let all = |head| format!("{tables}, {}, {}, {norm}, {head} [37, 24]", block(0), block(1));
    assert_eq!(parameters(&config()), all("lm_head.weight"));
    assert_eq!(parameters(&GptConfig { tie_embeddings: true, ..config() }), all("wte.weight"));
}

#[test]
fn layers_have_their_roles_and_only_the_shared_weight_is_tied() {
    let roles = |tie_embeddings| {
        let model = build(&GptConfig { num_layers: 1, tie_embeddings, ..config() }).unwrap();
        let of_layer = |l: &ModelLayer| format!("{} {:?} {:?}", l.layer.name(), l.role, l.tying);
        model.layers.iter().map(of_layer).collect::<Vec<_>>().join(", ")
    };
    let blocks = "h.0.attn Block { index: 0 } Untied, h.0.mlp Block { index: 0 } Untied, ln_f Head Untied";
    assert_eq!(roles(false), format!("embedding Embedding Untied, {blocks}, lm_head Head Untied"));
    let tables = "wte Embedding Embedding, wpe Embedding Untied";
    assert_eq!(roles(true), format!("{tables}, {blocks}, lm_head Head Head"));
}

#[test]
fn initial_values_follow_gpt2s_scheme() {
    let config = GptConfig { hidden_size: 96, num_layers: 8, ..config() };
    for layer in build(&config).unwrap().layers {
        for spec in layer.layer.parameters() {
            let mut values = vec![f32::NAN; spec.num_elements()];
            init::fill(&spec, 1, 0, &mut values);
            let mean = values.iter().map(|&x| f64::from(x)).sum::<f64>() / values.len() as f64;
            let square = values.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / values.len() as f64;
            let want = match spec.name.as_str() {
                name if name.ends_with("bias") => 0.0,
                name if name.contains("ln_") => 1.0,
                name if name.contains("proj") || name.contains("down") => 0.02 / 4.0,
                _ => 0.02,
            };
            // Five standard errors of a standard deviation.
            let bound = 5.0 * want / (2.0 * values.len() as f64).sqrt();
            assert!((square.sqrt() - want).abs() <= bound, "{}: {} is not {want}", spec.name, square.sqrt());
            let mean_bound =
                if spec.name.contains("ln_") { 1.0 } else { 5.0 * want / (values.len() as f64).sqrt() };
            assert!(mean.abs() <= mean_bound, "{}: mean {mean}", spec.name);
        }
    }
}

#[test]
fn parameters_of_a_unit_lie_in_order_at_multiples_of_16() {
    let layers = build(&config()).unwrap().layers;
    let unit = Unit::new(layers.into_iter().map(|layer| layer.layer).collect());
    let mut end = 0;
    for entry in unit.entries() {
        assert!(
            entry.range.start.is_multiple_of(16) && entry.range.start >= end && entry.range.start < end + 16
        );
        assert_eq!(entry.range.len(), entry.spec.num_elements());
        end = entry.range.end;
    }
    assert_eq!(unit.num_elements(), end);
    let [width, vocab, length, blocks] = [24, 37, 13, 2];
    let per_block = 12 * width * width + 13 * width;
    assert_eq!(unit.num_parameters(), blocks * per_block + (2 * vocab + length) * width + 2 * width);
}

#[test]
fn values_that_break_a_rule_are_refused_with_the_rule() {
    let message = |change: &dyn Fn(&mut GptConfig)| {
        let mut config = config();
        change(&mut config);
        match build(&config) {
            Err(error @ ModelError::Shape { .. }) => error.to_string(),
            other => panic!("{other:?}"),
        }
    };
    type Change = fn(&mut GptConfig);
    let cases: [(Change, &str); 12] = [
        (|c| c.num_layers = 0, "num_layers = 0: must be at least 1"),
        (|c| c.hidden_size = 0, "hidden_size = 0: must be at least 1"),
        (|c| c.seq_length = 0, "seq_length = 0: must be at least 1"),
        (|c| c.vocab_size = 0, "vocab_size = 0: must be at least 1"),
        (|c| c.num_attention_heads = 0, "num_attention_heads = 0: must be at least 1"),
        (|c| c.num_attention_heads = 5, "num_attention_heads = 5: must divide hidden_size = 24; 4 does"),
        (|c| c.num_attention_heads = 100, "num_attention_heads = 100: must divide hidden_size = 24; 24 does"),
        (|c| c.init_std = f64::NAN, "init_std = NaN: must be a finite number of at least 0; GPT-2 has 0.02"),
        (|c| c.dropout = 1.0, "dropout = 1: must be at least 0 and below 1; 0 drops nothing, GPT-2 has 0.1"),
        (
            |c| c.dropout = -0.1,
            "dropout = -0.1: must be at least 0 and below 1; 0 drops nothing, GPT-2 has 0.1",
        ),
        (
            |c| c.dropout = f64::NAN,
            "dropout = NaN: must be at least 0 and below 1; 0 drops nothing, GPT-2 has 0.1",
        ),
        (
            |c| c.vocab_size = usize::MAX,
            "vocab_size = 18446744073709551615: must be at most 4294967295, the number that marks a target without loss",
        ),
    ];
    for (change, expected) in cases {
        assert_eq!(message(&change), expected);
    }
    assert!(message(&|c| c.hidden_size = usize::MAX / 2).contains("is more than a machine can address"));
}
