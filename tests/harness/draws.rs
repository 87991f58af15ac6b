//! Random choices that are the same in every run.

/// Numbers of a linear congruential generator (Knuth, MMIX).
#[derive(Debug)]
pub struct Draws(pub u64);

impl Draws {
    /// One of these values.
    pub fn of<T: Clone>(&mut self, values: &[T]) -> T {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        values[(self.0 >> 33) as usize % values.len()].clone()
    }
}
