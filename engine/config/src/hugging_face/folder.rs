//! The tensors of a folder: one safetensors file, or several with an index.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use half::{bf16, f16};
use pipezero_files::opened::open_regular;
use pipezero_files::safetensors::{Header, HeaderError};
use pipezero_models::ElementType;
use safetensors::tensor::{Dtype, TensorInfo};

use super::config_json::PublishedModel;
use super::error::HuggingFaceError;
use super::files::{FILE, Files, INDEX};
use super::fit::Fit;
use super::other_tensors::OtherTensors;
use super::tensors::{HEAD, Layout, POSITIONS, Part, parts_of};
use super::unused::Unused;

/// Tensors of a folder that agree with a model: each parameter's elements can be read, in any range.
#[derive(Debug)]
pub struct PublishedWeights {
    paths: Vec<PathBuf>,
    parameters: HashMap<String, Vec<Piece>>,
    unused: Vec<Unused>,
}

/// Consecutive elements of a parameter in a file.
#[derive(Debug)]
struct Piece {
    part: Part,
    /// The tensor's name in the file.
    tensor: String,
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
    /// Opens the tensors of a folder, for these parameters of a model: names and shapes. They are all of the folder's model, unless
    /// the two may differ.
    ///
    /// # Errors
    /// When files are missing or damaged, or do not have the tensors of these parameters; or have others, where the two may not differ.
    pub fn open<'a>(
        folder: &Path,
        model: &PublishedModel,
        parameters: impl Iterator<Item = (&'a str, &'a [usize])>,
        fit: Fit,
    ) -> Result<Self, HuggingFaceError> {
        let Files { named, paths, index, mut unused } = Files::of(folder)?;
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
        for (name, path) in index {
            if tensors.get(&name).is_none_or(|(stored, _)| paths[stored.file] != path) {
                let reason =
                    format!("it has no tensor `{name}`, and {INDEX} says that it has; download both again");
                return Err(HuggingFaceError::tensors(&path, reason));
            }
        }
        let mut opened = Opened { named, model, tensors, taken: HashSet::new(), unused: Vec::new(), fit };
        let parameters: HashMap<_, _> = parameters
            .map(|(name, shape)| Ok((name.to_owned(), opened.pieces(name, shape)?)))
            .collect::<Result<_, HuggingFaceError>>()?;
        opened.check_head(&paths)?;
        let Opened { named, tensors, taken, unused: unused_parts, .. } = opened;
        unused.extend(unused_parts);
        let left = tensors.keys().map(String::as_str).filter(|name| !taken.contains(*name));
        unused.extend(OtherTensors { model, taken: &taken, fit }.unused(left, &named)?);
        Ok(Self { paths, parameters, unused })
    }

    /// What the folder's files hold and the model does not use.
    pub fn unused(&self) -> &[Unused] {
        &self.unused
    }

    /// The files that are read.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Whether a folder has weights.
    pub fn are_in(folder: &Path) -> bool {
        folder.join(FILE).is_file() || folder.join(INDEX).is_file()
    }

    /// Reads elements of a parameter, from its element `first` on, as f32. Returns how many bytes of the files that took.
    ///
    /// # Errors
    /// The file that could not be read, and the system's error.
    ///
    /// # Panics
    /// If the model has no such elements.
    pub fn read(&self, name: &str, first: usize, values: &mut [f32]) -> Result<u64, (PathBuf, io::Error)> {
        let (wanted, mut start, mut num_bytes) = (first..first + values.len(), 0, 0);
        for Piece { part, stored, .. } in &self.parameters[name] {
            let range = start..start + part.len();
            let common = range.start.max(wanted.start)..range.end.min(wanted.end);
            if common.start < common.end {
                let values = &mut values[common.start - first..common.end - first];
                let inside = common.start - start..common.end - start;
                let path = &self.paths[stored.file];
                num_bytes +=
                    stored.read(path, part, inside, values).map_err(|error| (path.clone(), error))?;
            }
            start = range.end;
        }
        assert!(wanted.end <= start, "{name} has {start} elements, and {wanted:?} are asked for");
        Ok(num_bytes)
    }

    /// The types of the tensors that are read, each once.
    pub fn stored_types(&self) -> Vec<ElementType> {
        let is_there = |element: &ElementType| {
            self.parameters.values().flatten().any(|piece| piece.stored.element_type() == *element)
        };
        [ElementType::Bf16, ElementType::F16, ElementType::F32].into_iter().filter(is_there).collect()
    }
}

