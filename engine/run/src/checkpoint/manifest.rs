//! What a checkpoint says of itself: how far the run was, what was kept, and all of its files.

use std::io;
use std::path::Path;

use pipezero_files::input::{InputError, read_text};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::blocks::{DIGITS, checksum, num_blocks};
use super::error::CheckpointError;
use super::folder_name::step_of;
use super::piece::Piece;
use crate::optimizer::LossScale;

/// A checkpoint's table of contents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The format's version.
    pub(crate) version: u64,
    /// The version of the program that wrote it.
    pub program: String,
    /// How far the run was.
    pub position: Position,
    /// The state of the loss scale, in fp16.
    pub loss_scale: Option<LossScale>,
    /// The checksum of the training text; none of a run without text.
    pub text_checksum: Option<String>,
    /// Which start of the run wrote it; none of a run whose starts are not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<u64>,
    /// The grid that wrote it: pipeline ranks and data ranks.
    pub grid: [usize; 2],
    /// What is kept of each parameter: itself, and unless it is frozen the optimizer's states.
    pub kinds: Vec<String>,
    /// Which of the folders this is, where not all hosts share one; else 0.
    pub place: usize,
    /// All parameters of the model.
    pub parameters: Vec<ParameterRecord>,
    /// The files with their elements, by rank.
    pub files: Vec<FileRecord>,
    /// The run file as it ran.
    pub run: Value,
}

/// How far a run was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Position {
    /// Steps done.
    pub step: u64,
    /// Steps done that did not overflow.
    pub update: u64,
    /// Sequences that the run has read.
    pub num_samples: u64,
}

/// A parameter of the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParameterRecord {
    /// Its name.
    pub name: String,
    /// The shape of the whole parameter.
    pub shape: Vec<usize>,
    /// Whether it was not trained, and so has no state of the optimizer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_frozen: bool,
}

impl ParameterRecord {
    /// Number of its elements.
    pub fn num_elements(&self) -> usize {
        self.shape.iter().product()
    }
}

/// A file of elements.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileRecord {
    /// Its name in the checkpoint's folder.
    pub name: String,
    /// Its length.
    pub num_bytes: u64,
    /// The checksum of its header, its length included.
    pub header_checksum: String,
    /// Which of the folders has it, where not all hosts share one; else 0.
    pub place: usize,
    /// The host of that folder, where not all hosts share one.
    pub host: Option<String>,
}

/// What no count of steps, sequences or elements reaches: 2^53, which every reader of JSON has exactly.
const COUNT_MAX: u64 = 1 << 53;

/// The most kinds of tensors for a parameter: the parameter itself, and the optimizer's states, of which AdamW has two.
const KINDS_MAX: usize = 16;

impl Manifest {
    /// The name of its file.
    pub const FILE: &str = "manifest.json";
    /// The version that is written and read.
    const VERSION: u64 = 1;
    /// No manifest of a model that fits anywhere is longer.
    const BYTES_MAX: u64 = 256 << 20;
    /// The key of the fields' checksums.
    const CHECKSUMS: &str = "checksums";

    /// Of this program, and empty.
    pub fn new(position: Position) -> Self {
        Self {
            version: Self::VERSION,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            position,
            loss_scale: None,
            text_checksum: None,
            start: None,
            grid: [0, 0],
            kinds: Vec::new(),
            place: 0,
            parameters: Vec::new(),
            files: Vec::new(),
            run: Value::Null,
        }
    }

    /// What is kept of a parameter.
    pub(super) fn kinds_of(&self, parameter: &ParameterRecord) -> impl Iterator<Item = &String> {
        let is_frozen = parameter.is_frozen;
        self.kinds.iter().filter(move |kind| !is_frozen || *kind == Piece::PARAMETER)
    }

    /// Bytes of the header of a file at most, given what the manifest lists: some for each piece, and the checksum of each block.
    pub(super) fn header_bytes_max(&self, file: &FileRecord) -> u64 {
        /// Bytes of a piece beside its name, and pieces of a parameter and kind in one file, both with room to spare.
        const OF_PIECE: u64 = 512;
        const PIECES: u64 = 4;
        let blocks = (num_blocks(file.num_bytes) * DIGITS) as u64;
        // A character may be escaped, as six.
        let of_name = |parameter: &ParameterRecord| OF_PIECE + 6 * parameter.name.len() as u64;
        let of_kind = |kind: &String| {
            let of_parameters = self.parameters.iter().map(of_name).sum::<u64>();
            of_parameters + 6 * (kind.len() * self.parameters.len()) as u64
        };
        4096 + blocks + PIECES * self.kinds.iter().map(of_kind).sum::<u64>()
    }

