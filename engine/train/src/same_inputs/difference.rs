//! The first thing that two processes have read differently.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::told::{FileFacts, Told};

/// Something as one process sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// The first rank of the process.
    pub rank: usize,
    /// Its host.
    pub host: String,
    /// A digest, a size, or what it was told.
    pub found: String,
}

/// Something that two processes see differently.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// The thing.
    pub what: String,
    /// The file, if one is known.
    pub file: Option<String>,
    /// As the first process sees it.
    pub first: Seen,
    /// As the first process sees it that differs from that.
    pub other: Seen,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, file, first, other } = self;
        write!(f, "{what} differs between processes: ")?;
        if let Some(file) = file {
            write!(f, "{file} ")?;
        }
        write!(
            f,
            "{} for rank {} on host {}, and {} for rank {} on host {}",
            first.found, first.rank, first.host, other.found, other.rank, other.host
        )
    }
}

/// Shown for an input that a process does not have.
const NONE: &str = "none";
/// Shown for a file that a process does not have.
const MISSING: &str = "is missing";

/// The first difference between what processes tell, and which input it is; `None` for the second where it is a large file.
pub(super) fn of_inputs(all: &[Told]) -> Option<(Difference, Option<usize>)> {
    let (first, others) = all.split_first()?;
    let input = |of: &Told, number: usize| of.inputs.get(number).cloned();
    let num_inputs = all.iter().map(|of| of.inputs.len()).max().unwrap_or(0);
    for number in 0..num_inputs {
        // A process that need not have something is not asked.
        let is_asked = |of: &&Told| input(of, number).is_none_or(|(_, digest)| !digest.is_empty());
        let mut asked = all.iter().filter(is_asked);
        let Some(first) = asked.next() else { continue };
        let own = input(first, number);
        let Some(other) = asked.find(|other| input(other, number) != own) else { continue };
        let (theirs, found) = (input(other, number), |of: Option<(String, String)>| {
            of.map_or_else(|| NONE.to_owned(), |(_, digest)| digest)
        });
        let what = own.as_ref().or(theirs.as_ref()).map_or_else(String::new, |(what, _)| what.clone());
        let [first, other] = [seen(first, found(own)), seen(other, found(theirs))];
        return Some((Difference { what, file: None, first, other }, Some(number)));
    }
    let num_files = all.iter().map(|of| of.files.len()).max().unwrap_or(0);
    for number in 0..num_files {
        let size = |of: &Told| of.files.get(number).map(|file| file.num_bytes);
        let Some(other) = others.iter().find(|other| size(other) != size(first)) else { continue };
        let name = first.files.get(number).or(other.files.get(number)).map(|file| file.name.clone());
        let found = |of: &Told| {
            size(of).map_or_else(|| MISSING.to_owned(), |num_bytes| format!("has {num_bytes} bytes"))
        };
        let [first, other] = [seen(first, found(first)), seen(other, found(other))];
        let what = "a file of tokens or weights".to_owned();
        return Some((Difference { what, file: name, first, other }, None));
    }
    None
}

fn seen(of: &Told, found: String) -> Seen {
    Seen { rank: of.rank, host: of.host.clone(), found }
}

/// A process's digests of large files: its rank, its host, and for each file its number and its digest.
pub(super) type Digests = (usize, String, Vec<(usize, String)>);

/// The first large file of which two processes have read different contents.
pub(super) fn of_files(all: &[Digests], files: &[FileFacts]) -> Option<Difference> {
    for (number, file) in files.iter().enumerate() {
        let mut found = all.iter().filter_map(|(rank, host, digests)| {
            let (_, digest) = digests.iter().find(|(of, _)| *of == number)?;
            Some(Seen { rank: *rank, host: host.clone(), found: format!("has checksum {digest}") })
        });
        let Some(first) = found.next() else { continue };
        if let Some(other) = found.find(|other| other.found != first.found) {
            let what = "a file of tokens or weights".to_owned();
            return Some(Difference { what, file: Some(file.name.clone()), first, other });
        }
    }
    None
}

/// A process's digests of the files of one input: its rank, its host, and for each file its name and its digest.
pub(super) type Named = (usize, String, Vec<(String, String)>);

