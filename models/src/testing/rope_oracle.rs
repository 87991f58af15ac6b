//! Rotary frequencies by the formulas of the papers and of transformers' `modeling_rope_utils.py`, written apart from those of the models: by
//! the lengths of waves and with the two masks of YaRN.

use std::f64::consts::PI;

use crate::llama::{RopeScaling, Yarn};

/// Radians per position of each pair of a head, and what sines and cosines are multiplied by.
pub(super) fn rope(scaling: RopeScaling, base: f64, head_size: usize, seq_length: usize) -> (Vec<f64>, f64) {
    let size = head_size as f64;
    let of_base = |base: f64| -> Vec<f64> {
        (0..head_size / 2).map(|pair| (-base.ln() * (2 * pair) as f64 / size).exp()).collect()
    };
    let plain = of_base(base);
    match scaling {
        RopeScaling::Default => (plain, 1.0),
        RopeScaling::Linear { factor } => (plain.iter().map(|frequency| frequency / factor).collect(), 1.0),
        RopeScaling::Dynamic { factor, original_max_position_embeddings } => {
            let original = original_max_position_embeddings as f64;
            // A head of one pair has no exponent, and its pair turns by 1 whatever the base.
            if seq_length <= original_max_position_embeddings || head_size == 2 {
                return (plain, 1.0);
            }
            let grown = factor * seq_length as f64 / original - factor + 1.0;
            (of_base(base * grown.powf(size / (size - 2.0))), 1.0)
        }
        RopeScaling::Llama3 {
            factor,
            low_freq_factor,
            high_freq_factor,
            original_max_position_embeddings,
        } => {
            let original = original_max_position_embeddings as f64;
            let scaled = |frequency: f64| {
                let wave = 2.0 * PI / frequency;
                if wave < original / high_freq_factor {
                    return frequency;
                }
                if wave > original / low_freq_factor {
                    return frequency / factor;
                }
                let smooth = (original / wave - low_freq_factor) / (high_freq_factor - low_freq_factor);
                (1.0 - smooth) * frequency / factor + smooth * frequency
            };
            (plain.into_iter().map(scaled).collect(), 1.0)
        }
        RopeScaling::Yarn(yarn) => (yarned(yarn, base, head_size, &plain), yarn.attention_factor),
    }
}

/// `theta_i / s * (1 - g_i) + theta_i * g_i`, with `g` falling from 1 to 0 between two places (arXiv:2309.00071, section 3.2).
fn yarned(yarn: Yarn, base: f64, head_size: usize, plain: &[f64]) -> Vec<f64> {
    let place_of = |rotations: f64| {
        let length = yarn.original_max_position_embeddings as f64;
        (head_size as f64 / 2.0) * (length / (2.0 * PI * rotations)).ln() / base.ln()
    };
    let [mut begin, mut end] = [yarn.beta_fast, yarn.beta_slow].map(place_of);
    if yarn.truncate {
        (begin, end) = (begin.floor(), end.ceil());
    }
    (begin, end) = (begin.max(0.0), end.min((head_size - 1) as f64));
    if begin == end {
        end += 0.001;
    }
    let extrapolated = |pair: usize| match pair as f64 {
        place if place <= begin => 1.0,
        place if place >= end => 0.0,
        place => (end - place) / (end - begin),
    };
    let mixed = |(pair, theta): (usize, &f64)| {
        let share = extrapolated(pair);
        theta / yarn.factor * (1.0 - share) + theta * share
    };
    plain.iter().enumerate().map(mixed).collect()
}
