//! `model.from`: the sizes of a published model, from a folder of transformers.

use std::path::Path;

use crate::config::raw::RawModel;
use crate::config::resolved::{GptConfig, ModelConfig};
use crate::config::section::Field;
use crate::config::words::one_of;
use crate::files::json::shorten;
use crate::hugging_face::{ModelType, PublishedModel};

use super::rope_scaling;
use super::sizes::init_std;

/// Why a size is not written beside it.
const IS_IN_THE_FOLDER: &str = "`model.from` says it";

/// The model of the folder that `from` names; relative paths start at `folder`.
pub(super) fn resolve(raw: &RawModel, fewest_tokens: usize, folder: &Path) -> Option<ModelConfig> {
    let given = raw.from.given();
    let own = no_sizes(raw);
    let named = given?;
    let published = match PublishedModel::open(&folder.join(&named)) {
        Ok(published) => published,
        Err(error) => {
            let types = one_of(&ModelType::ALL.map(ModelType::name));
            let repair = format!(
                "name a folder with a config.json of a model of type {types}; relative paths start at the run file's folder"
            );
            return raw.from.broken(format!("\"{}\"", shorten(&named)), error.to_string(), repair);
        }
    };
    own?;
    let mut model = published.model;
    let gpt = match &mut model {
        ModelConfig::Gpt2(gpt) => {
            let longest = gpt.seq_length;
            let rule = format!("the model of `model.from` knows {longest} positions");
            let knows = |length| length <= longest;
            raw.seq_length.keep(
                raw.seq_length.or(longest),
                knows,
                &rule,
                &format!("use at most {longest}"),
            )?;
            gpt
        }
        ModelConfig::Llama(llama) => {
            let rule = "the model of `model.from` has no dropout";
            raw.dropout.keep(raw.dropout.or(0.0), |dropout| dropout <= 0.0, rule, "use 0, or remove it")?;
            &mut llama.gpt
        }
        ModelConfig::Mlp(_) | ModelConfig::Timed(_) => unreachable!("no published model is of this family"),
    };
    choose(raw, fewest_tokens, gpt)?;
    Some(model)
}

/// What the run chooses beside the sizes.
fn choose(raw: &RawModel, fewest_tokens: usize, gpt: &mut GptConfig) -> Option<()> {
    let length = raw.seq_length.at_least_one(raw.seq_length.or(gpt.seq_length));
    let num_tokens = gpt.vocab_size;
    if num_tokens < fewest_tokens {
        let rule = format!(
            "its model has {num_tokens} tokens, and text without `data.tokenizer` is read as bytes, which are 256"
        );
        let repair = "name the model's tokenizer as `data.tokenizer`, or use another model";
        return raw.from.broken(format!("\"{}\"", shorten(&raw.from.given()?)), rule, repair);
    }
    let init_std = init_std(&raw.init_std, gpt.init_std);
    let dropout = raw.dropout.below_one(raw.dropout.or(gpt.dropout), 0.1);
    (gpt.seq_length, gpt.init_std, gpt.dropout) = (length?, init_std?, dropout?);
    Some(())
}

/// Reports sizes that are written beside `from`.
fn no_sizes(raw: &RawModel) -> Option<()> {
    fn no<T: Clone>(field: &Field<T>) -> Option<()> {
        field.absent(|_| field.site.place.written(), IS_IN_THE_FOLDER)
    }
    let sizes = [
        no(&raw.family),
        no(&raw.num_layers),
        no(&raw.hidden_size),
        no(&raw.num_attention_heads),
        no(&raw.vocab_size),
        no(&raw.tie_embeddings),
        no(&raw.ffn_hidden_size),
        no(&raw.num_query_groups),
        no(&raw.kv_channels),
        no(&raw.norm_epsilon),
        no(&raw.rotary_base),
        no(&raw.add_qkv_bias),
        no(&raw.add_proj_bias),
        no(&raw.add_mlp_bias),
        no(&raw.qk_layernorm),
        no(&raw.parameters_per_layer),
        no(&raw.activation_elements),
        no(&raw.forward_ms),
        no(&raw.backward_input_ms),
        no(&raw.backward_weight_ms),
        no(&raw.recompute_ms),
        rope_scaling::absent(&raw.rope_scaling, IS_IN_THE_FOLDER),
    ];
    (!sizes.contains(&None)).then_some(())
}
