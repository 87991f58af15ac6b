//! Engines of a task that share the ranks of a job, and need different numbers of them.

use std::collections::BTreeMap;

/// How many ranks an engine needs, as its file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RanksNeeded {
    /// This many.
    Exactly(usize),
    /// A multiple of its pipeline degree: its data degree follows.
    MultipleOf(usize),
}

impl RanksNeeded {
    fn allows(self, num_ranks: usize) -> bool {
        match self {
            Self::Exactly(needed) => needed == num_ranks,
            Self::MultipleOf(pipeline) => num_ranks.is_multiple_of(pipeline),
        }
    }

    fn fewest(self) -> usize {
        match self {
            Self::Exactly(needed) | Self::MultipleOf(needed) => needed,
        }
    }
}

/// A job whose number of ranks does not suit all engines of a task, which need different ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedRanks {
    /// Ranks that a launcher has started.
    pub launched: usize,
    /// The engines, in the order of the task, with what they need.
    pub engines: Vec<(String, RanksNeeded)>,
}

impl SharedRanks {
    /// Whether these engines cannot share so many ranks, and no single one of them says what is to be started.
    pub(super) fn are_at_odds(&self) -> bool {
        let [(_, first), others @ ..] = self.engines.as_slice() else { return false };
        others.iter().any(|(_, needed)| needed != first)
            && !self.engines.iter().all(|(_, needed)| needed.allows(self.launched))
    }

    /// The rule that the job breaks.
    pub(super) fn rule(&self) -> String {
        let needed = self.engines.iter().map(|(name, needed)| match needed {
            RanksNeeded::Exactly(number) => format!("`{name}` needs {number}"),
            RanksNeeded::MultipleOf(pipeline) => format!("`{name}` needs a multiple of {pipeline}"),
        });
        format!(
            "its engines share all ranks of the job; the launcher started {}, but {}",
            self.launched,
            needed.collect::<Vec<_>>().join(" and ")
        )
    }

    /// The ways to start the task, and what to write in it.
    pub(super) fn repair(&self) -> String {
        let fewest = || self.engines.iter().map(|(_, needed)| needed.fewest());
        let (most, sum) = (fewest().max().unwrap_or(0), fewest().sum::<usize>());
        let mut first = 0;
        let mut of_own = BTreeMap::new();
        for (name, needed) in &self.engines {
            of_own.insert(name, first);
            first += needed.fewest();
        }
        let apart = self.written(|name| of_own.get(name).copied().unwrap_or(0));
        let together = match self.for_all() {
            Some(number) => format!("or start {number}, which suits all of them"),
            None => format!("or let them share ranks with {}, and start {most}", self.written(|_| 0)),
        };
        format!("give them ranks of their own with {apart}, and start {sum}; {together}")
    }

    /// A number of ranks that suits all, if there is one.
    fn for_all(&self) -> Option<usize> {
        let multiple = self.engines.iter().try_fold(1_usize, |multiple, (_, needed)| {
            let fewest = needed.fewest();
            multiple.checked_mul(fewest / greatest_divisor(multiple, fewest))
        })?;
        self.engines.iter().all(|(_, needed)| needed.allows(multiple)).then_some(multiple)
    }

    /// The key `ranks` of the task, each engine beginning at a rank.
    fn written(&self, first: impl Fn(&String) -> usize) -> String {
        let of_engine = |(name, needed): &(String, RanksNeeded)| {
            let first = first(name);
            match needed.fewest() {
                1 => format!("\"{name}\": \"{first}\""),
                number => format!("\"{name}\": \"{first}-{}\"", first + number - 1),
            }
        };
        let engines: Vec<String> = self.engines.iter().map(of_engine).collect();
        format!("\"ranks\": {{{}}}", engines.join(", "))
    }
}

/// Of two numbers that are not 0.
fn greatest_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { greatest_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::RanksNeeded::{Exactly, MultipleOf};
    use super::*;

    #[test]
    fn engines_at_odds_are_told_what_suits_all() {
        for (launched, needed, repair) in [
            (
                4,
                &[Exactly(4), Exactly(2)][..],
                Some((
                    r#""ranks": {"a": "0-3", "b": "4-5"}, and start 6"#,
                    r#""ranks": {"a": "0-3", "b": "0-1"}, and start 4"#,
                )),
            ),
            (
                2,
                &[Exactly(4), Exactly(1)],
                Some((r#""ranks": {"a": "0-3", "b": "4"}, and start 5"#, r#""b": "0"}, and start 4"#)),
            ),
            (2, &[MultipleOf(4), MultipleOf(2)], Some(("start 6", "or start 4, which suits all"))),
            (6, &[MultipleOf(4), MultipleOf(3)], Some(("start 7", "or start 12, which suits all"))),
            (2, &[Exactly(8), MultipleOf(2)], Some(("start 10", "or start 8, which suits all"))),
            (2, &[MultipleOf(4), Exactly(2)], Some(("start 6", r#""b": "0-1"}, and start 4"#))),
            // One number suits all, or each says the same.
            (4, &[MultipleOf(4), MultipleOf(2)], None),
            (8, &[Exactly(8), MultipleOf(2)], None),
            (4, &[Exactly(2), Exactly(2)], None),
            (4, &[Exactly(2)], None),
        ] {
            let engines = ["a", "b"].iter().zip(needed).map(|(name, needed)| ((*name).to_owned(), *needed));
            let shared = SharedRanks { launched, engines: engines.collect() };
            assert_eq!(shared.are_at_odds(), repair.is_some(), "{launched} {needed:?}");
            if let Some((apart, together)) = repair {
                let said = shared.repair();
                assert!(said.contains(apart) && said.contains(together), "{launched} {needed:?}: {said}");
            }
        }
    }
}
