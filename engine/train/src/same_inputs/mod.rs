//! Processes of a run that have read different things do not train together.
//!
//! Under one path a host may have an older copy of a text, another tokenizer, weights of another run. Each process would go on with what it sees, and the run
//! would end without an error, with weights that belong to no data. So before the first step every process says what it has read, by content: names of
//! folders, inodes and times do not count, since each host may have a copy of its own.

mod difference;
mod files;
mod told;

use std::path::PathBuf;
use std::slice;

use pipezero_comm::world::{World, judged_by_first};
use pipezero_files::host;
use pipezero_run::engine::EngineError;
use pipezero_tokens::text::find_all;
use serde::{Deserialize, Serialize};

pub use self::difference::{Difference, Seen};
pub use self::files::{Compared, LargeFiles};
use self::files::{Reading, Unread};
use self::told::{FileFacts, Told};
use super::error::TrainingError;

/// Something that all processes must have alike: a file that was read, or an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// As errors name it: `the training text (`data.text`)`.
    pub what: String,
    /// The digest of its content, or what was said; empty in a process that need not have it.
    pub digest: String,
    /// The files that it was read from, as entries of a run file name them: files, folders or globs.
    pub files: Vec<PathBuf>,
    /// The repair, if processes differ.
    pub repair: &'static str,
}

impl Input {
    /// The usual repair.
    pub const REPAIR: &str =
        "copy the files of one host to the others, or give all processes the same options";

    /// An option of the command line.
    pub fn said(what: &str, value: impl std::fmt::Display) -> Self {
        Self { what: what.to_owned(), digest: value.to_string(), files: Vec::new(), repair: Self::REPAIR }
    }
}

/// Compares what all processes of a world have read; each calls it with inputs in the same order. `large` files are read here, once on each host that has
/// them, and no more than 1 GiB of them unless all are verified. It tells `progress` again and again how many bytes this process has read, and of how many.
///
/// # Errors
/// [`TrainingError::OtherInput`] in every process, for the first difference; when a file cannot be read, or another process stops.
pub fn compare(
    world: &dyn World,
    inputs: &[Input],
    large: &LargeFiles,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Compared, TrainingError> {
    if world.has_all_ranks() {
        return Ok(Compared::default());
    }
    let rank = world.local_ranks().start;
    let unread = |Unread { path, source }| TrainingError::Unread { path, source };
    let facts =
        |path: &PathBuf| FileFacts::of(path).map_err(|source| unread(Unread { path: path.clone(), source }));
    let facts = large.paths.iter().map(facts).collect::<Result<Vec<_>, _>>()?;
    let told = Told {
        rank,
        host: host::name(),
        inputs: inputs.iter().map(|input| (input.what.clone(), input.digest.clone())).collect(),
        files: facts.clone(),
    };
    let judged = judged_by_first(world, &told, |all: Vec<Told>| match difference::of_inputs(&all) {
        Some(found) => Judged::Differs(found),
        None => Judged::Alike(files::readers(large, &all)),
    });
    let reading = match judged.map_err(EngineError::of_others)? {
        Judged::Alike(reading) => reading,
        Judged::Differs((difference, input)) => {
            let input = input.and_then(|input| inputs.get(input));
            let files = input.map_or(&[][..], |input| &input.files);
            let difference = named_by_file(world, difference, files)?;
            let repair = input.map_or(Input::REPAIR, |input| input.repair);
            return Err(TrainingError::OtherInput { difference: Box::new(difference), repair });
        }
    };
    let num_bytes = reading.num_bytes(rank, &facts);
    let digests = reading.digests(rank, &large.paths, &mut |num_read| progress(num_read, num_bytes));
    wait_for_all(world)?;
    let told = (rank, host::name(), digests.map_err(unread)?);
    let found = judged_by_first(world, &told, |all| difference::of_files(&all, &facts));
    match found.map_err(EngineError::of_others)? {
        Some(difference) => {
            Err(TrainingError::OtherInput { difference: Box::new(difference), repair: Input::REPAIR })
        }
        None => Ok(files::compared(large, &facts)),
    }
}

/// The verdict of the process of rank 0.
#[derive(Serialize, Deserialize)]
enum Judged {
    /// Which process reads which large file.
    Alike(Reading),
    /// The first difference, and which input has it.
    Differs((Difference, Option<usize>)),
}

/// The difference with the name of the first file that differs: now that the run does not start, all files of the input are read once more.
fn named_by_file(
    world: &dyn World,
    difference: Difference,
    files: &[PathBuf],
) -> Result<Difference, TrainingError> {
    let found = |entry| find_all(slice::from_ref(entry)).unwrap_or_else(|_| vec![entry.clone()]);
    let files: Vec<PathBuf> = files.iter().flat_map(found).collect();
    let digests = files::digests_in_short(&files);
    wait_for_all(world)?;
    let told = (world.local_ranks().start, host::name(), digests);
    let named = judged_by_first(world, &told, |all| difference::with_file(difference, &all));
    Ok(named.map_err(EngineError::of_others)?)
}

/// Waits, without a limit of time, until all processes have read their files: how long disks take is unknown.
fn wait_for_all(world: &dyn World) -> Result<(), TrainingError> {
    Ok(world.add_words_in_any_time(&mut []).map_err(EngineError::from)?)
}