impl PublishedWeights {
    /// Where an element of a parameter lies: the file, the tensor's name there, and the element's index by dimension of the tensor.
    ///
    /// # Panics
    /// If the model has no such element.
    pub fn place(&self, name: &str, element: usize) -> (&Path, &str, Vec<usize>) {
        let mut rest = element;
        for Piece { part, tensor, stored } in &self.parameters[name] {
            if rest < part.len() {
                return (&self.paths[stored.file], tensor, part.index_of(rest));
            }
            rest -= part.len();
        }
        unreachable!("`{name}` has fewer elements than {element}")
    }
}

/// Tensors, and which of them are parameters.
struct Opened<'a> {
    named: PathBuf,
    model: &'a PublishedModel,
    tensors: HashMap<String, (Stored, Vec<usize>)>,
    taken: HashSet<String>,
    unused: Vec<Unused>,
    fit: Fit,
}

impl Opened<'_> {
    /// What stands before the names: the whole model's name for its body, unless the body alone was saved.
    fn prefix(&self) -> &'static str {
        let prefix = self.model.prefix();
        if self.tensors.keys().any(|name| name.starts_with(prefix)) { prefix } else { "" }
    }

    fn pieces(&mut self, name: &str, shape: &[usize]) -> Result<Vec<Piece>, HuggingFaceError> {
        let Some(parts) = parts_of(self.model, name) else {
            let reason = format!("its model has no parameter `{name}`{}", self.fit.unless_new(name));
            return Err(HuggingFaceError::tensors(&self.named, reason));
        };
        let prefix = self.prefix();
        let num_needed: usize = shape.iter().product();
        let num_held: usize = parts.iter().map(Part::len).sum();
        // Positions beyond the run's sequences are not read.
        let is_longer = name == POSITIONS && num_held > num_needed && parts[0].shape[1..] == shape[1..];
        if num_held != num_needed && !is_longer {
            let reason = format!(
                "its `{name}` has {num_held} elements, and the run's has {num_needed} ({shape:?}){}",
                self.fit.unless_new(name)
            );
            return Err(HuggingFaceError::tensors(&self.named, reason));
        }
        let mut pieces = Vec::with_capacity(parts.len());
        for part in parts {
            let tensor = part.file_name(prefix);
            let wrong = |reason| Err(HuggingFaceError::tensors(&self.named, reason));
            let Some((stored, found)) = self.tensors.get(&tensor) else {
                if tensor == HEAD && self.model.tie_is_written {
                    return wrong(format!(
                        "it has no tensor `{HEAD}`, which `model.tie_embeddings` false needs; write true, or remove the key"
                    ));
                }
                let unless_new =
                    if self.fit.may_differ() { self.fit.unless_new(name) } else { String::new() };
                return wrong(format!(
                    "it has no tensor `{tensor}`, which the model of config.json needs{unless_new}"
                ));
            };
            if *found != part.shape {
                return wrong(format!("`{tensor}` is {found:?}, and config.json says {:?}", part.shape));
            }
            if !matches!(stored.element, Dtype::F32 | Dtype::F16 | Dtype::BF16) {
                return wrong(format!("`{tensor}` is {:?}: only F32, F16 and BF16 are read", stored.element));
            }
            let num_elements = part.len();
            pieces.push(Piece { part, tensor: tensor.clone(), stored: *stored });
            // Only a table of positions may be longer in the file.
            if num_elements > num_needed {
                let (num_rows, width) = (found[0], shape[1..].iter().product::<usize>());
                let rows = format!("`{tensor}` from position {} to {}", num_needed / width, num_rows - 1);
                self.unused.push(Unused::new(rows, "`model.seq_length` is shorter; an export keeps them"));
            }
            self.taken.insert(tensor);
        }
        Ok(pieces)
    }

    /// Compares the head of a file with the embedding where the model ties them. Where they differ, the folder can be read in two ways, of
    /// which the run file chooses one.
    fn check_head(&mut self, paths: &[PathBuf]) -> Result<(), HuggingFaceError> {
        let is_tied = self.model.model.gpt().is_some_and(|gpt| gpt.tie_embeddings);
        let Some((head, shape)) = self.tensors.get(HEAD).filter(|_| is_tied) else { return Ok(()) };
        let Some(embedding) =
            parts_of(self.model, "wte.weight").map(|parts| parts[0].file_name(self.prefix()))
        else {
            return Ok(());
        };
        let Some((table, table_shape)) = self.tensors.get(&embedding) else { return Ok(()) };
        let is_equal = shape == table_shape
            && head
                .holds_what(*table, shape.iter().product(), paths)
                .map_err(|(path, error)| HuggingFaceError::io(&path)(error))?;
        self.taken.insert(HEAD.to_owned());
        if is_equal {
            return Ok(());
        }
        if self.model.tie_is_written {
            let reason = format!("it differs from `{embedding}`, and `model.tie_embeddings` true drops it");
            self.unused.push(Unused::new(format!("`{HEAD}`"), reason));
            return Ok(());
        }
        let reason = format!(
            "`{HEAD}` differs from `{embedding}`, and config.json ties them (`tie_word_embeddings`): transformers 4 drops the \
             head, transformers 5 keeps the head as the file has it; write `model.tie_embeddings` into the run file, true to drop it or \
             false to keep it"
        );
        Err(HuggingFaceError::tensors(&self.named, reason))
    }
}

