//! What a checkpoint says of itself: how far the run was, what was kept, and all of its files.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::blocks::checksum;
use super::error::CheckpointError;
use crate::files::input::read_text;
use crate::run::optimizer::LossScale;

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
    /// The grid that wrote it: pipeline ranks and data ranks.
    pub grid: [usize; 2],
    /// What is kept of each parameter: itself, and the optimizer's states.
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
            grid: [0, 0],
            kinds: Vec::new(),
            place: 0,
            parameters: Vec::new(),
            files: Vec::new(),
            run: Value::Null,
        }
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
        let text = read_text(&path, Self::BYTES_MAX).map_err(|error| damaged(error.to_string()))?;
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
        let is_countable = |of: &&ParameterRecord| {
            of.shape.iter().try_fold(1_usize, |product, &size| product.checked_mul(size)).is_some()
        };
        match manifest.parameters.iter().find(|of| !is_countable(of)) {
            Some(ParameterRecord { name, shape }) => {
                Err(damaged(format!("its `{name}` of {shape:?} has more elements than can be counted")))
            }
            None => Ok(manifest),
        }
    }
}

fn checksum_of(value: &Value) -> String {
    checksum(serde_json::to_string(value).expect("a value has string keys and finite depth").as_bytes())
}
