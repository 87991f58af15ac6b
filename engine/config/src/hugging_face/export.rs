//! Writes a folder that transformers reads.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use half::{bf16, f16};
use pipezero_files::partial::{Existing, PartialFile};
use pipezero_files::safetensors::header_of;
use safetensors::tensor::Dtype;
use serde_json::json;

use super::config_json::{PublishedModel, SpecialTokens};
use super::error::HuggingFaceError;
use super::files::{FILE, INDEX};
use super::origin::Origin;
use super::tensors::{Layout, POSITIONS, Part, parts_of};

/// Elements that are read at once, where a tensor lies as the parameter does.
const ELEMENTS_AT_ONCE: usize = 1 << 18;

/// A tensor of a file, and where its elements are in a parameter.
struct Tensor<'a> {
    name: String,
    part: Part,
    parameter: &'a str,
    first: usize,
}

/// The type of the elements of an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExportType {
    /// 4 bytes: what a run trains, to the bit.
    #[default]
    F32,
    /// 2 bytes, the 8 upper bits of the mantissa: any f32, rounded.
    Bf16,
    /// 2 bytes: up to 65,504.
    F16,
}

impl ExportType {
    fn num_bytes(self) -> u64 {
        if self == Self::F32 { 4 } else { 2 }
    }

    fn dtype(self) -> Dtype {
        match self {
            Self::F32 => Dtype::F32,
            Self::Bf16 => Dtype::BF16,
            Self::F16 => Dtype::F16,
        }
    }

    /// As PyTorch calls it.
    fn name(self) -> &'static str {
        match self {
            Self::F32 => "float32",
            Self::Bf16 => "bfloat16",
            Self::F16 => "float16",
        }
    }

    /// Writes values, rounded to the nearest; of two as near, to the even one. Returns the first finite value that becomes infinite.
    fn write(self, file: &mut impl Write, values: impl Iterator<Item = f32>) -> io::Result<Option<f32>> {
        let mut beyond = None;
        for value in values {
            let rounded = match self {
                Self::F32 => {
                    file.write_all(&value.to_le_bytes())?;
                    value
                }
                Self::Bf16 => {
                    let narrow = bf16::from_f32(value);
                    file.write_all(&narrow.to_le_bytes())?;
                    narrow.to_f32()
                }
                Self::F16 => {
                    let narrow = f16::from_f32(value);
                    file.write_all(&narrow.to_le_bytes())?;
                    narrow.to_f32()
                }
            };
            if value.is_finite() && rounded.is_infinite() {
                beyond = beyond.or(Some(value));
            }
        }
        Ok(beyond)
    }
}

/// In what form weights are exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportForm {
    /// Bytes of a file at most, where no tensor alone is larger.
    pub file_bytes_max: u64,
    /// The type of elements.
    pub element: ExportType,
}

/// The settings that an export writes next to the weights.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// The kept files of the folder that the model came from.
    pub origin: Origin,
    /// The special tokens that the run knows.
    pub tokens: SpecialTokens,
}

impl PublishedModel {
    /// Writes the weights to a folder that exists, in files with an index where they are several, then generation_config.json if the folder
    /// that the model came from has one, and at last config.json. `parameters` are names and shapes, and `read` reads elements of
    /// a parameter from its element `first` on. Returns, in words, what of that folder could not be kept.
    ///
    /// # Errors
    /// When a file cannot be written, when the type of elements cannot hold a value, and what `read` says.
    pub fn export<'a, E: From<HuggingFaceError>>(
        &self,
        folder: &Path,
        about: &About,
        form: ExportForm,
        parameters: impl Iterator<Item = &'a str>,
        mut read: impl FnMut(&str, usize, &mut [f32]) -> Result<(), E>,
    ) -> Result<Vec<String>, E> {
        let About { origin, tokens } = about;
        let all = origin.with_all_positions(self);
        let num_own = self.num_elements_of_positions();
        let mut read = |name: &str, first: usize, values: &mut [f32]| {
            if name != POSITIONS {
                return read(name, first, values);
            }
            let (own, kept) = values.split_at_mut(num_own.saturating_sub(first).min(values.len()));
            if !kept.is_empty() {
                let start = first.max(num_own) - num_own;
                kept.copy_from_slice(&origin.positions()[start..start + kept.len()]);
            }
            if own.is_empty() { Ok(()) } else { read(name, first, own) }
        };
        let files = files_of(all.tensors(parameters), form);
        let name = |index: usize| match files.len() {
            1 => FILE.to_owned(),
            num_files => format!("model-{:05}-of-{num_files:05}.safetensors", index + 1),
        };
        let mut weight_map = serde_json::Map::new();
        for (index, tensors) in files.iter().enumerate() {
            write_file(&folder.join(name(index)), tensors, form.element, &mut read)?;
            weight_map.extend(tensors.iter().map(|tensor| (tensor.name.clone(), json!(name(index)))));
        }
        if files.len() > 1 {
            let total_size: u64 = files.iter().flatten().map(|tensor| tensor.num_bytes(form)).sum();
            let index = json!({"metadata": {"total_size": total_size}, "weight_map": weight_map});
            write_text(&folder.join(INDEX), &format!("{index:#}\n"))?;
        }
        origin.write_generation_config(folder)?;
        let mut lost = Vec::new();
        let own = all.config_of(*tokens, form.element.name());
        let text = origin.config_json(&all, &own, *tokens, &mut lost);
        write_text(&folder.join(Self::FILE), &text.unwrap_or_else(|| format!("{own:#}\n")))?;
        Ok(lost)
    }

    /// Elements of the table of positions, if there is one.
    fn num_elements_of_positions(&self) -> usize {
        self.model.gpt().map_or(0, |gpt| gpt.seq_length * gpt.hidden_size)
    }

    /// The tensors of these parameters, in their order.
    fn tensors<'a>(&self, parameters: impl Iterator<Item = &'a str>) -> Vec<Tensor<'a>> {
        let mut tensors = Vec::new();
        for parameter in parameters {
            let mut first = 0;
            for part in parts_of(self, parameter).expect("it was checked when the export began") {
                let (name, len) = (part.file_name(self.prefix()), part.len());
                tensors.push(Tensor { name, part, parameter, first });
                first += len;
            }
        }
        tensors
    }
}

