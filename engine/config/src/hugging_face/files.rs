//! The files of a folder that hold the weights: one, or several with an index.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use pipezero_files::input::read_text;
use pipezero_files::json::{Source, Span, Value, parse_first};

use super::error::HuggingFaceError;
use super::unused::Unused;

/// Name of the only file.
pub(super) const FILE: &str = "model.safetensors";
/// Name of the index of several files.
pub(super) const INDEX: &str = "model.safetensors.index.json";
/// Bytes of an index at most: a line of some hundred bytes for each tensor.
const INDEX_BYTES_MAX: u64 = 64 << 20;

/// Files that PEFT reads: transformers then loads an adapter on top of the weights, or of other ones.
const OF_ADAPTER: [&str; 3] = ["adapter_config.json", "adapter_model.safetensors", "adapter_model.bin"];

/// How files with weights for other loaders begin.
const OF_OTHER_LOADERS: [&str; 4] = ["pytorch_model", "tf_model.h5", "flax_model.msgpack", "rust_model.ot"];

/// The files of a folder.
pub(super) struct Files {
    /// The file that messages name: an index, or the only file.
    pub(super) named: PathBuf,
    /// Those that are read.
    pub(super) paths: Vec<PathBuf>,
    /// Tensors and the file of each, if there is an index.
    pub(super) index: Vec<(String, PathBuf)>,
    /// Other files with weights, which are not read.
    pub(super) unused: Vec<Unused>,
}

impl Files {
    /// Those of a folder.
    ///
    /// # Errors
    /// When there are none, when the index is damaged, or when an adapter lies beside them.
    pub(super) fn of(folder: &Path) -> Result<Self, HuggingFaceError> {
        let (only, index) = (folder.join(FILE), folder.join(INDEX));
        for name in OF_ADAPTER {
            let path = folder.join(name);
            if path.exists() {
                let reason = "it belongs to an adapter, which is not read: merge it into the model with PEFT's `merge_and_unload`, and save that \
                              with `save_pretrained`";
                return Err(HuggingFaceError::unreadable(&path, reason));
            }
        }
        // transformers takes the only file where both are there.
        if only.exists() {
            let (paths, why) = (vec![only.clone()], format!("{FILE} is read"));
            let unused = others(folder, &paths, &why);
            return Ok(Self { named: only, paths, index: Vec::new(), unused });
        }
        if !index.exists() {
            let reason = format!(
                "there is neither this file nor {INDEX}; write the model's weights with `save_pretrained`, which makes one of them"
            );
            return Err(HuggingFaceError::unreadable(&only, reason));
        }
        let tensors = read_index(&index)?;
        let tensors: Vec<_> = tensors.into_iter().map(|(name, file)| (name, folder.join(file))).collect();
        let mut paths: Vec<PathBuf> = tensors.iter().map(|(_, path)| path.clone()).collect();
        paths.sort_unstable();
        paths.dedup();
        let unused = others(folder, &paths, &format!("{INDEX} does not name it"));
        Ok(Self { named: index, paths, index: tensors, unused })
    }
}

/// Tensors and the names of their files.
fn read_index(index: &Path) -> Result<Vec<(String, String)>, HuggingFaceError> {
    let text =
        read_text(index, INDEX_BYTES_MAX).map_err(|error| HuggingFaceError::unreadable(index, error))?;
    let source = Source::file(&index.display().to_string(), &text);
    let config = |place: &Span, message: String| HuggingFaceError::config(place, message);
    let root = parse_first(&source).map_err(|error| config(&error.span, error.to_string()))?;
    let Some(map) = root.find("weight_map") else {
        return Err(config(
            &root.span,
            "`weight_map` is missing: it says which file has which tensor".to_owned(),
        ));
    };
    let Value::Object(entries) = &map.value else {
        return Err(config(&map.span, format!("`weight_map` is {}, and must be an object", map.describe())));
    };
    let of = |entry: &pipezero_files::json::Entry| match &entry.node.value {
        // A name alone: an index must not lead out of its folder.
        Value::String(name) if Path::new(name).file_name().is_some_and(|own| own == name.as_str()) => {
            Ok((entry.key.clone(), name.clone()))
        }
        _ => {
            let message = format!("{} must be the name of a file beside the index", entry.node.describe());
            Err(config(&entry.node.span, message))
        }
    };
    entries.iter().map(of).collect()
}

/// Files with weights that are not read.
fn others(folder: &Path, read: &[PathBuf], why: &str) -> Vec<Unused> {
    /// Entries of a folder that are looked at: published ones have some hundreds.
    const ENTRIES_MAX: usize = 10_000;
    let Ok(entries) = folder.read_dir() else { return Vec::new() };
    let read: HashSet<&OsStr> = read.iter().filter_map(|path| path.file_name()).collect();
    let mut names: Vec<String> =
        entries.take(ENTRIES_MAX).filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort_unstable();
    let of_weights = |name: &&String| {
        let is_read = read.contains(OsStr::new(name));
        let is_index = *name == INDEX && read.contains(OsStr::new(FILE));
        !is_read && (name.ends_with(".safetensors") || is_index)
    };
    let list = |names: Vec<String>, why: &str| {
        (!names.is_empty()).then(|| Unused::new(names.join(", "), why.to_owned()))
    };
    let quoted = |name: &String| format!("`{name}`");
    let safetensors: Vec<String> = names.iter().filter(of_weights).map(quoted).collect();
    let of_others = |name: &&String| OF_OTHER_LOADERS.iter().any(|start| name.starts_with(start));
    let for_others: Vec<String> = names.iter().filter(of_others).map(quoted).collect();
    let why_not = "weights are read from safetensors alone";
    list(safetensors, why).into_iter().chain(list(for_others, why_not)).collect()
}
