//! Which tensors of transformers a parameter consists of.

use pipezero_files::safetensors::index_of;
use pipezero_models::ModelConfig;

use super::config_json::{ModelType, PublishedModel};

/// The head's weight, whose name never has a prefix.
pub(super) const HEAD: &str = "lm_head.weight";

/// The parameter whose rows are positions, and the tensor in a run directory.
pub(super) const POSITIONS: &str = "wpe.weight";

/// Consecutive elements of a parameter that are a tensor of their own, or the first rows of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// The tensor's name without the prefix `transformer.` or `model.`, which `lm_head.weight` never has.
    pub(super) tensor: String,
    /// Its shape in the file.
    pub(super) shape: Vec<usize>,
    /// How its elements lie.
    pub(super) layout: Layout,
}

/// How the elements of a tensor lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// As those of the parameter.
    Same,
    /// `[in, out]`, as GPT-2's published files have linear weights.
    Transposed,
}

impl PublishedModel {
    /// What stands before the names of all tensors but the head's, in a model that was saved with its head.
    pub(super) fn prefix(&self) -> &'static str {
        if self.model_type == ModelType::Gpt2 { "transformer." } else { "model." }
    }
}

/// The parts of a parameter, which it consists of one behind the other; `None` of one that the model does not have.
pub(super) fn parts_of(published: &PublishedModel, parameter: &str) -> Option<Vec<Part>> {
    let of_block = |parameter: &str| {
        let (block, rest) = parameter.strip_prefix("h.")?.split_once('.')?;
        Some((block.to_owned(), rest.to_owned()))
    };
    match &published.model {
        ModelConfig::Gpt2(gpt) => {
            let width = gpt.hidden_size;
            let part = match of_block(parameter) {
                Some((block, rest)) => gpt2_part(width, &block, &rest)?,
                None => match parameter {
                    "wte.weight" | "lm_head.weight" => same(parameter, &[gpt.vocab_size, width]),
                    "wpe.weight" => same(parameter, &[gpt.seq_length, width]),
                    "ln_f.weight" | "ln_f.bias" => same(parameter, &[width]),
                    _ => return None,
                },
            };
            Some(vec![part])
        }
        ModelConfig::Llama(llama) => {
            let width = llama.gpt.hidden_size;
            let Some((block, rest)) = of_block(parameter) else {
                let name = match parameter {
                    "wte.weight" => "embed_tokens.weight",
                    "ln_f.weight" => return Some(vec![same("norm.weight", &[width])]),
                    HEAD => HEAD,
                    _ => return None,
                };
                return Some(vec![same(name, &[llama.gpt.vocab_size, width])]);
            };
            let (heads, groups) = (llama.attended_width(), llama.num_query_groups * llama.kv_channels);
            let (size, ffn) = (llama.kv_channels, llama.ffn_hidden_size);
            let parts: Vec<(&str, Vec<usize>)> = match &*rest {
                "ln_1.weight" => vec![("input_layernorm.weight", vec![width])],
                "attn.qkv.weight" => vec![
                    ("self_attn.q_proj.weight", vec![heads, width]),
                    ("self_attn.k_proj.weight", vec![groups, width]),
                    ("self_attn.v_proj.weight", vec![groups, width]),
                ],
                "attn.qkv.bias" => vec![
                    ("self_attn.q_proj.bias", vec![heads]),
                    ("self_attn.k_proj.bias", vec![groups]),
                    ("self_attn.v_proj.bias", vec![groups]),
                ],
                "attn.q_norm.weight" => vec![("self_attn.q_norm.weight", vec![size])],
                "attn.k_norm.weight" => vec![("self_attn.k_norm.weight", vec![size])],
                "attn.proj.weight" => vec![("self_attn.o_proj.weight", vec![width, heads])],
                "attn.proj.bias" => vec![("self_attn.o_proj.bias", vec![width])],
                "ln_2.weight" => vec![("post_attention_layernorm.weight", vec![width])],
                "mlp.gate_up.weight" => {
                    vec![("mlp.gate_proj.weight", vec![ffn, width]), ("mlp.up_proj.weight", vec![ffn, width])]
                }
                "mlp.gate_up.bias" => {
                    vec![("mlp.gate_proj.bias", vec![ffn]), ("mlp.up_proj.bias", vec![ffn])]
                }
                "mlp.down.weight" => vec![("mlp.down_proj.weight", vec![width, ffn])],
                "mlp.down.bias" => vec![("mlp.down_proj.bias", vec![width])],
                _ => return None,
            };
            let part = |(name, shape): &(&str, Vec<usize>)| same(&format!("layers.{block}.{name}"), shape);
            Some(parts.iter().map(part).collect())
        }
        ModelConfig::Mlp(_) | ModelConfig::Timed(_) => None,
    }
}

fn gpt2_part(width: usize, block: &str, rest: &str) -> Option<Part> {
    let (name, [outputs, inputs]) = match rest {
        "ln_1.weight" | "ln_1.bias" | "ln_2.weight" | "ln_2.bias" => {
            return Some(same(&format!("h.{block}.{rest}"), &[width]));
        }
        "attn.qkv.weight" => ("attn.c_attn.weight", [3 * width, width]),
        "attn.proj.weight" => ("attn.c_proj.weight", [width, width]),
        "mlp.up.weight" => ("mlp.c_fc.weight", [4 * width, width]),
        "mlp.down.weight" => ("mlp.c_proj.weight", [width, 4 * width]),
        "attn.qkv.bias" => return Some(same(&format!("h.{block}.attn.c_attn.bias"), &[3 * width])),
        "attn.proj.bias" => return Some(same(&format!("h.{block}.attn.c_proj.bias"), &[width])),
        "mlp.up.bias" => return Some(same(&format!("h.{block}.mlp.c_fc.bias"), &[4 * width])),
        "mlp.down.bias" => return Some(same(&format!("h.{block}.mlp.c_proj.bias"), &[width])),
        _ => return None,
    };
    let tensor = format!("h.{block}.{name}");
    Some(Part { tensor, shape: vec![inputs, outputs], layout: Layout::Transposed })
}

fn same(tensor: &str, shape: &[usize]) -> Part {
    Part { tensor: tensor.to_owned(), shape: shape.to_vec(), layout: Layout::Same }
}

impl Part {
    /// Elements that it has.
    pub(super) fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// The tensor's index, by dimension, of an element in the parameter's order.
    pub(super) fn index_of(&self, element: usize) -> Vec<usize> {
        match (self.layout, &self.shape[..]) {
            (Layout::Transposed, &[num_inputs, _]) => vec![element % num_inputs, element / num_inputs],
            _ => index_of(&self.shape, element),
        }
    }

    /// The name with what the model's code puts before it.
    pub(super) fn file_name(&self, prefix: &str) -> String {
        if self.tensor == HEAD { self.tensor.clone() } else { format!("{prefix}{}", self.tensor) }
    }
}
