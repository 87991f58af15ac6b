//! `pipezero checkpoint`.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, Subcommand, ValueEnum};
use pipezero_config::hugging_face::{ExportForm, ExportType};
use pipezero_run::checkpoint::{CheckpointError, CheckpointReader, Checkpoints, Manifest, Piece};
use pipezero_train::{Claim, RunDir};

use super::failure::Failure;
use super::figures::{bytes, count, counted};
use super::output::{note, print};
use super::table::Table;
use super::terminal;
use super::whole::{byte_size, whole};

/// What `--help` ends with.
pub(super) const EXAMPLES: &str = "\
Examples:
  pipezero checkpoint inspect runs/quickstart            # all checkpoints of a run, and what the newest holds
  pipezero checkpoint verify runs/quickstart --step 500  # reads every byte
  pipezero checkpoint export runs/quickstart --out weights.safetensors
  pipezero checkpoint export runs/quickstart --format hf --out my-gpt2   # for transformers' from_pretrained
  pipezero checkpoint export runs/quickstart --format hf --dtype bf16 --out my-gpt2-bf16
  pipezero checkpoint reshape runs/quickstart --files 8 --out runs/in-8-files

To go on with a run on another grid nothing has to be reshaped: see `pipezero train --resume`.";

/// Bytes of a file of transformers, at most, as `save_pretrained` takes them to be.
const FILE_BYTES: u64 = 5_000_000_000;

/// Arguments of `checkpoint`.
#[derive(Debug, Args)]
pub(super) struct CheckpointArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// What a checkpoint holds: step, grid, parameters, files.
    Inspect(Which),
    /// Read every byte of a checkpoint, and compare it with its checksums.
    Verify(Which),
    /// Write the weights of a checkpoint, in f32, to one safetensors file; or to a folder for Hugging Face's transformers, where those of a
    /// finished run will do too. The folder keeps what the config.json and generation_config.json say that the model came from.
    Export {
        #[command(flatten)]
        which: Which,
        /// The new file, or the new folder.
        #[arg(long, value_name = "PATH")]
        out: PathBuf,
        /// What is written: one file with this program's names, or a folder with those of transformers.
        #[arg(long, value_enum, default_value_t = Format::Pipezero)]
        format: Format,
        /// Bytes of a file in the folder, at most, such as 200KB; a larger tensor has a file of its own. For --format hf [default: 5GB]
        #[arg(long, value_name = "BYTES", value_parser = byte_size)]
        file_bytes: Option<u64>,
        /// The type of the numbers in the folder; bf16 and f16 round to the nearest. For --format hf [default: f32]
        #[arg(long, value_enum)]
        dtype: Option<NumberType>,
    },
    /// Write the state of a checkpoint to another number of files, in the checkpoints of a new folder.
    Reshape {
        #[command(flatten)]
        which: Which,
        /// How many files, 65,536 at most.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
        files: u32,
        /// The new folder.
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
}

#[derive(Debug, Args)]
struct Which {
    /// A run directory, or the folder of one checkpoint.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// The step after which it was written [default: the newest]
    #[arg(long, value_name = "N", value_parser = whole::<u64>, allow_negative_numbers = true)]
    step: Option<u64>,
}

pub(super) fn run(args: &CheckpointArgs) -> Result<(), Failure> {
    match &args.command {
        Command::Inspect(which) => inspect(which),
        Command::Verify(which) => verify(which),
        Command::Export { which, out, format, file_bytes, dtype } => {
            match format {
                Format::Pipezero if file_bytes.is_some() => {
                    let error = "--file-bytes is for --format hf: the other format is one file";
                    return Err(Failure::Input(error.into()));
                }
                Format::Pipezero if dtype.is_some() => {
                    let error =
                        "--dtype is for --format hf: the other format is f32, as a run has its weights";
                    return Err(Failure::Input(error.into()));
                }
                Format::Pipezero => which.open()?.export(out)?,
                Format::Hf => {
                    let form = ExportForm {
                        file_bytes_max: file_bytes.unwrap_or(FILE_BYTES),
                        element: dtype.map_or(ExportType::F32, NumberType::element),
                    };
                    for lost in which.export_published(out, form)? {
                        note(terminal::fitted(&format!("warning: {lost}")));
                    }
                }
            }
            note(format_args!("wrote {}", out.display()));
            Ok(())
        }
        Command::Reshape { which, files, out } => {
            let reader = which.open()?;
            new_folder(out)?;
            let to = Checkpoints::of_run(out);
            reader.reshape(&to, *files as usize)?;
            note(format_args!("wrote {}", to.at(reader.manifest().position.step).display()));
            Ok(())
        }
    }
}

/// Makes a folder; not one that has anything: a run may be writing it.
fn new_folder(out: &Path) -> Result<(), Failure> {
    if RunDir::check(out, Claim::New).is_ok() && std::fs::create_dir_all(out).is_ok() {
        return Ok(());
    }
    let error = format!("{} exists, or cannot be made: name a new folder with --out", out.display());
    Err(Failure::Other(error.into()))
}