impl Tensor<'_> {
    fn num_bytes(&self, form: ExportForm) -> u64 {
        form.element.num_bytes() * self.part.len() as u64
    }
}

/// Tensors file by file, as many as fit.
fn files_of(tensors: Vec<Tensor<'_>>, form: ExportForm) -> Vec<Vec<Tensor<'_>>> {
    let mut files = vec![Vec::new()];
    let mut num_bytes = 0;
    for tensor in tensors {
        if num_bytes > 0 && num_bytes + tensor.num_bytes(form) > form.file_bytes_max {
            files.push(Vec::new());
            num_bytes = 0;
        }
        num_bytes += tensor.num_bytes(form);
        files.last_mut().expect("there is one").push(tensor);
    }
    files
}

fn write_file<E: From<HuggingFaceError>>(
    path: &Path,
    tensors: &[Tensor<'_>],
    element: ExportType,
    read: &mut impl FnMut(&str, usize, &mut [f32]) -> Result<(), E>,
) -> Result<(), E> {
    let io = HuggingFaceError::io(path);
    let mut partial = PartialFile::create(path, Existing::Kept).map_err(&io)?;
    let mut file = BufWriter::new(partial.file().try_clone().map_err(&io)?);
    let header =
        header_of(element.dtype(), tensors.iter().map(|tensor| (&*tensor.name, &*tensor.part.shape)))
            .map_err(&io)?;
    file.write_all(&header).map_err(&io)?;
    let mut values = Vec::new();
    for Tensor { name, part, parameter, first } in tensors {
        let mut write = |values: &mut dyn Iterator<Item = f32>| match element.write(&mut file, values) {
            Err(error) => Err(io(error)),
            Ok(None) => Ok(()),
            Ok(Some(value)) => Err(HuggingFaceError::tensors(
                path,
                format!(
                    "`{name}` has {value:e}, which is beyond what {} holds; use --dtype bf16 or f32",
                    element.name()
                ),
            )),
        };
        if part.layout == Layout::Transposed {
            let [num_inputs, num_outputs] = part.shape[..] else {
                unreachable!("a transposed tensor is a matrix")
            };
            values.resize(part.len(), 0.0);
            read(parameter, *first, &mut values)?;
            for input in 0..num_inputs {
                write(&mut (0..num_outputs).map(|output| values[output * num_inputs + input]))?;
            }
            continue;
        }
        for start in (0..part.len()).step_by(ELEMENTS_AT_ONCE) {
            values.resize(ELEMENTS_AT_ONCE.min(part.len() - start), 0.0);
            read(parameter, first + start, &mut values)?;
            write(&mut values.iter().copied())?;
        }
    }
    let file: File = file.into_inner().map_err(|error| io(error.into_error()))?;
    file.sync_all().map_err(&io)?;
    Ok(partial.finish().map_err(&io)?)
}

fn write_text(path: &Path, text: &str) -> Result<(), HuggingFaceError> {
    let written = PartialFile::create(path, Existing::Kept).and_then(|file| file.finish_with(text));
    written.map_err(HuggingFaceError::io(path))
}
