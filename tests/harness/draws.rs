//! Random choices: the same in every run, or those of the seed in `PIPEZERO_SEED`.

/// That of the environment, for whoever wants other cases than the gate has.
pub fn seed_of_draws() -> Option<u64> {
    let seed = std::env::var("PIPEZERO_SEED").ok()?;
    Some(seed.parse().expect("PIPEZERO_SEED is a whole number"))
}

/// Numbers of a linear congruential generator (Knuth, MMIX).
#[derive(Debug)]
pub struct Draws(pub u64);

impl Draws {
    /// One of these values.
    pub fn of<T: Clone>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())].clone()
    }

    /// A number below this one.
    pub fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}