impl Stored {
    /// Reads elements of the part of a parameter that the tensor is, in the parameter's order. Returns how many bytes that took.
    fn read(self, path: &Path, part: &Part, range: Range<usize>, values: &mut [f32]) -> io::Result<u64> {
        let file = open_regular(path)?;
        if part.layout == Layout::Same {
            return self.read_run(&file, range.start, values);
        }
        let [num_inputs, num_outputs] = part.shape[..] else {
            unreachable!("a transposed tensor is a matrix")
        };
        // The outputs that the range touches: a few elements of each of the tensor's rows.
        let outputs = range.start / num_inputs..range.end.div_ceil(num_inputs);
        let mut row = vec![0.0; outputs.len()];
        let mut num_bytes = 0;
        for input in 0..num_inputs {
            num_bytes += self.read_run(&file, input * num_outputs + outputs.start, &mut row)?;
            for (output, value) in outputs.clone().zip(&row) {
                let element = output * num_inputs + input;
                if range.contains(&element) {
                    values[element - range.start] = *value;
                }
            }
        }
        Ok(num_bytes)
    }

    /// The type of its elements: one that is read.
    fn element_type(self) -> ElementType {
        match self.element {
            Dtype::F16 => ElementType::F16,
            Dtype::BF16 => ElementType::Bf16,
            _ => ElementType::F32,
        }
    }

    /// Whether two tensors have the same values, to the bit once they are f32.
    fn holds_what(
        self,
        other: Self,
        num_elements: usize,
        paths: &[PathBuf],
    ) -> Result<bool, (PathBuf, io::Error)> {
        const ELEMENTS_AT_ONCE: usize = 1 << 18;
        if ![self, other].iter().all(|stored| matches!(stored.element, Dtype::F32 | Dtype::F16 | Dtype::BF16))
        {
            return Ok(false);
        }
        let open = |stored: Self| {
            let path = &paths[stored.file];
            open_regular(path).map_err(|error| (path.clone(), error))
        };
        let files = [(self, open(self)?), (other, open(other)?)];
        for first in (0..num_elements).step_by(ELEMENTS_AT_ONCE) {
            let mut values = [(); 2].map(|()| vec![0.0; ELEMENTS_AT_ONCE.min(num_elements - first)]);
            for ((stored, file), values) in files.iter().zip(&mut values) {
                let read = stored.read_run(file, first, values);
                read.map_err(|error| (paths[stored.file].clone(), error))?;
            }
            let [ours, theirs] = values;
            if ours.iter().zip(&theirs).any(|(ours, theirs)| ours.to_bits() != theirs.to_bits()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads elements of the tensor that follow each other. Returns how many bytes they have.
    fn read_run(self, file: &File, first: usize, values: &mut [f32]) -> io::Result<u64> {
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
        Ok(bytes.len() as u64)
    }
}
