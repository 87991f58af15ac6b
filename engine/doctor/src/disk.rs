//! Where the run directory would be: whether it can be written, how much fits there, and how long a checkpoint takes.
//!
//! Each process writes a file of its own there at the same time, as ranks write their parts of a checkpoint, and looks for the file of
//! rank 0's: checkpoints are read back from one folder.

use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use pipezero_comm::CommError;
use pipezero_files::host::free_bytes;
use pipezero_plan::{Bytes, Plan};
use pipezero_train::{Claim, DiskNeeds, RunDir, RunDirError};
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use super::check::{Check, Part};
use super::team::Team;

/// Bytes that are written at once.
const PIECE_BYTES: usize = 4 << 20;
/// Bytes of the file of each process at most.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// How long a process writes at most.
const WRITING_MAX: Duration = Duration::from_secs(4);
/// How long a checkpoint may take before it is worth a thought.
const CHECKPOINT_MAX_S: f64 = 60.0;

/// What one process found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessDisk {
    /// Its first rank.
    pub first_rank: usize,
    /// What is left there; `None` where the system does not say.
    pub free_bytes: Option<u64>,
    /// Whether it sees what the process of rank 0 has written.
    pub sees_first: bool,
    /// What writing and reading took, or what the system said.
    pub speed: Result<Speed, String>,
}

/// What writing and reading a file took.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Speed {
    /// Bytes of the file.
    pub bytes: u64,
    /// Until the last of them was on disk.
    pub write_s: f64,
    /// To read it back; some of it perhaps from memory.
    pub read_s: f64,
}

/// What the disk is to hold, and where.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DiskFacts {
    /// The run directory.
    pub directory: PathBuf,
    /// The folder whose disk was tried: the nearest that is there.
    pub tried: PathBuf,
    /// Bytes of the weights.
    pub weights_bytes: u64,
    /// Bytes of a checkpoint.
    pub checkpoint_bytes: u64,
    /// Bytes of all that is there at once, at most.
    pub all_bytes: u64,
    /// How long a checkpoint takes to be written; `None` if nothing could be.
    pub checkpoint_s: Option<f64>,
    /// What each process found.
    pub processes: Vec<ProcessDisk>,
}

/// Tries the disk of a run directory.
pub(super) fn look(team: &Team, plan: &Plan, directory: &Path) -> Result<DiskFacts, CommError> {
    let tried = nearest_folder(directory);
    let ranks = team.world().local_ranks();
    let needs = DiskNeeds::of(plan);
    let share = needs.checkpoint_bytes / team.world().size() as u64 * ranks.len() as u64;
    let free_bytes = free_bytes(directory);
    // All of them write at once, and to one disk if they share it.
    let num_processes = (team.world().size() / ranks.len()) as u64;
    let bytes = share
        .clamp(PIECE_BYTES as u64, FILE_BYTES_MAX)
        .min(free_bytes.unwrap_or(u64::MAX) / 16 / num_processes);
    let created = TriedFile::create(&tried);
    // All have theirs before any looks for the first, whose name nobody can guess.
    let name = created.as_ref().ok().and_then(TriedFile::name).map(str::to_owned);
    let first = team.decide(&name)?;
    team.meet()?;
    let sees_first = first.is_some_and(|name| appears(&tried.join(name)));
    let speed = created.and_then(|file| Ok((try_disk(&file, bytes)?, file)));
    team.meet()?;
    // It is removed when all have looked for it.
    let speed = speed.map(|(speed, _)| speed).map_err(|error| error.to_string());
    let processes = team.gather(&ProcessDisk { first_rank: ranks.start, free_bytes, sees_first, speed })?;
    let DiskNeeds { weights_bytes, checkpoint_bytes, .. } = needs;
    let checkpoint_s = checkpoint_s(checkpoint_bytes, &processes);
    let directory = directory.to_owned();
    let all_bytes = needs.all_bytes();
    Ok(DiskFacts { directory, tried, weights_bytes, checkpoint_bytes, all_bytes, checkpoint_s, processes })
}

/// A file of this process, which is removed. No other user can read it.
struct TriedFile(NamedTempFile);

impl TriedFile {
    fn create(folder: &Path) -> io::Result<Self> {
        Ok(Self(tempfile::Builder::new().prefix(".pipezero-doctor-").rand_bytes(16).tempfile_in(folder)?))
    }

    fn name(&self) -> Option<&str> {
        self.0.path().file_name()?.to_str()
    }
}

/// Whether a file is there, or comes to be seen soon, as on the disk of another host.
fn appears(path: &Path) -> bool {
    const NUM_LOOKS: u32 = 20;
    (0..NUM_LOOKS).any(|look| {
        if look > 0 {
            thread::sleep(Duration::from_millis(100));
        }
        path.exists()
    })
}