/// The difference with the first file that shows it.
pub(super) fn with_file(difference: Difference, all: &[Named]) -> Difference {
    let of = |seen: &Seen| all.iter().find(|(rank, ..)| *rank == seen.rank).map(|(.., files)| files);
    let Some((first, other)) = of(&difference.first).zip(of(&difference.other)) else { return difference };
    let num_files = first.len().max(other.len());
    let Some(number) = (0..num_files).find(|&number| first.get(number) != other.get(number)) else {
        return difference;
    };
    let file = first.get(number).or(other.get(number)).map(|(name, _)| name.clone());
    let found = |files: &[(String, String)]| {
        files.get(number).map_or_else(
            || MISSING.to_owned(),
            |(name, digest)| match Some(name) == file.as_ref() {
                true => format!("has checksum {digest}"),
                false => format!("is another file, {name},"),
            },
        )
    };
    Difference {
        first: Seen { found: found(first), ..difference.first.clone() },
        other: Seen { found: found(other), ..difference.other.clone() },
        file,
        ..difference
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(rank: usize, inputs: &[(&str, &str)], sizes: &[u64]) -> Told {
        let file = |(number, &num_bytes): (usize, &u64)| FileFacts::named(format!("f{number}"), num_bytes);
        Told {
            rank,
            host: format!("h{}", rank / 2),
            inputs: inputs.iter().map(|(what, digest)| ((*what).to_owned(), (*digest).to_owned())).collect(),
            files: sizes.iter().enumerate().map(file).collect(),
        }
    }

    #[test]
    fn the_first_difference_is_said_whichever_process_has_it() {
        let alike = |rank| told(rank, &[("the text", "a1"), ("--out", "runs/a")], &[7, 9]);
        assert_eq!(of_inputs(&[alike(0), alike(1), alike(2)]), None);
        let cases = [
            (
                told(2, &[("the text", "b2"), ("--out", "runs/b")], &[7, 9]),
                "the text differs between processes: a1 for rank 0 on host h0, and b2 for rank 2 on host h1",
            ),
            (
                told(2, &[("the text", "a1")], &[7, 9]),
                "--out differs between processes: runs/a for rank 0 on host h0, and none for rank 2",
            ),
            (
                told(2, &[("the text", "a1"), ("--out", "runs/a")], &[7, 8]),
                "a file of tokens or weights differs between processes: f1 has 9 bytes for rank 0",
            ),
            (
                told(2, &[("the text", "a1"), ("--out", "runs/a")], &[7]),
                "f1 has 9 bytes for rank 0 on host h0, and is missing for rank 2",
            ),
        ];
        for (other, expected) in cases {
            let (difference, _) = of_inputs(&[alike(0), alike(1), other]).unwrap();
            assert!(difference.to_string().contains(expected), "{difference}");
        }
        // One that need not have something differs from nobody.
        let none = |rank| told(rank, &[("the text", "")], &[]);
        let of = |rank, digest| told(rank, &[("the text", digest)], &[]);
        assert_eq!(of_inputs(&[none(0), of(1, "a1"), none(2), of(3, "a1")]), None);
        let (difference, _) = of_inputs(&[none(0), of(1, "a1"), none(2), of(3, "b2")]).unwrap();
        assert!(
            difference.to_string().contains("a1 for rank 1 on host h0, and b2 for rank 3"),
            "{difference}"
        );
        // Seen from another process than the first.
        let (difference, _) = of_inputs(&[told(0, &[], &[]), alike(1)]).unwrap();
        assert!(
            difference.to_string().contains("none for rank 0 on host h0, and a1 for rank 1"),
            "{difference}"
        );
    }

    #[test]
    fn the_file_that_differs_is_named() {
        let (difference, _) =
            of_inputs(&[told(0, &[("the text", "a1")], &[]), told(3, &[("the text", "b2")], &[])]).unwrap();
        let files = |digests: &[&str]| -> Vec<(String, String)> {
            digests
                .iter()
                .enumerate()
                .map(|(n, digest)| (format!("t{n}.txt"), (*digest).to_owned()))
                .collect()
        };
        let said = |other: Vec<(String, String)>| {
            let all = [(0, "h0".to_owned(), files(&["x", "y"])), (3, "h1".to_owned(), other)];
            with_file(difference.clone(), &all).to_string()
        };
        assert!(
            said(files(&["x", "z"]))
                .contains("t1.txt has checksum y for rank 0 on host h0, and has checksum z for rank 3")
        );
        assert!(
            said(files(&["x"]))
                .contains("t1.txt has checksum y for rank 0 on host h0, and is missing for rank 3")
        );
        assert!(said(files(&["x", "y"])).contains("a1 for rank 0"));
    }
}