    /// Refuses what no run writes, and what could not be counted.
    fn check(&self) -> Result<(), String> {
        let Position { step, update, num_samples } = self.position;
        if step > COUNT_MAX || update > step || num_samples > COUNT_MAX {
            return Err(format!("its position is step {step}, {update} updates, {num_samples} sequences"));
        }
        let mut num_elements = Some(0_usize);
        for ParameterRecord { shape, .. } in &self.parameters {
            let num = shape.iter().try_fold(1_usize, |product, &size| product.checked_mul(size));
            num_elements = num_elements.zip(num).and_then(|(sum, num)| sum.checked_add(num));
        }
        // Bytes of all of them can be counted too, in f32 and with the optimizer's states.
        if num_elements.is_none_or(|num| num as u64 > COUNT_MAX) {
            return Err("its parameters have more elements than can be counted".to_owned());
        }
        if self.kinds.len() > KINDS_MAX {
            return Err(format!(
                "it has {} kinds, and at most {KINDS_MAX} are kept of a parameter",
                self.kinds.len()
            ));
        }
        if !self.kinds.iter().any(|kind| kind == Piece::PARAMETER) {
            return Err(format!("it has no `{}` among its kinds", Piece::PARAMETER));
        }
        let is_plain = |name: &str| Path::new(name).file_name().is_some_and(|plain| plain == name);
        if let Some(file) = self.files.iter().find(|file| !is_plain(&file.name)) {
            return Err(format!("its file `{}` is not a name", file.name));
        }
        Ok(())
    }

    /// Its text, with a checksum of each field.
    pub(super) fn text(&self) -> String {
        let Ok(Value::Object(mut fields)) = serde_json::to_value(self) else {
            unreachable!("a manifest is an object")
        };
        let checksums = fields.iter().map(|(name, value)| (name.clone(), checksum_of(value).into()));
        let checksums: Map<String, Value> = checksums.collect();
        fields.insert(Self::CHECKSUMS.to_owned(), checksums.into());
        serde_json::to_string_pretty(&fields).expect("a manifest has string keys and finite depth")
    }

    /// Reads the manifest in a checkpoint's folder.
    pub(super) fn read(folder: &Path) -> Result<Self, CheckpointError> {
        let path = folder.join(Self::FILE);
        let damaged = |reason: String| CheckpointError::damaged(&path, reason);
        let text = read_text(&path, Self::BYTES_MAX).map_err(|error| match error {
            error if error.is_missing() && !folder.exists() => CheckpointError::Missing(folder.to_owned()),
            InputError::Io(source) if source.kind() != io::ErrorKind::NotFound => {
                CheckpointError::io(&path)(source)
            }
            error => damaged(error.to_string()),
        })?;
        let mut fields: Map<String, Value> =
            serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
        let Some(Value::Object(checksums)) = fields.remove(Self::CHECKSUMS) else {
            return Err(damaged(format!("it has no `{}`", Self::CHECKSUMS)));
        };
        if let Some(name) = checksums.keys().find(|name| !fields.contains_key(*name)) {
            return Err(damaged(format!("it has a checksum of `{name}` and no `{name}`")));
        }
        for (name, value) in &fields {
            match checksums.get(name) {
                None => return Err(damaged(format!("it has no checksum of `{name}`"))),
                Some(Value::String(written)) if *written == checksum_of(value) => {}
                Some(_) => return Err(damaged(format!("`{name}` does not match its checksum"))),
            }
        }
        if let Some(found) = fields.get("version").and_then(Value::as_u64)
            && found != Self::VERSION
        {
            return Err(CheckpointError::Version { path, found, known: Self::VERSION });
        }
        let manifest: Self =
            serde_json::from_value(Value::Object(fields)).map_err(|error| damaged(error.to_string()))?;
        manifest.check().map_err(&damaged)?;
        // A key that comes twice is seen by nothing else.
        if manifest.text() != text {
            return Err(damaged("it is not as it was written".to_owned()));
        }
        let (named, step) = (folder.file_name().and_then(|name| name.to_str()), manifest.position.step);
        match named.and_then(step_of).filter(|&named| named != step) {
            Some(named) => {
                Err(damaged(format!("it is of step {step}, and its folder is named after step {named}")))
            }
            None => Ok(manifest),
        }
    }
}

fn checksum_of(value: &Value) -> String {
    checksum(serde_json::to_string(value).expect("a value has string keys and finite depth").as_bytes())
}
