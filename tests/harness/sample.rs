//! Long lists of cases: the gate runs a part of each, drawn with a fixed seed or that of `PIPEZERO_SEED`, and `PIPEZERO_TESTS=full` runs all
//! of it.
//!
//! Of every so many cases that follow each other one is drawn, so each part of a list is represented, and the same cases are
//! drawn on every machine. The crate `pipezero-schedule`, which can depend on no other, includes this file in its tests.

/// Whether tests run their lists in full.
pub fn in_full() -> bool {
    std::env::var("PIPEZERO_TESTS").is_ok_and(|value| value == "full")
}

/// Which cases of one list are run.
#[derive(Debug)]
pub struct Sample {
    /// What one case is.
    name: &'static str,
    one_in: usize,
    in_full: bool,
    /// The place of the case that is drawn, among the present `one_in` cases.
    drawn: usize,
    num_drawn: usize,
    num_cases: usize,
    state: u64,
}

impl Sample {
    /// One in so many cases of a list, or all of them [in full](in_full). The name says what one case is.
    pub fn one_in(one_in: usize, name: &'static str) -> Self {
        let seed = std::env::var("PIPEZERO_SEED").ok();
        let seed = seed.map(|seed| seed.parse().expect("PIPEZERO_SEED is a whole number"));
        Self::new(one_in, name, in_full(), seed.unwrap_or(1))
    }

    fn new(one_in: usize, name: &'static str, in_full: bool, seed: u64) -> Self {
        let mut sample = Self { name, one_in, in_full, drawn: 0, num_drawn: 0, num_cases: 0, state: seed };
        sample.draw();
        sample
    }

    /// Draws a place by Knuth's MMIX linear congruential generator.
    fn draw(&mut self) {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.drawn = ((self.state >> 33) % self.one_in as u64) as usize;
    }

    /// Whether the next case of the list is run.
    pub fn takes_next(&mut self) -> bool {
        let place = self.num_cases % self.one_in;
        let is_drawn = place == self.drawn;
        if place + 1 == self.one_in {
            self.draw();
        }
        self.num_cases += 1;
        self.num_drawn += usize::from(is_drawn);
        is_drawn || self.in_full
    }

    /// The length of the list so far.
    pub fn num_cases(&self) -> usize {
        self.num_cases
    }
}

/// A row of the table that `.ci/run full` makes.
impl Drop for Sample {
    fn drop(&mut self) {
        if !self.name.is_empty() {
            std::println!("sample | {} | {} | {} |", self.name, self.num_drawn, self.num_cases);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Sample;
    use std::vec::Vec;

    #[test]
    fn one_of_every_so_many_is_drawn_and_not_always_the_same_one() {
        let mut sample = Sample::new(4, "", false, 1);
        let taken: Vec<usize> = (0..4000).filter(|_| sample.takes_next()).collect();
        assert!(taken.iter().enumerate().all(|(index, number)| number / 4 == index), "{taken:?}");
        let num_first = taken.iter().filter(|number| number.is_multiple_of(4)).count();
        assert_eq!((taken.len(), sample.num_drawn, sample.num_cases()), (1000, 1000, 4000));
        assert!((200..300).contains(&num_first), "{num_first}");
    }

    #[test]
    fn in_full_all_are_run() {
        let mut sample = Sample::new(4, "", true, 1);
        assert!((0..10).all(|_| sample.takes_next()));
    }
}
