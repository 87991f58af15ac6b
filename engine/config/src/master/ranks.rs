//! Which ranks of a job the engines of a task have.
//!
//! Engines share ranks unless `ranks` says otherwise: one that it does not name begins at rank 0. Ranks of an engine follow each other, as those of its
//! grid do, so a range says all of them.

use std::ops::Range;

use crate::place::Place;
use crate::several::ranks_in_words;

/// Ranks of a job at most: as many as a grid may have.
pub(super) const MAX_RANKS: usize = 65_536;

/// What a task says of its engines' ranks.
#[derive(Clone, Debug)]
pub(super) struct WrittenRanks {
    /// Of the key.
    pub(super) place: Place,
    pub(super) of_engines: Vec<WrittenRange>,
}

/// The ranks of an engine, as they are written.
#[derive(Clone, Debug)]
pub(super) struct WrittenRange {
    pub(super) engine: String,
    pub(super) ranks: Range<usize>,
    pub(super) place: Place,
}

impl WrittenRanks {
    pub(super) fn of(&self, engine: &str) -> Option<&WrittenRange> {
        self.of_engines.iter().find(|written| written.engine == engine)
    }

    /// Ranks that the job has at least.
    pub(super) fn num_ranks(&self) -> usize {
        self.of_engines.iter().map(|written| written.ranks.end).max().unwrap_or(0)
    }
}

/// What is wrong with a text that is to name ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RangeFault {
    /// It is no range.
    Form,
    /// The first is behind the last.
    Reversed,
    /// No job has so many.
    TooMany,
}

impl RangeFault {
    /// The rule that it breaks.
    pub(super) fn rule(self) -> String {
        match self {
            Self::Form => {
                "ranks are written as the first and the last of them, or as the only one".to_owned()
            }
            Self::Reversed => "the first of them is above the last".to_owned(),
            Self::TooMany => format!("a job has at most {MAX_RANKS} ranks"),
        }
    }

    /// What to write instead.
    pub(super) fn repair(self) -> String {
        match self {
            Self::Form => "write \"0-3\", or \"4\" of one".to_owned(),
            Self::Reversed => "write the lower one first".to_owned(),
            Self::TooMany => format!("use ranks up to {}", MAX_RANKS - 1),
        }
    }
}

/// The ranks that `0-3` or `4` names.
///
/// # Errors
/// When it names none.
pub(super) fn parse(text: &str) -> Result<Range<usize>, RangeFault> {
    let number = |text: &str| {
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(RangeFault::Form);
        }
        // Digits alone that are no number are too many.
        text.parse().map_or(Err(RangeFault::TooMany), Ok)
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last): (usize, usize) = (number(first)?, number(last)?);
    match () {
        () if first.max(last) >= MAX_RANKS => Err(RangeFault::TooMany),
        () if first > last => Err(RangeFault::Reversed),
        () => Ok(first..last + 1),
    }
}

/// The ranks of a job that the engines of a task have. Each rank has an engine at least.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRanks {
    /// In the order of the task.
    of_engines: Vec<(String, Range<usize>)>,
    /// Whether the task says it.
    is_said: bool,
}

impl JobRanks {
    pub(super) fn new(of_engines: Vec<(String, Range<usize>)>, is_said: bool) -> Self {
        Self { of_engines, is_said }
    }

    /// Ranks that no engine has, if there are any: the first of them that follow each other.
    pub(super) fn unused(&self) -> Option<Range<usize>> {
        let has = |rank: &usize| self.of_engines.iter().any(|(_, ranks)| ranks.contains(rank));
        let mut unused = (0..self.num_ranks()).skip_while(has).take_while(|rank| !has(rank));
        let first = unused.next()?;
        Some(first..unused.last().unwrap_or(first) + 1)
    }

    /// Ranks of the job.
    pub fn num_ranks(&self) -> usize {
        self.of_engines.iter().map(|(_, ranks)| ranks.end).max().unwrap_or(0)
    }

    /// The ranks of an engine of the task.
    ///
    /// # Panics
    /// If it takes no part.
    pub fn of(&self, engine: &str) -> Range<usize> {
        let found = self.of_engines.iter().find(|(name, _)| name == engine);
        found.map(|(_, ranks)| ranks.clone()).expect("the engine takes part")
    }

    /// Where an engine is, where the task says it: `ranks 4-7 of 8`.
    pub fn place_of(&self, engine: &str) -> Option<String> {
        self.is_said.then(|| format!("{} of {}", ranks_in_words(&self.of(engine), "-"), self.num_ranks()))
    }

    /// Whether the task says which ranks its engines have.
    pub fn are_said(&self) -> bool {
        self.is_said
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_a_first_and_a_last_or_one() {
        for (text, expected) in [
            ("0-3", Ok(0..4)),
            ("4", Ok(4..5)),
            ("4-4", Ok(4..5)),
            ("007-0010", Ok(7..11)),
            ("65535", Ok(65_535..65_536)),
            ("5-2", Err(RangeFault::Reversed)),
            ("65536", Err(RangeFault::TooMany)),
            ("0-99999999999999999999999", Err(RangeFault::TooMany)),
            ("", Err(RangeFault::Form)),
            ("-", Err(RangeFault::Form)),
            ("3-", Err(RangeFault::Form)),
            ("-3", Err(RangeFault::Form)),
            ("0-1-2", Err(RangeFault::Form)),
            ("0..3", Err(RangeFault::Form)),
            (" 1", Err(RangeFault::Form)),
            ("+1", Err(RangeFault::Form)),
            ("0,1", Err(RangeFault::Form)),
        ] {
            assert_eq!(parse(text), expected, "{text:?}");
        }
    }

    #[test]
    fn ranks_without_an_engine_are_found() {
        for (ranks, num_ranks, unused) in [
            (&[[0, 4]][..], 4, None),
            (&[[0, 4], [4, 8]], 8, None),
            (&[[0, 4], [2, 6]], 6, None),
            (&[[4, 8], [0, 4]], 8, None),
            (&[[0, 4], [6, 8]], 8, Some(4..6)),
            (&[[0, 4], [5, 6], [7, 8]], 8, Some(4..5)),
            (&[[2, 4]], 4, Some(0..2)),
        ] {
            let of_engines =
                ranks.iter().enumerate().map(|(number, &[first, end])| (number.to_string(), first..end));
            let job = JobRanks::new(of_engines.collect(), true);
            assert_eq!((job.num_ranks(), job.unused()), (num_ranks, unused), "{ranks:?}");
        }
    }
}