/// In what form weights are written.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// One safetensors file.
    Pipezero,
    /// config.json and safetensors files.
    Hf,
}

/// The type of the numbers of a folder for transformers.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum NumberType {
    F32,
    Bf16,
    F16,
}

impl NumberType {
    fn element(self) -> ExportType {
        match self {
            Self::F32 => ExportType::F32,
            Self::Bf16 => ExportType::Bf16,
            Self::F16 => ExportType::F16,
        }
    }
}

impl Which {
    fn open(&self) -> Result<CheckpointReader, CheckpointError> {
        Checkpoints::open(&self.directory, self.step)
    }

    /// Writes a folder for transformers: of the weights of a finished run where no checkpoint is as new, and of a checkpoint otherwise.
    /// Returns what of the model's folder could not be kept.
    fn export_published(&self, out: &Path, form: ExportForm) -> Result<Vec<String>, Failure> {
        // Before weights, which take longer to read.
        new_folder(out)?;
        let newest = if self.step.is_none() { RunDir::with_newest_weights(&self.directory)? } else { None };
        let run = RunDir::around(&self.directory);
        let lost = match newest {
            Some(run) => run.export_published(out, form)?,
            None => {
                let about = run.as_ref().map(RunDir::about_model).transpose();
                let about = about.map_err(CheckpointError::from)?.unwrap_or_default();
                self.open()?.export_published(out, &about, form)?
            }
        };
        run.map_or(Ok(()), |run| run.copy_tokenizer(out))?;
        Ok(lost)
    }
}

fn inspect(which: &Which) -> Result<(), Failure> {
    let mut text = others(&which.directory)?;
    let reader = match which.open() {
        Ok(reader) => reader,
        Err(error) => {
            print(text)?;
            return Err(error.into());
        }
    };
    let manifest = reader.manifest();
    let num_parameters: usize = manifest.parameters.iter().map(|parameter| parameter.num_elements()).sum();
    let num_bytes = manifest.files.iter().map(|file| file.num_bytes).sum();
    let [pipeline, data] = manifest.grid;
    let of = |key: &str| manifest.run.pointer(key).map(|value| value.to_string().replace('"', ""));
    let rows = [
        (
            "step",
            format!(
                "{} ({} updates, {} sequences)",
                manifest.position.step, manifest.position.update, manifest.position.num_samples
            ),
        ),
        ("written by", format!("pipezero {} on pipeline {pipeline} x data {data}", manifest.program)),
        (
            "model",
            format!(
                "{} parameters in {}",
                count(num_parameters as u64),
                counted(manifest.parameters.len(), "tensor")
            ),
        ),
        ("of each", of_each(manifest)),
        ("precision", of("/precision").unwrap_or_else(|| "not said".to_owned())),
        ("loss scale", manifest.loss_scale.map_or("none".to_owned(), |of| of.scale.to_string())),
        ("files", format!("{}, {}", counted(manifest.files.len(), "file"), bytes(num_bytes))),
        ("folder", reader.folder().display().to_string()),
    ];
    for (name, value) in rows {
        text += &format!("{name:<11} {value}\n");
    }
    print(text)?;
    Ok(())
}

/// What is kept of each tensor.
fn of_each(manifest: &Manifest) -> String {
    let kinds = manifest.kinds.join(", ");
    match manifest.parameters.iter().filter(|parameter| parameter.is_frozen).count() {
        0 => kinds,
        num_frozen => {
            format!("{kinds}; of {} that are frozen, {}", counted(num_frozen, "tensor"), Piece::PARAMETER)
        }
    }
}

/// The checkpoints of a run directory, if it is one.
fn others(directory: &Path) -> Result<String, Failure> {
    let checkpoints = Checkpoints::of_run(directory);
    let steps = checkpoints.steps()?;
    if steps.is_empty() {
        return Ok(String::new());
    }
    let mut table = Table::new(["checkpoint", "bytes", "headers"]);
    let mut faults = String::new();
    for step in steps {
        let found = CheckpointReader::open(&checkpoints.at(step));
        let cells = match &found {
            Ok(reader) => {
                let Manifest { files, .. } = reader.manifest();
                [bytes(files.iter().map(|file| file.num_bytes).sum()), "sound".to_owned()]
            }
            Err(error) => {
                faults += &terminal::fitted(&format!("{error}"));
                faults.push('\n');
                [String::new(), "not sound".to_owned()]
            }
        };
        table.row(step.to_string(), cells);
    }
    Ok(format!("{table:width$}{faults}\n", width = terminal::width()))
}

fn verify(which: &Which) -> Result<(), Failure> {
    let start = Instant::now();
    let reader = which.open()?;
    reader.verify()?;
    let num_bytes = reader.manifest().files.iter().map(|file| file.num_bytes).sum();
    print(format_args!(
        "{}: sound, {} in {} read in {:.1} s\n",
        reader.folder().display(),
        bytes(num_bytes),
        counted(reader.manifest().files.len(), "file"),
        start.elapsed().as_secs_f64()
    ))?;
    Ok(())
}
