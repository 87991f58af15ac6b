//! Large files that processes compare: which process reads which of them, and how much.
//!
//! Processes of one host that see the same file need not all read it, so one does. What a start would otherwise not read whole is read up to a bound; of the
//! files beyond it the sizes count, and the blocks that checkpoints know the data by.

use std::collections::HashMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use pipezero_files::opened::open_regular;
use pipezero_run::checkpoint::digits;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use super::told::{FileFacts, Told, name_of};

/// Bytes of large files, at most, that are read to compare them, unless all are asked for.
const READ_BYTES_MAX: u64 = 1 << 30;
/// Bytes that are read at once.
const BUFFER_BYTES: usize = 1 << 20;

/// Files of tokens and weights: ranks read parts of them, here and there.
#[derive(Clone, Debug, Default)]
pub struct LargeFiles {
    /// Their paths, in the same order in all processes.
    pub paths: Vec<PathBuf>,
    /// Whether every byte of them is compared.
    pub are_verified: bool,
}

impl LargeFiles {
    /// How many bytes of them are compared whole, at most.
    fn whole_bytes_max(&self) -> u64 {
        if self.are_verified { u64::MAX } else { READ_BYTES_MAX }
    }
}

/// How much of large files was compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Bytes of which every one counts.
    pub whole_bytes: u64,
    /// Bytes of files of which the size counts, and blocks here and there.
    pub sampled_bytes: u64,
}

/// The numbers of the files that are read whole: in their order, each that still fits into the bound.
fn read_whole(files: &[FileFacts], bytes_max: u64) -> Vec<usize> {
    let mut left = bytes_max;
    let fits = |(number, file): (usize, &FileFacts)| {
        left = left.checked_sub(file.num_bytes)?;
        Some(number)
    };
    files.iter().enumerate().filter_map(fits).collect()
}

/// How much of the files is compared.
pub(super) fn compared(large: &LargeFiles, facts: &[FileFacts]) -> Compared {
    let whole = read_whole(facts, large.whole_bytes_max());
    let mut compared = Compared::default();
    for (number, file) in facts.iter().enumerate() {
        let is_whole = whole.binary_search(&number).is_ok();
        let sum = if is_whole { &mut compared.whole_bytes } else { &mut compared.sampled_bytes };
        *sum = sum.saturating_add(file.num_bytes);
    }
    compared
}

/// Which process reads which large file: the first rank of a process, and the number of a file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Reading(Vec<(usize, usize)>);

/// Each file is read once on each host that has it: of the processes that see the same file, by the one that has the fewest bytes to read so far.
pub(super) fn readers(large: &LargeFiles, all: &[Told]) -> Reading {
    let Some(first) = all.first() else { return Reading(Vec::new()) };
    let mut reading = Vec::new();
    let mut bytes_of = HashMap::<usize, u64>::new();
    for number in read_whole(&first.files, large.whole_bytes_max()) {
        let mut seen = HashMap::<_, Vec<usize>>::new();
        for told in all {
            let Some(file) = told.files.get(number) else { continue };
            seen.entry((&told.host, file.identity)).or_default().push(told.rank);
        }
        let mut groups: Vec<Vec<usize>> = seen.into_values().collect();
        groups.sort_unstable();
        for ranks in groups {
            let least =
                ranks.into_iter().min_by_key(|rank| (bytes_of.get(rank).copied().unwrap_or(0), *rank));
            let Some(rank) = least else { continue };
            *bytes_of.entry(rank).or_default() += first.files[number].num_bytes;
            reading.push((rank, number));
        }
    }
    Reading(reading)
}

/// A large file that cannot be read.
#[derive(Debug)]
pub(super) struct Unread {
    pub(super) path: PathBuf,
    pub(super) source: io::Error,
}

impl Reading {
    /// The digests of the files that a process is to read, with their numbers. It tells `progress` again and again how many bytes it has read.
    pub(super) fn digests(
        &self,
        rank: usize,
        files: &[PathBuf],
        progress: &mut dyn FnMut(u64),
    ) -> Result<Vec<(usize, String)>, Unread> {
        let own = self.0.iter().filter(|(reader, _)| *reader == rank);
        let mut num_read = 0;
        let mut digest = |&(_, number): &(usize, usize)| {
            let path = &files[number];
            let mut has_read = |num_bytes| {
                num_read += num_bytes;
                progress(num_read);
            };
            let digest = digest(path, u64::MAX, &mut has_read);
            let digest = digest.map_err(|source| Unread { path: path.clone(), source })?;
            Ok((number, digits(digest)))
        };
        own.map(&mut digest).collect()
    }

