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

/// Bytes of large files, at most, that are read to compare them.
const READ_BYTES_MAX: u64 = 1 << 30;
/// Bytes that are read at once.
const BUFFER_BYTES: usize = 1 << 20;

/// How much of large files was compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Bytes of which every one counts.
    pub whole_bytes: u64,
    /// Bytes of files of which the size counts, and blocks here and there.
    pub sampled_bytes: u64,
}

/// How many of the first files are read whole.
fn num_whole(files: &[FileFacts]) -> usize {
    let mut sum = 0_u64;
    let fits = |file: &&FileFacts| {
        sum = sum.saturating_add(file.num_bytes);
        sum <= READ_BYTES_MAX
    };
    files.iter().take_while(fits).count()
}

/// How much of the files is compared.
pub(super) fn compared(files: &[FileFacts]) -> Compared {
    let sum = |files: &[FileFacts]| files.iter().map(|file| file.num_bytes).sum();
    let (whole, sampled) = files.split_at(num_whole(files));
    Compared { whole_bytes: sum(whole), sampled_bytes: sum(sampled) }
}

/// Which process reads which large file: the first rank of a process, and the number of a file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Reading(Vec<(usize, usize)>);

/// Each file is read once on each host that has it: of the processes that see the same file, by the one that has the fewest bytes to read so far.
pub(super) fn readers(all: &[Told]) -> Reading {
    let Some(first) = all.first() else { return Reading(Vec::new()) };
    let mut reading = Vec::new();
    let mut bytes_of = HashMap::<usize, u64>::new();
    for number in 0..num_whole(&first.files) {
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
    /// The digests of the files that a process is to read, with their numbers.
    pub(super) fn digests(&self, rank: usize, files: &[PathBuf]) -> Result<Vec<(usize, String)>, Unread> {
        let own = self.0.iter().filter(|(reader, _)| *reader == rank);
        let digest = |&(_, number): &(usize, usize)| {
            let path = &files[number];
            let digest = digest(path, u64::MAX);
            let digest = digest.map_err(|source| Unread { path: path.clone(), source })?;
            Ok((number, digits(digest)))
        };
        own.map(digest).collect()
    }
}

/// The names of files, and digests of as many of their first bytes as may be read in all, as errors show them.
pub(super) fn digests_in_short(files: &[PathBuf]) -> Vec<(String, String)> {
    let of_each = READ_BYTES_MAX / files.len().max(1) as u64;
    let of = |path: &PathBuf| {
        let found = digest(path, of_each).map_or_else(|error| format!("unknown ({error})"), digits);
        (name_of(path), found)
    };
    files.iter().map(of).collect()
}

/// The digest of the first bytes of a file, and of its length.
fn digest(path: &Path, bytes_max: u64) -> io::Result<u64> {
    let file = open_regular(path)?;
    let mut digest = Xxh3::new();
    digest.update(&file.metadata()?.len().to_le_bytes());
    let mut rest = file.take(bytes_max);
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        match rest.read(&mut buffer)? {
            0 => return Ok(digest.digest()),
            num_bytes => digest.update(&buffer[..num_bytes]),
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
        assert_eq!(readers(&all), Reading(vec![(0, 0), (2, 0), (1, 1), (2, 1), (3, 1)]));
    }

    #[test]
    fn files_beyond_the_bound_count_by_their_size() {
        let gib = 1 << 30;
        let files = |sizes: &[u64]| -> Vec<FileFacts> {
            sizes.iter().map(|&size| FileFacts::named("a".to_owned(), size)).collect()
        };
        let of = |sizes: &[u64]| compared(&files(sizes));
        assert_eq!(of(&[gib / 2, gib / 2]), Compared { whole_bytes: gib, sampled_bytes: 0 });
        assert_eq!(of(&[gib / 2, gib, 5]), Compared { whole_bytes: gib / 2, sampled_bytes: gib + 5 });
        assert_eq!(of(&[u64::MAX / 2, 1]), Compared { whole_bytes: 0, sampled_bytes: u64::MAX / 2 + 1 });
        assert_eq!(of(&[]), Compared::default());
    }
}
