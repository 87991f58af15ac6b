//! Writes a folder that transformers reads.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use pipezero_files::partial::{Existing, PartialFile};
use pipezero_files::safetensors::f32_header;
use serde_json::json;

use super::config_json::{PublishedModel, SpecialTokens};
use super::error::HuggingFaceError;
use super::folder::{FILE, INDEX};
use super::tensors::{Layout, Part, parts_of};

/// Elements that are read at once, where a tensor lies as the parameter does.
const ELEMENTS_AT_ONCE: usize = 1 << 18;

/// A tensor of a file, and where its elements are in a parameter.
struct Tensor<'a> {
    name: String,
    part: Part,
    parameter: &'a str,
    first: usize,
}

impl Tensor<'_> {
    fn num_bytes(&self) -> u64 {
        4 * self.part.len() as u64
    }
}

impl PublishedModel {
    /// Writes the weights, in f32, to a folder that exists: files of at most `file_bytes_max` where no tensor alone is larger, with an
    /// index where they are several, and at last config.json with these tokens. `parameters` are names and shapes, and `read` reads elements of
    /// a parameter from its element `first` on.
    ///
    /// # Errors
    /// When a file cannot be written, and what `read` says.
    pub fn export<'a, E: From<HuggingFaceError>>(
        &self,
        folder: &Path,
        tokens: SpecialTokens,
        file_bytes_max: u64,
        parameters: impl Iterator<Item = &'a str>,
        mut read: impl FnMut(&str, usize, &mut [f32]) -> Result<(), E>,
    ) -> Result<(), E> {
        let files = files_of(self.tensors(parameters), file_bytes_max);
        let name = |index: usize| match files.len() {
            1 => FILE.to_owned(),
            num_files => format!("model-{:05}-of-{num_files:05}.safetensors", index + 1),
        };
        let mut weight_map = serde_json::Map::new();
        for (index, tensors) in files.iter().enumerate() {
            write_file(&folder.join(name(index)), tensors, &mut read)?;
            weight_map.extend(tensors.iter().map(|tensor| (tensor.name.clone(), json!(name(index)))));
        }
        if files.len() > 1 {
            let total_size: u64 = files.iter().flatten().map(Tensor::num_bytes).sum();
            let index = json!({"metadata": {"total_size": total_size}, "weight_map": weight_map});
            write_text(&folder.join(INDEX), &format!("{index:#}\n"))?;
        }
        write_text(&folder.join(Self::FILE), &self.config_json(tokens))?;
        Ok(())
    }

    /// The tensors of these parameters, in their order.
    fn tensors<'a>(&self, parameters: impl Iterator<Item = &'a str>) -> Vec<Tensor<'a>> {
        let mut tensors = Vec::new();
        for parameter in parameters {
            let mut first = 0;
            for part in parts_of(self, parameter) {
                let (name, len) = (part.file_name(self.prefix()), part.len());
                tensors.push(Tensor { name, part, parameter, first });
                first += len;
            }
        }
        tensors
    }
}

/// Tensors file by file, as many as fit.
fn files_of(tensors: Vec<Tensor<'_>>, file_bytes_max: u64) -> Vec<Vec<Tensor<'_>>> {
    let mut files = vec![Vec::new()];
    let mut num_bytes = 0;
    for tensor in tensors {
        if num_bytes > 0 && num_bytes + tensor.num_bytes() > file_bytes_max {
            files.push(Vec::new());
            num_bytes = 0;
        }
        num_bytes += tensor.num_bytes();
        files.last_mut().expect("there is one").push(tensor);
    }
    files
}

fn write_file<E: From<HuggingFaceError>>(
    path: &Path,
    tensors: &[Tensor<'_>],
    read: &mut impl FnMut(&str, usize, &mut [f32]) -> Result<(), E>,
) -> Result<(), E> {
    let io = HuggingFaceError::io(path);
    let mut partial = PartialFile::create(path, Existing::Kept).map_err(&io)?;
    let mut file = BufWriter::new(partial.file().try_clone().map_err(&io)?);
    let header =
        f32_header(tensors.iter().map(|tensor| (&*tensor.name, &*tensor.part.shape))).map_err(&io)?;
    file.write_all(&header).map_err(&io)?;
    let mut values = Vec::new();
    for Tensor { part, parameter, first, .. } in tensors {
        if part.layout == Layout::Transposed {
            let [num_inputs, num_outputs] = part.shape[..] else {
                unreachable!("a transposed tensor is a matrix")
            };
            values.resize(part.len(), 0.0);
            read(parameter, *first, &mut values)?;
            for input in 0..num_inputs {
                let row = (0..num_outputs).map(|output| values[output * num_inputs + input]);
                write_values(&mut file, row).map_err(&io)?;
            }
            continue;
        }
        for start in (0..part.len()).step_by(ELEMENTS_AT_ONCE) {
            values.resize(ELEMENTS_AT_ONCE.min(part.len() - start), 0.0);
            read(parameter, first + start, &mut values)?;
            write_values(&mut file, values.iter().copied()).map_err(&io)?;
        }
    }
    let file: File = file.into_inner().map_err(|error| io(error.into_error()))?;
    file.sync_all().map_err(&io)?;
    Ok(partial.finish().map_err(&io)?)
}

fn write_values(file: &mut impl Write, mut values: impl Iterator<Item = f32>) -> io::Result<()> {
    values.try_for_each(|value| file.write_all(&value.to_le_bytes()))
}

fn write_text(path: &Path, text: &str) -> Result<(), HuggingFaceError> {
    let written = PartialFile::create(path, Existing::Kept).and_then(|file| file.finish_with(text));
    written.map_err(HuggingFaceError::io(path))
}
