//! The tensors of a folder: one safetensors file, or several with an index.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use half::{bf16, f16};
use pipezero_files::input::read_text;
use pipezero_files::json::{Source, Span, Value, parse_first};
use pipezero_files::safetensors::{Header, HeaderError};
use safetensors::tensor::{Dtype, TensorInfo};

use super::config_json::PublishedModel;
use super::error::HuggingFaceError;
use super::tensors::{Layout, Part, parts_of};

/// Name of the only file.
pub(super) const FILE: &str = "model.safetensors";
/// Name of the index of several files.
pub(super) const INDEX: &str = "model.safetensors.index.json";
/// Bytes of an index at most: a line of some hundred bytes for each tensor.
const INDEX_BYTES_MAX: u64 = 64 << 20;

/// Tensors of a folder that agree with a model: each parameter's elements can be read, in any range.
#[derive(Debug)]
pub struct PublishedWeights {
    paths: Vec<PathBuf>,
    parameters: HashMap<String, Vec<Piece>>,
}

/// Consecutive elements of a parameter in a file.
#[derive(Debug)]
struct Piece {
    part: Part,
    stored: Stored,
}

/// Where a tensor lies.
#[derive(Clone, Copy, Debug)]
struct Stored {
    file: usize,
    element: Dtype,
    /// Its first byte in the file.
    start: u64,
}

impl PublishedWeights {
    /// Opens the tensors of a folder, for the parameters of a model: names and shapes.
    ///
    /// # Errors
    /// When files are missing or damaged, or do not have exactly the model's tensors.
    pub fn open<'a>(
        folder: &Path,
        model: &PublishedModel,
        parameters: impl Iterator<Item = (&'a str, &'a [usize])>,
    ) -> Result<Self, HuggingFaceError> {
        let (named, paths) = files(folder)?;
        let mut tensors: HashMap<String, (Stored, Vec<usize>)> = HashMap::new();
        for (file, path) in paths.iter().enumerate() {
            let header = Header::read(path).map_err(|error| match error {
                HeaderError::Io(error) if error.kind() == io::ErrorKind::NotFound => {
                    HuggingFaceError::tensors(
                        path,
                        format!("it is not there, and {INDEX} names it; download it again"),
                    )
                }
                HeaderError::Io(error) => HuggingFaceError::io(path)(error),
                HeaderError::Damaged(reason) => HuggingFaceError::tensors(path, reason),
            })?;
            for (name, info) in header.metadata.tensors() {
                let TensorInfo { dtype: element, ref shape, data_offsets: (start, _) } = *info;
                let stored = Stored { file, element, start: header.data_start + start as u64 };
                if tensors.insert(name.clone(), (stored, shape.clone())).is_some() {
                    return Err(HuggingFaceError::tensors(path, format!("`{name}` is in another file too")));
                }
            }
        }
        let mut opened = Opened { named, model, tensors, taken: HashSet::new() };
        let parameters = parameters
            .map(|(name, shape)| Ok((name.to_owned(), opened.pieces(name, shape)?)))
            .collect::<Result<_, HuggingFaceError>>()?;
        opened.finish()?;
        Ok(Self { paths, parameters })
    }

    /// Whether a folder has weights.
    pub fn are_in(folder: &Path) -> bool {
        folder.join(FILE).is_file() || folder.join(INDEX).is_file()
    }

    /// Reads elements of a parameter, from its element `first` on, as f32.
    ///
    /// # Errors
    /// The file that could not be read, and the system's error.
    ///
    /// # Panics
    /// If the model has no such elements.
    pub fn read(&self, name: &str, first: usize, values: &mut [f32]) -> Result<(), (PathBuf, io::Error)> {
        let (wanted, mut start) = (first..first + values.len(), 0);
        for Piece { part, stored } in &self.parameters[name] {
            let range = start..start + part.len();
            let common = range.start.max(wanted.start)..range.end.min(wanted.end);
            if common.start < common.end {
                let values = &mut values[common.start - first..common.end - first];
                let inside = common.start - start..common.end - start;
                let path = &self.paths[stored.file];
                stored.read(path, part, inside, values).map_err(|error| (path.clone(), error))?;
            }
            start = range.end;
        }
        assert!(wanted.end <= start, "{name} has {start} elements, and {wanted:?} are asked for");
        Ok(())
    }
}

/// What messages name, an index or the only file, and the files.
fn files(folder: &Path) -> Result<(PathBuf, Vec<PathBuf>), HuggingFaceError> {
    let (only, index) = (folder.join(FILE), folder.join(INDEX));
    // transformers takes the only file where both are there.
    if only.exists() {
        return Ok((only.clone(), vec![only]));
    }
    if !index.exists() {
        let reason = format!(
            "there is neither this file nor {INDEX}; write the model's weights with `save_pretrained`, which makes one of them"
        );
        return Err(HuggingFaceError::unreadable(&only, reason));
    }
    let text =
        read_text(&index, INDEX_BYTES_MAX).map_err(|error| HuggingFaceError::unreadable(&index, error))?;
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
    let mut names: Vec<&str> = Vec::new();
    for entry in entries {
        match &entry.node.value {
            // A name alone: an index must not lead out of its folder.
            Value::String(name) if Path::new(name).file_name().is_some_and(|own| own == name.as_str()) => {
                names.push(name);
            }
            _ => {
                let message =
                    format!("{} must be the name of a file beside the index", entry.node.describe());
                return Err(config(&entry.node.span, message));
            }
        }
    }
    names.sort_unstable();
    names.dedup();
    Ok((index, names.into_iter().map(|name| folder.join(name)).collect()))
}

