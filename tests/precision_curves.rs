//! How far training in bf16 and fp16 strays from f32: the figures of `docs/numerics.md`.

use std::ops::Range;
use std::path::Path;

use pipezero_plan::Plan;
use tests::{loaded, train_into};

/// A GPT-2 of 4 blocks on 2 x 2 ranks, ZeRO-3 with prefetch: the quickstart in small.
const RUN_FILE: &str = r#"{
  "model": {
    "family": "gpt2", "num_layers": 4, "hidden_size": 32, "num_attention_heads": 2, "seq_length": 32,
    "vocab_size": 256, "tie_embeddings": false
  },
  "data": { "text": "text.txt", "validation": 0 },
  "parallel": { "pipeline": 2, "data": 2, "schedule": "1f1b" },
  "zero_optimization": { "stage": 3, "unit_layers": 1, "prefetch_units": 1 },
  "train_batch_size": 32,
  "gradient_accumulation_steps": 4,
  "optimizer": { "type": "AdamW", "params": { "lr": 0.006, "betas": [0.9, 0.95], "weight_decay": 0.1 } },
  "scheduler": { "type": "WarmupLR", "params": { "warmup_num_steps": 10, "warmup_type": "linear" } },
  "steps": 60,
  "seed": 1
}"#;

/// As the run file says.
const NUM_STEPS: usize = 60;

const WORDS: &str = "a rank sends its shard to the next stage and waits for gradients. every unit is ";

/// Words of which each may be followed by two others: text that is learned quickly, but not at once.
fn text() -> String {
    let mut state = 1_u32;
    let mut word = 0;
    let words: Vec<&str> = WORDS.split_inclusive(' ').collect();
    let mut text = String::new();
    for _ in 0..8000 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        word = (3 * word + if state >> 31 == 0 { 1 } else { 6 }) % words.len();
        text.push_str(words[word]);
    }
    text
}

struct Curve {
    losses: Vec<f64>,
    num_skipped: usize,
}

fn curve(home: &Path, name: &str, arguments: &[&str]) -> Curve {
    let path = home.join("run.json");
    std::fs::write(&path, RUN_FILE).expect("a new folder");
    std::fs::write(home.join("text.txt"), text()).expect("a new folder");
    let plan = Plan::new(loaded(&path, arguments)).expect("a valid run");
    let (.., lines) = train_into(&home.join(name), plan);
    let losses = lines.iter().map(|line| line.loss.expect("every token carries loss")).collect();
    Curve { losses, num_skipped: lines.iter().filter(|line| line.skipped).count() }
}

/// The largest |a - b| / b over these steps.
fn farthest(curve: &Curve, reference: &Curve, steps: Range<usize>) -> f64 {
    let both = curve.losses[steps.clone()].iter().zip(&reference.losses[steps]);
    both.map(|(a, b)| (a - b).abs() / b).fold(0.0, f64::max)
}

/// |a - b| / b of the mean over the last ten steps.
fn apart_at_the_end(curve: &Curve, reference: &Curve) -> f64 {
    let mean = |curve: &Curve| curve.losses[NUM_STEPS - 10..].iter().sum::<f64>() / 10.0;
    (mean(curve) - mean(reference)).abs() / mean(reference)
}

/// How far a curve may stray: half a unit in the last place of its type in the first 20 steps, then more, since what once
/// differs differs more with every step.
struct Limits {
    first_20: f64,
    all: f64,
    end: f64,
}

/// The limits are those of `docs/numerics.md`, with its reasons.
#[test]
fn losses_in_16_bits_stay_near_those_in_f32() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let f32 = curve(home.path(), "f32", &[]);
    let bf16 = curve(home.path(), "bf16", &["bf16.enabled=true"]);
    // A scale that overflows nowhere: a skipped step would shift the curve.
    let fp16 = curve(home.path(), "fp16", &["fp16.enabled=true", "fp16.initial_scale_power=12"]);
    let of_bf16 = Limits { first_20: 2.0_f64.powi(-9), all: 5e-2, end: 5e-2 };
    let of_fp16 = Limits { first_20: 2.0_f64.powi(-12), all: 5e-2, end: 5e-2 };
    // The same numbers in another order: how far rounding alone, a thousand times smaller, takes two curves apart.
    let reordered = curve(home.path(), "f32-last", &["zero_optimization.reduce=last"]);
    let of_reordered = Limits { first_20: 1e-6, all: 1e-2, end: 1e-2 };
    for (name, curve, limits) in [
        ("bf16", &bf16, of_bf16),
        ("fp16", &fp16, of_fp16),
        ("f32 in another order", &reordered, of_reordered),
    ] {
        assert_eq!(curve.num_skipped, 0, "{name}");
        let first_20 = farthest(curve, &f32, 0..20);
        let all = farthest(curve, &f32, 0..NUM_STEPS);
        let end = apart_at_the_end(curve, &f32);
        println!("{name}: {first_20:.1e} in 20 steps, {all:.1e} in {NUM_STEPS}, {end:.1e} at the end");
        assert!(first_20 <= limits.first_20, "{name} strays by {first_20:.1e} in 20 steps");
        assert!(all <= limits.all, "{name} strays by {all:.1e}");
        assert!(end <= limits.end, "{name} ends {end:.1e} away");
        assert!(all > 0.0, "{name} is f32");
    }
    for (name, curve) in [("f32", &f32), ("bf16", &bf16), ("fp16", &fp16)] {
        let (first, last) = (curve.losses[0], curve.losses[NUM_STEPS - 1]);
        println!("{name}: from {first:.3} to {last:.3}");
        assert!(last < 0.3 * first, "{name}: from {first} to {last}");
    }
}
