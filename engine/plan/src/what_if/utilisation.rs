//! What a rank achieves in a simulated step, beside what its device could, and the memory that is left.

/// What each rank achieves. A rank is a device, or its share of a CPU's cores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Utilisation {
    /// Ranks of the grid.
    pub num_ranks: usize,
    /// How long the step takes, seconds.
    pub step_s: f64,
    /// Tokens of the step, on all ranks.
    pub tokens: u64,
    /// Floating-point operations of the model in the step, on all ranks: a forward and twice as many for its backward, attention's
    /// masked half counted and recomputation not (arXiv:2204.02311, appendix B). 0 for a timed model.
    pub model_flops: u128,
    /// The peak of a rank for matrix products in the run's type; `None` where its device's is not known.
    pub peak_flops_per_s: Option<f64>,
    /// Bytes that the fullest rank needs.
    pub peak_bytes: u64,
    /// Bytes that a rank may have: by the run's `memory` or its device's, whichever is less; `None` where neither is known.
    pub memory_bytes: Option<u64>,
}

impl Utilisation {
    /// Tokens a second of each rank; 0 for a step that takes no time.
    pub fn tokens_per_s(&self) -> f64 {
        self.of_each_rank(self.tokens as f64)
    }

    /// Floating-point operations of the model a second of each rank; 0 for a step that takes no time.
    pub fn flops_per_s(&self) -> f64 {
        self.of_each_rank(self.model_flops as f64)
    }

    /// The share of the peak that the model's operations are: the model FLOPs utilisation.
    pub fn mfu(&self) -> Option<f64> {
        (self.model_flops > 0).then_some(self.flops_per_s() / self.peak_flops_per_s?)
    }

    /// Bytes that the fullest rank leaves; less than none where it does not fit.
    pub fn headroom_bytes(&self) -> Option<i128> {
        Some(i128::from(self.memory_bytes?) - i128::from(self.peak_bytes))
    }

    fn of_each_rank(&self, amount: f64) -> f64 {
        let rank_s = self.num_ranks as f64 * self.step_s;
        if rank_s > 0.0 { amount / rank_s } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PaLM 540B, arXiv:2204.02311, section 4.1: 238,300 tokens a second on 6,144 chips of 275 TFLOP/s peak are 46.2 % MFU with
    /// attention, whose operations per token are 6 N + 12 L H Q T (appendix B).
    #[test]
    fn the_published_utilisation_of_palm() {
        let parameters = 540_350_000_000_u64;
        let attention = 12 * 118 * 48 * 256 * 2048;
        let tokens = 238_300;
        let utilisation = Utilisation {
            num_ranks: 6144,
            step_s: 1.0,
            tokens,
            model_flops: u128::from(tokens * (6 * parameters + attention)),
            peak_flops_per_s: Some(275e12),
            peak_bytes: 3,
            memory_bytes: Some(10),
        };
        let mfu = utilisation.mfu().unwrap();
        assert!((mfu - 0.462).abs() < 0.002, "{mfu}");
        assert_eq!(utilisation.headroom_bytes(), Some(7));
        assert_eq!(Utilisation { memory_bytes: Some(1), ..utilisation }.headroom_bytes(), Some(-2));
        assert_eq!(Utilisation { step_s: 0.0, ..utilisation }.tokens_per_s(), 0.0);
        assert_eq!(Utilisation { model_flops: 0, ..utilisation }.mfu(), None);
    }
}
