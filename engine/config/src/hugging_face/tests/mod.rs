//! Folders of two small models, with one thing changed.

mod exported;
mod other_parts;
mod tied_head;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView, serialize_to_file};
use serde_json::{Map, Value};
use tempfile::TempDir;

use super::{Fit, HuggingFaceError, PublishedModel, PublishedWeights};
use crate::resources::Resources;
use crate::{Run, RunFile};

pub(super) const GPT2: &str = r#"{"model_type": "gpt2", "vocab_size": 11, "n_positions": 6, "n_embd": 4, "n_layer": 1, "n_head": 2,
    "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}"#;

pub(super) const LLAMA: &str = r#"{"model_type": "llama", "vocab_size": 11, "hidden_size": 4, "intermediate_size": 6,
    "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 16, "tie_word_embeddings": true}"#;

/// Shapes and elements of tensors.
pub(super) type Tensors = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

/// A folder with a config.json and tensors whose elements all differ.
pub(super) struct Folder(TempDir);

impl Folder {
    pub(super) fn of(config: &str) -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        fs::write(home.path().join("config.json"), config).unwrap();
        let is_gpt2 = config.contains("gpt2");
        // As transformers writes them: written down, since what is tested must not say itself what it is to be.
        let shapes: Vec<(&str, Vec<usize>)> = if is_gpt2 {
            vec![
                ("transformer.wte.weight", vec![11, 4]),
                ("transformer.wpe.weight", vec![6, 4]),
                ("transformer.h.0.ln_1.weight", vec![4]),
                ("transformer.h.0.ln_1.bias", vec![4]),
                ("transformer.h.0.attn.c_attn.weight", vec![4, 12]),
                ("transformer.h.0.attn.c_attn.bias", vec![12]),
                ("transformer.h.0.attn.c_proj.weight", vec![4, 4]),
                ("transformer.h.0.attn.c_proj.bias", vec![4]),
                ("transformer.h.0.ln_2.weight", vec![4]),
                ("transformer.h.0.ln_2.bias", vec![4]),
                ("transformer.h.0.mlp.c_fc.weight", vec![4, 16]),
                ("transformer.h.0.mlp.c_fc.bias", vec![16]),
                ("transformer.h.0.mlp.c_proj.weight", vec![16, 4]),
                ("transformer.h.0.mlp.c_proj.bias", vec![4]),
                ("transformer.ln_f.weight", vec![4]),
                ("transformer.ln_f.bias", vec![4]),
            ]
        } else {
            vec![
                ("model.embed_tokens.weight", vec![11, 4]),
                ("model.layers.0.input_layernorm.weight", vec![4]),
                ("model.layers.0.self_attn.q_proj.weight", vec![4, 4]),
                ("model.layers.0.self_attn.k_proj.weight", vec![4, 4]),
                ("model.layers.0.self_attn.v_proj.weight", vec![4, 4]),
                ("model.layers.0.self_attn.o_proj.weight", vec![4, 4]),
                ("model.layers.0.post_attention_layernorm.weight", vec![4]),
                ("model.layers.0.mlp.gate_proj.weight", vec![6, 4]),
                ("model.layers.0.mlp.up_proj.weight", vec![6, 4]),
                ("model.layers.0.mlp.down_proj.weight", vec![4, 6]),
                ("model.norm.weight", vec![4]),
            ]
        };
        let mut next = 0.0;
        let mut values = |shape: &[usize]| {
            let number = |_| {
                next += 0.25;
                next
            };
            (0..shape.iter().product()).map(number).collect::<Vec<f32>>()
        };
        let tensors = shapes.into_iter().map(|(name, shape)| {
            let values = values(&shape);
            (name.to_owned(), (shape, values))
        });
        write(&home.path().join("model.safetensors"), &tensors.collect());
        home
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    pub(super) fn tensors(&self) -> Tensors {
        read(&self.file("model.safetensors"))
    }

    /// The same with other tensors.
    pub(super) fn with(self, change: impl FnOnce(&mut Tensors)) -> Self {
        let mut tensors = self.tensors();
        change(&mut tensors);
        write(&self.file("model.safetensors"), &tensors);
        self
    }

    /// A run of its model, whose section has these keys too.
    pub(super) fn run(&self, more: &str) -> Run {
        let text = format!(
            r#"{{"model": {{"from": "{}"{more}}}, "data": {{"tokens": "never-read"}}, "device": "cpu", "train_batch_size": 1, "steps": 1}}"#,
            self.path().display()
        );
        let resources = Resources::this_host();
        RunFile::parse("run.json", &text)
            .unwrap()
            .resolve(resources)
            .unwrap_or_else(|error| panic!("{error}"))
            .0
    }

    /// The weights for a run, or why they are refused.
    pub(super) fn open(&self, run: &Run) -> Result<PublishedWeights, String> {
        self.opened(run)
            .map_err(|error| error.to_string().replace(&self.path().display().to_string(), "FOLDER"))
    }

    fn opened(&self, run: &Run) -> Result<PublishedWeights, HuggingFaceError> {
        let model = PublishedModel::open_for(run, self.path(), Fit::Same)?;
        let layers = run.model.build().unwrap().layers;
        let specs: Vec<_> = layers.iter().flat_map(|layer| layer.layer.parameters()).collect();
        PublishedWeights::open(
            self.path(),
            &model,
            specs.iter().map(|spec| (&*spec.name, &*spec.shape)),
            Fit::Same,
        )
    }

    /// A line for each part that is not used, or the line with why the folder is refused.
    pub(super) fn said(&self, more: &str) -> String {
        match self.open(&self.run(more)) {
            Ok(weights) if weights.unused().is_empty() => "all is read\n".to_owned(),
            Ok(weights) => weights.unused().iter().map(|unused| format!("{unused}\n")).collect(),
            Err(refused) => format!("refused: {refused}\n"),
        }
    }
}

/// The tensors of a file, of any type.
pub(super) fn read(path: &Path) -> Tensors {
    let bytes = fs::read(path).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let values = |view: &TensorView<'_>| -> Vec<f32> {
        let bytes = view.data();
        match view.dtype() {
            Dtype::F32 => bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect(),
            Dtype::F16 => {
                let narrow = bytes.as_chunks().0.iter();
                narrow.map(|bytes| half::f16::from_le_bytes(*bytes).to_f32()).collect()
            }
            Dtype::BF16 => {
                // The upper half of an f32.
                let wide = |bytes: &[u8; 2]| f32::from_le_bytes([0, 0, bytes[0], bytes[1]]);
                bytes.as_chunks().0.iter().map(wide).collect()
            }
            other => panic!("{other:?}"),
        }
    };
    file.tensors().iter().map(|(name, view)| (name.clone(), (view.shape().to_vec(), values(view)))).collect()
}

fn write(path: &Path, tensors: &Tensors) {
    let bytes: Vec<(&String, &Vec<usize>, Vec<u8>)> = tensors
        .iter()
        .map(|(name, (shape, values))| {
            (name, shape, values.iter().flat_map(|value| value.to_le_bytes()).collect())
        })
        .collect();
    let views = bytes
        .iter()
        .map(|(name, shape, bytes)| (name, TensorView::new(Dtype::F32, (*shape).clone(), bytes).unwrap()));
    serialize_to_file(views, None, path).unwrap();
}

/// The text of a config.json with more fields.
pub(super) fn with_fields(config: &str, more: &str) -> String {
    config.replacen('{', &format!("{{{more}, "), 1)
}

pub(super) fn fields(path: &Path) -> Map<String, Value> {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}
