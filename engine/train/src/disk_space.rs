//! Whether the disk has room for what a run writes, before it starts.

use std::path::Path;

use pipezero_files::host::{self, Limit};
use pipezero_plan::{Bytes, Plan};
use walkdir::WalkDir;

use super::run_dir_error::RunDirError;

/// What a run writes: its weights, and checkpoints, one more at once than it keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskNeeds {
    /// Bytes of its weights.
    pub weights_bytes: u64,
    /// Bytes of a checkpoint.
    pub checkpoint_bytes: u64,
    /// Checkpoints that are on disk at once, at most.
    pub(crate) num_checkpoints: u64,
}

impl DiskNeeds {
    /// Of a plan's run.
    pub fn of(plan: &Plan) -> Self {
        let run = plan.run();
        let weights_bytes = 4 * plan.num_parameters();
        let num_trained = plan.num_parameters() - plan.num_frozen_parameters();
        let states_bytes = 4 * num_trained * run.optimizer.num_states() as u64;
        Self {
            weights_bytes,
            checkpoint_bytes: weights_bytes + states_bytes,
            // Without a key one is written if a signal ends the run.
            num_checkpoints: if run.checkpoint.is_asked_for() {
                (run.checkpoint.keep as u64).saturating_add(1)
            } else {
                1
            },
        }
    }

    /// Bytes of all that is on disk at once, at most.
    pub fn all_bytes(self) -> u64 {
        self.weights_bytes.saturating_add(self.checkpoint_bytes.saturating_mul(self.num_checkpoints))
    }
}

/// Refuses a directory whose disk has no room for the weights, and warns where checkpoints may not fit. What is in the directory
/// counts as room, since it is replaced.
///
/// # Errors
/// [`RunDirError::NoSpace`].
pub fn check_disk_space(plan: &Plan, directory: &Path) -> Result<Option<String>, RunDirError> {
    check_files(&[plan], directory)?;
    let Some(free_bytes) = room(directory) else { return Ok(None) };
    let needs = DiskNeeds::of(plan);
    let checkpoints = match needs.num_checkpoints {
        1 => "a checkpoint".to_owned(),
        several => format!("{several} checkpoints"),
    };
    check(needs, free_bytes, directory, &format!("the weights and {checkpoints} at once take"))
}

/// As [`check_disk_space`], of several runs that write at once into folders of a directory: refuses where the weights of all have no room, although
/// each alone may have it, or where their files are more than the system allows.
///
/// # Errors
/// As [`check_disk_space`].
pub fn check_disk_space_together(plans: &[&Plan], directory: &Path) -> Result<Option<String>, RunDirError> {
    check_files(plans, directory)?;
    let needs: Vec<DiskNeeds> = plans.iter().map(|plan| DiskNeeds::of(plan)).collect();
    let sum = |bytes: fn(&DiskNeeds) -> u64| needs.iter().map(bytes).fold(0, u64::saturating_add);
    let weights_bytes = sum(|needs| needs.weights_bytes);
    let checkpoint_bytes = sum(|needs| needs.checkpoint_bytes.saturating_mul(needs.num_checkpoints));
    let Some(free_bytes) = room(directory) else { return Ok(None) };
    let needs = DiskNeeds { weights_bytes, checkpoint_bytes, num_checkpoints: 1 };
    check(needs, free_bytes, directory, "the weights and checkpoints of all engines at once take")
}

/// Bytes of a file beside its weights: names and sizes, and text files that are written first.
const BESIDE_WEIGHTS_BYTES: u64 = 64 << 10;

/// Files and folders of a run directory beside its checkpoints, logs and traces, at most.
const OTHER_FILES: u64 = 32;

/// The longest file of a run, and how many it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Files {
    longest_bytes: u64,
    count: u64,
}

impl Files {
    fn of(needs: DiskNeeds, num_ranks: u64, is_checkpoint_asked_for: bool) -> Self {
        // A rank's file of a checkpoint, which is at least as long as the mean.
        let of_rank = if is_checkpoint_asked_for { needs.checkpoint_bytes.div_ceil(num_ranks) } else { 0 };
        let longest_bytes = needs.weights_bytes.max(of_rank).saturating_add(BESIDE_WEIGHTS_BYTES);
        // A checkpoint has a folder and a manifest beside the files of ranks, and each rank has a log.
        let of_checkpoints = needs.num_checkpoints.saturating_mul(num_ranks.saturating_add(2));
        let count = OTHER_FILES.saturating_add(num_ranks).saturating_add(of_checkpoints);
        Self { longest_bytes, count }
    }

