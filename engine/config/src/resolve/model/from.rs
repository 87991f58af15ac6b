//! `model.from`: the sizes of a published model, from a folder of transformers.

use std::path::Path;

use pipezero_files::json::shorten;

use crate::hugging_face::{ConfigFault, HuggingFaceError, ModelType, PublishedModel};
use crate::raw::RawModel;
use crate::resolved::{GptConfig, ModelConfig};
use crate::section::Field;
use crate::words::one_of;

use super::rope_scaling;
use super::sizes::init_std;

/// Why a size is not written beside it.
const IS_IN_THE_FOLDER: &str = "`model.from` says it";

/// The model of the folder that `from` names; relative paths start at `folder`.
pub(super) fn resolve(raw: &RawModel, fewest_tokens: usize, folder: &Path) -> Option<ModelConfig> {
    let given = raw.from.given();
    let own = no_sizes(raw);
    let named = given?;
    let published = published(raw, &named, &folder.join(&named));
    own?;
    let published = published?;
    fits_window(raw, &published)?;
    if let Some(fault) = published.unequal_dropouts.clone().filter(|_| !raw.dropout.is_written()) {
        return broken(raw, &named, fault);
    }
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

/// Reads the folder's config.json; reports everything that is wrong with it.
fn published(raw: &RawModel, named: &str, folder: &Path) -> Option<PublishedModel> {
    let error = match PublishedModel::open(folder) {
        Ok(published) => return Some(published),
        Err(error) => error,
    };
    if let HuggingFaceError::Config { faults } = error {
        for fault in faults {
            broken::<()>(raw, named, fault);
        }
        return None;
    }
    raw.from.broken(format!("\"{}\"", shorten(named)), error.to_string(), of_no_folder(named, folder))
}

/// Reports what is wrong with a field of the folder's config.json.
fn broken<T>(raw: &RawModel, named: &str, fault: ConfigFault) -> Option<T> {
    let ConfigFault { place, message, repair } = fault;
    let usual = || "use another model, or mend the field if it is a mistake".to_owned();
    raw.from.broken(
        format!("\"{}\"", shorten(named)),
        format!("{place}: {message}"),
        repair.unwrap_or_else(usual),
    )
}

/// What to do where a folder or its config.json cannot be read.
fn of_no_folder(named: &str, folder: &Path) -> String {
    let is_of_name = |part: &str| {
        let mut letters = part.chars();
        letters.next().is_some_and(|first| first.is_ascii_alphanumeric())
            && letters.all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter))
    };
    // OWNER/MODEL, or the name alone of a few old ones.
    let may_be_of_hub = named.split('/').count() <= 2 && named.split('/').all(is_of_name);
    if may_be_of_hub && !folder.exists() {
        return format!(
            "nothing is downloaded: `hf download {named} --local-dir {named}` in the run file's folder does that, or name a folder \
             that is there"
        );
    }
    let types = one_of(&ModelType::ALL.map(ModelType::name));
    format!(
        "name a folder with a config.json of a model of type {types}; relative paths start at the run file's folder"
    )
}

/// Reports sequences in which a window hides tokens.
fn fits_window(raw: &RawModel, published: &PublishedModel) -> Option<()> {
    let Some(window) = published.window else { return Some(()) };
    let length = raw.seq_length.or(published.model.seq_length())?;
    if length <= window {
        return Some(());
    }
    let rule = format!(
        "in the model of `model.from` a token sees only the last {window} (`sliding_window`), and attention to those alone is not offered"
    );
    if raw.seq_length.is_written() {
        return raw.seq_length.broken(length, rule, format!("use {window} or less, or another model"));
    }
    let rule = format!("{rule} where sequences are longer, as its longest are with {length} tokens");
    let named = format!("\"{}\"", shorten(&raw.from.given()?));
    raw.from.broken(named, rule, format!("set `model.seq_length` to {window} or less, or use another model"))
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
    let is_tied = raw.tie_embeddings.or(gpt.tie_embeddings);
    (gpt.seq_length, gpt.init_std, gpt.dropout) = (length?, init_std?, dropout?);
    gpt.tie_embeddings = is_tied?;
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
