//! Initial values: element `i` of a parameter depends on the seed, the parameter's name and `i` alone.
//!
//! So a model begins with the same bits on every grid, and a rank draws its own shard without drawing the rest. The
//! generator is SplitMix64 (Steele, Lea, Flood, OOPSLA 2014), which can be asked for any member of its sequence, and
//! the normal distribution is Box and Muller's, two elements from two numbers, in f64.

use std::f64::consts::TAU;

use rayon::prelude::*;

use crate::parameter::{Init, ParameterSpec};
use crate::split_mix::{STEP, output};

/// Elements that a thread draws at a time.
const BLOCK: usize = 1 << 14;

/// Writes the initial values of the elements that a layer has of a parameter, from `first_element` of these on, `out.len()` of them, on
/// the threads of the current rayon pool.
pub fn fill(spec: &ParameterSpec, seed: u64, first_element: usize, out: &mut [f32]) {
    match spec.init {
        Init::Zeros => out.fill(0.0),
        Init::Ones => out.fill(1.0),
        Init::Normal { std } => {
            let stream = Stream::new(seed, &spec.name);
            let first = spec.first_element() + first_element;
            out.par_chunks_mut(BLOCK).enumerate().for_each(|(block, values)| {
                stream.fill_normal((first + block * BLOCK) as u64, std, values);
            });
        }
    }
}

/// The random numbers of one parameter.
struct Stream {
    start: u64,
}

impl Stream {
    fn new(seed: u64, name: &str) -> Self {
        // Mixing both before they meet keeps neighbouring seeds and alike names far apart.
        Self { start: output(output(seed) ^ fnv_1a(name.as_bytes())) }
    }

    /// Number `index` of the sequence.
    fn bits(&self, index: u64) -> u64 {
        output(self.start.wrapping_add(STEP.wrapping_mul(index.wrapping_add(1))))
    }

    /// Elements from this one on of a normal sequence with mean 0.
    fn fill_normal(&self, mut element: u64, std: f32, mut rest: &mut [f32]) {
        while !rest.is_empty() {
            let pair = self.normal_pair(element / 2);
            let from = (element % 2) as usize;
            let num_taken = rest.len().min(2 - from);
            let (head, tail) = rest.split_at_mut(num_taken);
            for (value, normal) in head.iter_mut().zip(&pair[from..]) {
                *value = (normal * f64::from(std)) as f32;
            }
            rest = tail;
            element += num_taken as u64;
        }
    }

    /// Elements `2 pair` and `2 pair + 1` of a standard normal sequence.
    fn normal_pair(&self, pair: u64) -> [f64; 2] {
        // 53 random bits; the radius draws from (0, 1], so that its logarithm is finite.
        let unit = 2_f64.powi(-53);
        let radius = ((self.bits(2 * pair) >> 11) + 1) as f64 * unit;
        let angle = (self.bits(2 * pair + 1) >> 11) as f64 * unit;
        let (sin, cos) = (TAU * angle).sin_cos();
        let length = (-2.0 * radius.ln()).sqrt();
        [length * cos, length * sin]
    }
}

/// The Fowler-Noll-Vo hash: unlike the standard library's, it never changes.
fn fnv_1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(name: &str, seed: u64, num_elements: usize) -> Vec<f32> {
        let mut values = vec![f32::NAN; num_elements];
        fill(&ParameterSpec::normal(name, [num_elements], 0.5), seed, 0, &mut values);
        values
    }

    #[test]
    fn hash_and_generator_give_their_published_figures() {
        // FNV-1a of "" and "a"; SplitMix64's first two numbers from state 0.
        assert_eq!(fnv_1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv_1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        let stream = Stream { start: 0 };
        assert_eq!([stream.bits(0), stream.bits(1)], [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4]);
    }

    #[test]
    fn values_do_not_depend_on_where_shards_cut() {
        let whole = normal("h.0.attn.qkv.weight", 7, 37);
        let spec = ParameterSpec::normal("h.0.attn.qkv.weight", [37], 0.5);
        for first in 0..37 {
            for end in first..=37 {
                let mut part = vec![f32::NAN; end - first];
                fill(&spec, 7, first, &mut part);
                assert_eq!(part, whole[first..end], "elements {first}..{end}");
            }
        }
    }

    #[test]
    fn values_do_not_depend_on_how_many_threads_draw_them() {
        let num_elements = 2 * BLOCK + 7;
        let drawn = |num_threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(num_threads).build().unwrap();
            pool.install(|| normal("x", 5, num_elements))
        };
        let mut expected = vec![f32::NAN; num_elements];
        Stream::new(5, "x").fill_normal(0, 0.5, &mut expected);
        for num_threads in 1..=3 {
            assert_eq!(drawn(num_threads), expected, "{num_threads} threads");
        }
    }

    #[test]
    fn moments_and_tails_are_those_of_a_normal_distribution() {
        let num = 200_000;
        let values = normal("x", 3, num);
        let moment =
            |power: i32| values.iter().map(|&x| (f64::from(x) / 0.5).powi(power)).sum::<f64>() / num as f64;
        // Four standard errors of each moment: sqrt(Var(x^k) / num) with Var = 1, 2, 15, 96.
        let bound = |variance: f64| 4.0 * (variance / num as f64).sqrt();
        assert!(moment(1).abs() < bound(1.0));
        assert!((moment(2) - 1.0).abs() < bound(2.0));
        assert!(moment(3).abs() < bound(15.0));
        assert!((moment(4) - 3.0).abs() < bound(96.0));
        // Beyond three standard deviations lie 0.27% of a normal distribution.
        let share = values.iter().filter(|x| x.abs() > 1.5).count() as f64 / num as f64;
        assert!((share - 0.0027).abs() < bound(0.0027));
    }

    #[test]
    fn names_seeds_and_neighbours_are_uncorrelated() {
        let num = 100_000;
        let correlation = |a: &[f32], b: &[f32]| {
            a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum::<f64>() / (0.25 * a.len() as f64)
        };
        let one = normal("h.1.mlp.up.weight", 0, num);
        let bound = 4.0 / (num as f64).sqrt();
        assert!(correlation(&one, &normal("h.2.mlp.up.weight", 0, num)).abs() < bound);
        assert!(correlation(&one, &normal("h.1.mlp.up.weight", 1, num)).abs() < bound);
        assert!(correlation(&one[1..], &one[..num - 1]).abs() < bound);
        assert!(correlation(&one[2..], &one[..num - 2]).abs() < bound);
    }

    #[test]
    fn constant_parameters_are_constant() {
        let mut values = [7.0; 3];
        fill(&ParameterSpec::zeros("b", [3]), 1, 0, &mut values);
        assert_eq!(values, [0.0; 3]);
        fill(&ParameterSpec::ones("w", [3]), 1, 0, &mut values);
        assert_eq!(values, [1.0; 3]);
    }
}
