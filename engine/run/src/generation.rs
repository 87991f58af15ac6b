//! Generates texts with a trained model, token by token, drawn from the logits.

use pipezero_models::split_mix::SplitMix;

use crate::engine::{Engine, EngineError, EngineKind};

/// How tokens are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Logits are divided by it; 0 takes the likeliest token.
    pub temperature: f64,
    /// The number of likeliest tokens that are drawn from; 0 = all.
    pub top_k: usize,
    /// Seed of the draws.
    pub seed: u64,
}

/// Texts that grow by a token at a time, together. The model sees at most the last sequence of each.
#[derive(Debug)]
pub struct Generation<'a, K: EngineKind> {
    engine: &'a mut Engine<K>,
    sampling: Sampling,
    end_token: Option<u32>,
    texts: Vec<Text>,
}

/// A text that grows.
#[derive(Debug)]
struct Text {
    tokens: Vec<u32>,
    draws: SplitMix,
    has_ended: bool,
}

impl<'a, K: EngineKind> Generation<'a, K> {
    /// Continues prompts, none of which may be empty, each until its own `end_token`. The draws of a prompt depend on the seed and on its
    /// `number`, and not on the prompts beside it.
    pub fn new(
        engine: &'a mut Engine<K>,
        prompts: impl IntoIterator<Item = (u64, Vec<u32>)>,
        sampling: Sampling,
        end_token: Option<u32>,
    ) -> Self {
        let text = |(number, tokens)| {
            let draws = SplitMix(sampling.seed.wrapping_add(number));
            Text { tokens, draws, has_ended: false }
        };
        let texts = prompts.into_iter().map(text).collect();
        Self { engine, sampling, end_token, texts }
    }

    /// Draws the next token of each text and adds it; `None` of a text that has ended, which the end token does without being part of it.
    ///
    /// # Errors
    /// When a rank stops, a prompt was empty, there are more than the engine takes at once, or a logit is infinite or NaN.
    pub fn next_tokens(&mut self) -> Result<Vec<Option<u32>>, EngineError> {
        let seq_length = self.engine.plan().micro_batch_shape().seq_length;
        let growing = self.texts.iter().filter(|text| !text.has_ended);
        let seen: Vec<Vec<u32>> = growing
            .map(|text| text.tokens[text.tokens.len().saturating_sub(seq_length)..].to_vec())
            .collect();
        if seen.is_empty() {
            return Ok(vec![None; self.texts.len()]);
        }
        let mut logits = self.engine.logits_of(&seen)?.into_iter();
        let mut next = Vec::with_capacity(self.texts.len());
        for text in &mut self.texts {
            let drawn = match text.has_ended {
                true => None,
                false => {
                    let logits = logits.next().expect("there are logits for each text that grows");
                    if !logits.iter().all(|logit| logit.is_finite()) {
                        return Err(EngineError::LogitsNotFinite);
                    }
                    Some(draw(&logits, self.sampling, uniform(&mut text.draws)))
                }
            };
            text.has_ended |= drawn == self.end_token;
            let drawn = drawn.filter(|_| !text.has_ended);
            text.tokens.extend(drawn);
            next.push(drawn);
        }
        Ok(next)
    }
}

/// The token that `uniform` in `[0, 1)` falls on, the likeliest tokens first.
fn draw(logits: &[f32], sampling: Sampling, uniform: f64) -> u32 {
    let mut order: Vec<u32> = (0..logits.len() as u32).collect();
    let logit = |token: u32| f64::from(logits[token as usize]);
    order.sort_by(|&a, &b| logit(b).total_cmp(&logit(a)));
    if sampling.temperature <= 0.0 {
        return order[0];
    }
    if sampling.top_k > 0 {
        order.truncate(sampling.top_k);
    }
    let highest = logit(order[0]);
    let weight = |token: u32| ((logit(token) - highest) / sampling.temperature).exp();
    let mut rest = uniform * order.iter().map(|&token| weight(token)).sum::<f64>();
    for &token in &order {
        rest -= weight(token);
        if rest < 0.0 {
            return token;
        }
    }
    order[order.len() - 1]
}

/// Uniform in `[0, 1)`, 53 bits.
fn uniform(draws: &mut SplitMix) -> f64 {
    (draws.next_bits() >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOGITS: [f32; 4] = [0.0, 2.0, 1.0, -1.0];

    fn sampling(temperature: f64, top_k: usize) -> Sampling {
        Sampling { temperature, top_k, seed: 0 }
    }

    #[test]
    fn draws_follow_the_probabilities() {
        let mut draws = SplitMix(7);
        let mut counts = [0_u32; 4];
        let num_draws = 200_000;
        for _ in 0..num_draws {
            counts[draw(&LOGITS, sampling(0.5, 0), uniform(&mut draws)) as usize] += 1;
        }
        let weights: Vec<f64> = LOGITS.iter().map(|&logit| (f64::from(logit) / 0.5).exp()).collect();
        let sum: f64 = weights.iter().sum();
        for (count, weight) in counts.into_iter().zip(weights) {
            let share = f64::from(count) / f64::from(num_draws);
            // Five standard deviations of a share over 200,000 draws are below 0.006.
            assert!((share - weight / sum).abs() < 0.006, "{share} against {}", weight / sum);
        }
    }

    #[test]
    fn zero_temperature_and_one_candidate_take_the_likeliest() {
        for uniform in [0.0, 0.5, 0.999_999] {
            assert_eq!(draw(&LOGITS, sampling(0.0, 0), uniform), 1);
            assert_eq!(draw(&LOGITS, sampling(1.0, 1), uniform), 1);
            assert!([1, 2].contains(&draw(&LOGITS, sampling(9.0, 2), uniform)));
        }
    }
}
