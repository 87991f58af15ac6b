//! Log-probabilities, returns and advantages, computed from the outputs of the four engines.

use pipezero::run::engine::BatchLogits;

use super::{TEXTS, TOKENS, WRITTEN};

/// The cost of a nat of divergence between the actor and the reference, in units of the reward.
const DIVERGENCE_COST: f64 = 0.02;

/// `[text][token that was written]`: the logarithm of its probability, of logits `[text, token, vocabulary]`.
pub(super) fn log_probabilities(logits: &BatchLogits, texts: &[Vec<u32>]) -> Vec<Vec<f64>> {
    let of_text = |(number, text): (usize, &Vec<u32>)| {
        logits.read(number, WRITTEN, |rows| {
            let rows = rows.chunks_exact(logits.num_logits());
            rows.zip(&text[1..]).map(|(row, &token)| log_probability(row, token)).collect()
        })
    };
    texts.iter().enumerate().map(of_text).collect()
}

fn log_probability(logits: &[f32], token: u32) -> f64 {
    let highest = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    let sum: f64 = logits.iter().map(|&logit| (f64::from(logit) - highest).exp()).sum();
    f64::from(logits[token as usize]) - highest - sum.ln()
}

/// `[text][token]`: the outputs of a head that has one.
pub(super) fn values_of(values: &BatchLogits) -> Vec<Vec<f64>> {
    let of_text =
        |text| values.read(text, TOKENS, |values| values.iter().map(|&value| value.into()).collect());
    (0..TEXTS).map(of_text).collect()
}

/// Of each text, of each token that was written: the first minus the second.
pub(super) fn differences(first: &[Vec<f64>], second: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let of_text = |(first, second): (&Vec<f64>, &Vec<f64>)| {
        first.iter().zip(second).take(WRITTEN).map(|(first, second)| first - second).collect()
    };
    first.iter().zip(second).map(of_text).collect()
}

/// The return of each token that was written: the reward of the whole text, less the cost of the divergence of this token and the later ones from the reference
/// (Ouyang et al., arXiv:2203.02155, section 3.5).
pub(super) fn returns(reward: f64, divergences: &[f64]) -> Vec<f64> {
    let mut rest = reward;
    let mut returns: Vec<f64> = divergences
        .iter()
        .rev()
        .map(|divergence| {
            rest -= DIVERGENCE_COST * divergence;
            rest
        })
        .collect();
    returns.reverse();
    returns
}

/// Advantages of a group, the texts of one prompt: with mean 0 and standard deviation 1 (Shao et al., arXiv:2402.03300, section 4.1.1).
pub(super) fn standardized(group: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let all = || group.iter().flatten().copied();
    let middle = mean(all());
    let deviation = mean(all().map(|value| (value - middle).powi(2))).sqrt();
    let of_text = |text: &Vec<f64>| text.iter().map(|value| (value - middle) / (deviation + 1e-6)).collect();
    group.iter().map(of_text).collect()
}

/// The mean of at least one value.
pub(super) fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    sum / f64::from(count)
}