/// The folder itself, or the nearest above it that is there.
fn nearest_folder(directory: &Path) -> PathBuf {
    let absolute = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
    absolute.ancestors().find(|folder| folder.is_dir()).unwrap_or(Path::new("/")).to_owned()
}

fn try_disk(tried: &TriedFile, bytes: u64) -> io::Result<Speed> {
    let mut file = tried.0.as_file();
    // No disk that packs what is written can pack it.
    let mut state = 1_u64;
    let piece: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    })
    .take(PIECE_BYTES)
    .collect();
    let start = Instant::now();
    let mut written = 0;
    while written < bytes && start.elapsed() < WRITING_MAX {
        let part = &piece[..usize::try_from(bytes - written).unwrap_or(PIECE_BYTES).min(PIECE_BYTES)];
        file.write_all(part)?;
        written += part.len() as u64;
    }
    file.sync_all()?;
    let write_s = start.elapsed().as_secs_f64();
    file.rewind()?;
    // A hint, which some file systems ignore: what is in memory would say nothing of the disk.
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
    let start = Instant::now();
    let mut read = vec![0; PIECE_BYTES];
    let mut left = written;
    while left > 0 {
        let part = usize::try_from(left).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
        file.read_exact(&mut read[..part])?;
        if read[..part] != piece[..part] {
            return Err(io::Error::other("what was read is not what was written"));
        }
        left -= part as u64;
    }
    Ok(Speed { bytes: written, write_s, read_s: start.elapsed().as_secs_f64() })
}

/// What all processes write together takes as long as the slowest of them.
fn checkpoint_s(checkpoint_bytes: u64, processes: &[ProcessDisk]) -> Option<f64> {
    let speeds: Vec<Speed> = processes.iter().map(|of| of.speed.clone().ok()).collect::<Option<_>>()?;
    let bytes: u64 = speeds.iter().map(|of| of.bytes).sum();
    let write_s = speeds.iter().map(|of| of.write_s).fold(0.0, f64::max);
    (bytes > 0).then(|| write_s * checkpoint_bytes as f64 / bytes as f64)
}

/// Whether the run can write what it will.
pub(super) fn judge(plan: &Plan, facts: &DiskFacts) -> Vec<Check> {
    let mut checks = vec![directory(&facts.directory), space(plan, facts)];
    let failed = facts.processes.iter().find_map(|of| Some((of.first_rank, of.speed.as_ref().err()?)));
    let value = match (failed, facts.checkpoint_s) {
        (Some((rank, error)), _) => format!("rank {rank} in {}: {error}", facts.tried.display()),
        (None, Some(seconds)) => {
            format!("{seconds:.1} s for a checkpoint of {}", Bytes(facts.checkpoint_bytes))
        }
        (None, None) => "nothing was written".to_owned(),
    };
    let rule = format!("can be written, and a checkpoint takes less than {CHECKPOINT_MAX_S} s");
    checks.push(
        Check::new(Part::Disk, "writing", value, rule)
            .warns_unless(
                facts.checkpoint_s.is_some_and(|seconds| seconds < CHECKPOINT_MAX_S),
                "write checkpoints less often than they take: see `checkpoint.every`; or name a folder on a faster disk with --run-dir",
            )
            .fails_unless(
                failed.is_none(),
                "name a folder that can be written to with --run-dir, and with --out of `pipezero train`",
            ),
    );
    if facts.processes.len() > 1 && failed.is_none() {
        let blind: Vec<String> =
            facts.processes.iter().filter(|of| !of.sees_first).map(|of| of.first_rank.to_string()).collect();
        let value = match blind.as_slice() {
            [] => "all processes see the same folder".to_owned(),
            ranks => format!("other folders of this name are on the hosts of ranks {}", ranks.join(", ")),
        };
        checks.push(
            Check::new(Part::Disk, "shared folder", value, "checkpoints of all ranks are in one folder")
                .fails_unless(blind.is_empty(), "name a folder that all hosts share, with --run-dir"),
        );
    }
    checks
}

fn directory(directory: &Path) -> Check {
    let (value, is_free, is_writable) = match RunDir::check(directory, Claim::New) {
        Ok(_) => (format!("{} can be made", directory.display()), true, true),
        Err(error @ (RunDirError::Exists { .. } | RunDirError::Busy { .. })) => {
            (error.to_string(), false, true)
        }
        Err(error) => (error.to_string(), false, false),
    };
    Check::new(Part::Disk, "run directory", value, "a new folder can be made for the run")
        .warns_unless(is_free, "choose with `train`: --resume, --overwrite, or --out with another folder")
        .fails_unless(
            is_writable,
            "name a folder that can be written to with --run-dir, and with --out of `pipezero train`",
        )
}