    /// The files of two runs that write at the same time.
    fn together(self, other: Self) -> Self {
        let longest_bytes = self.longest_bytes.max(other.longest_bytes);
        Self { longest_bytes, count: self.count.saturating_add(other.count) }
    }
}

/// Refuses a directory where a file of these runs would be longer, or where there would be more of them, than the system allows.
fn check_files(plans: &[&Plan], directory: &Path) -> Result<(), RunDirError> {
    let of_plan = |plan: &&Plan| {
        Files::of(DiskNeeds::of(plan), plan.grid().world_size() as u64, plan.run().checkpoint.is_asked_for())
    };
    let Some(Files { longest_bytes, count: needed_files }) =
        plans.iter().map(of_plan).reduce(Files::together)
    else {
        return Ok(());
    };
    Limit::FileSize.check(longest_bytes)?;
    match host::free_files(directory) {
        Some(free_files) if free_files < needed_files => {
            Err(RunDirError::NoFiles { path: directory.to_owned(), free_files, needed_files })
        }
        _ => Ok(()),
    }
}

/// What is free on the disk of a directory, with what is in it, since that is replaced.
fn room(directory: &Path) -> Option<u64> {
    let free_bytes = host::free_bytes(directory)?;
    let files = WalkDir::new(directory).into_iter().flatten().filter_map(|entry| entry.metadata().ok());
    let own: u64 = files.filter(std::fs::Metadata::is_file).map(|file| file.len()).sum();
    Some(free_bytes.saturating_add(own))
}

fn check(
    needs: DiskNeeds,
    free_bytes: u64,
    directory: &Path,
    take: &str,
) -> Result<Option<String>, RunDirError> {
    let DiskNeeds { weights_bytes, .. } = needs;
    if free_bytes < weights_bytes {
        return Err(RunDirError::NoSpace { path: directory.to_owned(), free_bytes, weights_bytes });
    }
    Ok((free_bytes < needs.all_bytes()).then(|| {
        format!(
            "warning: {} has {} left on its disk; {take} {}",
            directory.display(),
            Bytes(free_bytes),
            Bytes(needs.all_bytes())
        )
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: 32 + 2 + 4 x (2 + 2) files of two ranks that keep three checkpoints, 32 + 1 + (1 + 2) of one that is asked for none.
    #[test]
    fn files_of_several_runs_add_up_and_the_longest_counts() {
        let needs =
            |num_checkpoints| DiskNeeds { weights_bytes: 100, checkpoint_bytes: 300, num_checkpoints };
        let two = Files::of(needs(4), 2, true);
        let one = Files::of(needs(1), 1, false);
        assert_eq!(two, Files { longest_bytes: 150 + BESIDE_WEIGHTS_BYTES, count: 50 });
        assert_eq!(one, Files { longest_bytes: 100 + BESIDE_WEIGHTS_BYTES, count: 36 });
        for together in [one.together(two), two.together(one)] {
            assert_eq!(together, Files { longest_bytes: 150 + BESIDE_WEIGHTS_BYTES, count: 86 });
        }
    }

    #[test]
    fn weights_that_do_not_fit_are_refused_and_checkpoints_warned_of() {
        let needs = DiskNeeds { weights_bytes: 4 << 20, checkpoint_bytes: 12 << 20, num_checkpoints: 3 };
        let of = |mib: u64| {
            check(needs, mib << 20, Path::new("out"), "the weights and 3 checkpoints at once take")
        };
        assert_eq!(of(40).unwrap(), None);
        let warning = "warning: out has 39.00 MiB left on its disk; the weights and 3 checkpoints at once take 40.00 MiB";
        assert_eq!(of(39).unwrap().as_deref(), Some(warning));
        let error = of(3).unwrap_err().to_string();
        assert!(
            error.starts_with(
                "out has 3.00 MiB left on its disk, and the weights of the run alone take 4.00 MiB"
            ),
            "{error}"
        );
        assert!(host::free_bytes(Path::new("no/such/folder")).is_some_and(|bytes| bytes > 0));
    }
}