/// Tensors, and which of them are parameters.
struct Opened<'a> {
    named: PathBuf,
    model: &'a PublishedModel,
    tensors: HashMap<String, (Stored, Vec<usize>)>,
    taken: HashSet<String>,
}

impl Opened<'_> {
    /// What stands before the names: the whole model's name for its body, unless the body alone was saved.
    fn prefix(&self) -> &'static str {
        let prefix = self.model.prefix();
        if self.tensors.keys().any(|name| name.starts_with(prefix)) { prefix } else { "" }
    }

    fn pieces(&mut self, name: &str, shape: &[usize]) -> Result<Vec<Piece>, HuggingFaceError> {
        let (prefix, parts) = (self.prefix(), parts_of(self.model, name));
        let num_needed: usize = shape.iter().product();
        // Positions beyond the run's sequences are not read.
        assert!(parts.iter().map(Part::len).sum::<usize>() >= num_needed, "{name}: {shape:?} and {parts:?}");
        let mut pieces = Vec::with_capacity(parts.len());
        for part in parts {
            let tensor = part.file_name(prefix);
            let wrong = |reason| Err(HuggingFaceError::tensors(&self.named, reason));
            let Some((stored, found)) = self.tensors.get(&tensor) else {
                return wrong(format!("it has no tensor `{tensor}`, which the model of config.json needs"));
            };
            if *found != part.shape {
                return wrong(format!("`{tensor}` is {found:?}, and config.json says {:?}", part.shape));
            }
            if !matches!(stored.element, Dtype::F32 | Dtype::F16 | Dtype::BF16) {
                return wrong(format!("`{tensor}` is {:?}: only F32, F16 and BF16 are read", stored.element));
            }
            pieces.push(Piece { part, stored: *stored });
            self.taken.insert(tensor);
        }
        Ok(pieces)
    }

    /// Refuses tensors that belong to no parameter, but for constants that older versions keep and a tied head's copy.
    fn finish(&self) -> Result<(), HuggingFaceError> {
        let is_tied = self.model.model.gpt().is_some_and(|gpt| gpt.tie_embeddings);
        let has_no_part = |name: &str| {
            let constants = [".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq"];
            constants.iter().any(|constant| name.ends_with(constant)) || (is_tied && name == "lm_head.weight")
        };
        let mut left: Vec<&String> =
            self.tensors.keys().filter(|name| !self.taken.contains(*name) && !has_no_part(name)).collect();
        left.sort_unstable();
        match left.first() {
            None => Ok(()),
            Some(name) => Err(HuggingFaceError::tensors(
                &self.named,
                format!("it has a tensor `{name}`, which the model of config.json has not"),
            )),
        }
    }
}

impl Stored {
    /// Reads elements of the part of a parameter that the tensor is, in the parameter's order.
    fn read(self, path: &Path, part: &Part, range: Range<usize>, values: &mut [f32]) -> io::Result<()> {
        let file = File::open(path)?;
        if part.layout == Layout::Same {
            return self.read_run(&file, range.start, values);
        }
        let [num_inputs, num_outputs] = part.shape[..] else {
            unreachable!("a transposed tensor is a matrix")
        };
        // The outputs that the range touches: a few elements of each of the tensor's rows.
        let outputs = range.start / num_inputs..range.end.div_ceil(num_inputs);
        let mut row = vec![0.0; outputs.len()];
        for input in 0..num_inputs {
            self.read_run(&file, input * num_outputs + outputs.start, &mut row)?;
            for (output, value) in outputs.clone().zip(&row) {
                let element = output * num_inputs + input;
                if range.contains(&element) {
                    values[element - range.start] = *value;
                }
            }
        }
        Ok(())
    }

    /// Reads elements of the tensor that follow each other.
    fn read_run(self, file: &File, first: usize, values: &mut [f32]) -> io::Result<()> {
        let size = if self.element == Dtype::F32 { 4 } else { 2 };
        let mut bytes = vec![0; size * values.len()];
        file.read_exact_at(&mut bytes, self.start + (size * first) as u64)?;
        let narrow = bytes.as_chunks::<2>().0.iter();
        match self.element {
            Dtype::F16 => values
                .iter_mut()
                .zip(narrow)
                .for_each(|(value, bytes)| *value = f16::from_le_bytes(*bytes).to_f32()),
            Dtype::BF16 => values
                .iter_mut()
                .zip(narrow)
                .for_each(|(value, bytes)| *value = bf16::from_le_bytes(*bytes).to_f32()),
            _ => {
                let wide = bytes.as_chunks::<4>().0.iter();
                values.iter_mut().zip(wide).for_each(|(value, bytes)| *value = f32::from_le_bytes(*bytes));
            }
        }
        Ok(())
    }
}