fn space(plan: &Plan, facts: &DiskFacts) -> Check {
    let free = facts.processes.iter().filter_map(|of| of.free_bytes).min();
    let value = format!(
        "{} free; weights take {}, with checkpoints at most {}",
        free.map_or_else(|| "an unknown number of bytes is".to_owned(), |bytes| Bytes(bytes).to_string()),
        Bytes(facts.weights_bytes),
        Bytes(facts.all_bytes)
    );
    let fits = |bytes: u64| free.is_none_or(|free| bytes <= free);
    let keep = plan.run().checkpoint.keep;
    Check::new(Part::Disk, "space", value, "weights and checkpoints fit")
        .warns_unless(
            fits(facts.all_bytes),
            format!("free some space, or keep fewer checkpoints than `checkpoint.keep` {keep}"),
        )
        .fails_unless(
            fits(facts.weights_bytes),
            "free some space, or name a folder on another disk with --run-dir",
        )
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::check::Verdict;
    use pipezero_config::{Resources, RunFile};

    fn process(first_rank: usize, free_bytes: u64) -> ProcessDisk {
        let speed = Ok(Speed { bytes: 1 << 20, write_s: 0.5, read_s: 0.1 });
        ProcessDisk { first_rank, free_bytes: Some(free_bytes), sees_first: true, speed }
    }

    #[test]
    fn each_rule_is_broken_by_what_it_forbids() {
        let text = r#"{"model": {"family": "mlp", "num_layers": 1, "hidden_size": 4, "seq_length": 4},
            "data": {"text": "a.txt"}, "steps": 1, "train_batch_size": 4, "parallel": {"data": 2}}"#;
        let file = RunFile::parse("run.json", text).unwrap();
        let (plan, _) = Plan::from_file(&file, Resources::this_host()).unwrap();
        let home = tempfile::tempdir().unwrap();
        let not_ok = |directory: PathBuf, processes: [ProcessDisk; 2], checkpoint_bytes: u64| {
            let checkpoint_s = checkpoint_s(checkpoint_bytes, &processes);
            let facts = DiskFacts {
                directory,
                tried: home.path().to_owned(),
                weights_bytes: 100,
                checkpoint_bytes,
                all_bytes: 400,
                checkpoint_s,
                processes: processes.to_vec(),
            };
            let checks = judge(&plan, &facts).into_iter().filter(|check| check.verdict != Verdict::Ok);
            checks.map(|check| (check.what, check.verdict)).collect::<Vec<_>>()
        };
        let run = || home.path().join("run");
        let good = || [process(0, 400), process(1, 400)];
        let one = |what: &str, verdict| vec![(what.to_owned(), verdict)];
        assert_eq!(not_ok(run(), good(), 300), []);
        assert_eq!(not_ok(run(), [process(0, 399), process(1, 400)], 300), one("space", Verdict::Warning));
        assert_eq!(not_ok(run(), [process(0, 400), process(1, 99)], 300), one("space", Verdict::Failed));
        // 2 MiB in half a second are 240 MiB in a minute.
        assert_eq!(not_ok(run(), good(), 239 << 20), []);
        assert_eq!(not_ok(run(), good(), 240 << 20), one("writing", Verdict::Warning));
        let refused = ProcessDisk { speed: Err("read-only file system".to_owned()), ..process(1, 400) };
        assert_eq!(not_ok(run(), [process(0, 400), refused], 300), one("writing", Verdict::Failed));
        let blind = ProcessDisk { sees_first: false, ..process(1, 400) };
        assert_eq!(not_ok(run(), [process(0, 400), blind], 300), one("shared folder", Verdict::Failed));
        fs::write(home.path().join("file"), "a thesis").unwrap();
        let below_a_file = home.path().join("file/run");
        assert_eq!(not_ok(below_a_file, good(), 300), one("run directory", Verdict::Failed));
        fs::create_dir(run()).unwrap();
        fs::write(home.path().join("run/run.json"), "{}").unwrap();
        assert_eq!(not_ok(run(), good(), 300), one("run directory", Verdict::Warning));
    }

    #[test]
    fn what_is_written_is_read_again_and_removed() {
        let home = tempfile::tempdir().unwrap();
        let file = TriedFile::create(home.path()).unwrap();
        let bytes = PIECE_BYTES as u64 + 5;
        let speed = try_disk(&file, bytes).unwrap();
        assert_eq!((speed.bytes, file.0.as_file().metadata().unwrap().len()), (bytes, bytes));
        assert!(speed.write_s > 0.0 && speed.read_s > 0.0);
        drop(file);
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
        assert_eq!(nearest_folder(&home.path().join("not/there")), home.path());
    }
}