    /// How many bytes a process is to read.
    pub(super) fn num_bytes(&self, rank: usize, files: &[FileFacts]) -> u64 {
        let own = self.0.iter().filter(|(reader, _)| *reader == rank);
        own.map(|&(_, number)| files[number].num_bytes).fold(0, u64::saturating_add)
    }
}

/// The names of files, and digests of as many of their first bytes as may be read in all, as errors show them.
pub(super) fn digests_in_short(files: &[PathBuf]) -> Vec<(String, String)> {
    let of_each = READ_BYTES_MAX / files.len().max(1) as u64;
    let of = |path: &PathBuf| {
        let found =
            digest(path, of_each, &mut |_| ()).map_or_else(|error| format!("unknown ({error})"), digits);
        (name_of(path), found)
    };
    files.iter().map(of).collect()
}

/// The digest of the first bytes of a file, and of its length. What is added to the file meanwhile is not read.
fn digest(path: &Path, bytes_max: u64, has_read: &mut dyn FnMut(u64)) -> io::Result<u64> {
    let file = open_regular(path)?;
    let mut digest = Xxh3::new();
    let len = file.metadata()?.len();
    digest.update(&len.to_le_bytes());
    let mut rest = file.take(bytes_max.min(len));
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        match rest.read(&mut buffer)? {
            0 => return Ok(digest.digest()),
            num_bytes => {
                digest.update(&buffer[..num_bytes]);
                has_read(num_bytes as u64);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(rank: usize, host: &str, files: &[(u64, u64)]) -> Told {
        let file = |&(inode, num_bytes): &(u64, u64)| FileFacts {
            name: format!("{inode}"),
            num_bytes,
            identity: (1, inode, 0, 0),
        };
        Told { rank, host: host.to_owned(), inputs: Vec::new(), files: files.iter().map(file).collect() }
    }

    #[test]
    fn each_file_is_read_once_on_each_host_that_has_it() {
        let all = [
            told(0, "a", &[(1, 10), (2, 20)]),
            told(1, "a", &[(1, 10), (2, 20)]),
            told(2, "b", &[(1, 10), (2, 20)]),
            // Its own copy of the second, as in a container.
            told(3, "b", &[(1, 10), (7, 20)]),
        ];
        let reading = readers(&LargeFiles::default(), &all);
        assert_eq!(reading, Reading(vec![(0, 0), (2, 0), (1, 1), (2, 1), (3, 1)]));
        assert_eq!([0, 1, 2, 3].map(|rank| reading.num_bytes(rank, &all[0].files)), [10, 20, 30, 20]);
    }

    #[test]
    fn progress_ends_with_all_bytes_that_a_process_reads() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = [3_000_000, 5, 0].map(|len| {
            let path = folder.path().join(len.to_string());
            std::fs::write(&path, vec![7; len]).expect("a file");
            path
        });
        let mut seen = Vec::new();
        let reading = Reading(vec![(0, 0), (1, 0), (1, 1), (1, 2)]);
        let digests =
            reading.digests(1, &files, &mut |num_bytes| seen.push(num_bytes)).expect("they are there");
        assert_eq!(digests.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0, 1, 2]);
        assert!(seen.is_sorted() && seen.last() == Some(&3_000_005), "{seen:?}");
    }

    #[test]
    fn files_beyond_the_bound_count_by_their_size_unless_all_are_verified() {
        let gib = 1 << 30;
        let files = |sizes: &[u64]| -> Vec<FileFacts> {
            sizes.iter().map(|&size| FileFacts::named("a".to_owned(), size)).collect()
        };
        let verified = LargeFiles { are_verified: true, ..LargeFiles::default() };
        let all = compared(&verified, &files(&[gib / 2, gib, 5]));
        assert_eq!(all, Compared { whole_bytes: gib / 2 + gib + 5, sampled_bytes: 0 });
        let of = |sizes: &[u64]| compared(&LargeFiles::default(), &files(sizes));
        assert_eq!(of(&[gib / 2, gib / 2]), Compared { whole_bytes: gib, sampled_bytes: 0 });
        assert_eq!(of(&[gib / 2, gib, 5]), Compared { whole_bytes: gib / 2 + 5, sampled_bytes: gib });
        assert_eq!(of(&[u64::MAX / 2, 1]), Compared { whole_bytes: 1, sampled_bytes: u64::MAX / 2 });
        assert_eq!(of(&[]), Compared::default());
    }
}
