//! `data` and `evaluation`: the data, its split, and how often the rest is used.

use std::path::{Path, PathBuf};

use pipezero_files::json::shorten;
use pipezero_files::made_by::MadeBy;
use pipezero_files::records::first_with_conversations;
use pipezero_files::text::find_all;

use crate::TokenType;
use crate::data_path::DataPath;
use crate::kind::Either;
use crate::raw::{RawData, RawEvaluation, RawRun};
use crate::resolved::{DataConfig, EndToken, EvaluationConfig, ModelConfig, TokenFilesConfig};
use crate::section::{Field, Head};

use super::counted::counted;
use super::model;

/// `data`. Whether the files exist is for the reader of the data to say ([`check_data`]): a plan needs none of them.
/// A model that `reads_text` needs it.
pub(super) fn resolve(raw: &RawData, reads_text: bool, folder: &Path) -> Option<DataConfig> {
    if !reads_text {
        no_effect(&raw.head, "a timed model reads no text");
        return Some(DataConfig::default());
    }
    let rule = "there is nothing to train on";
    if !raw.head.is_written {
        return raw.head.site.missing(
            rule,
            "add it with files, folders or globs, such as \"data\": {\"text\": \"texts/*.txt\"}",
        );
    }
    let within = |paths: Vec<String>| paths.iter().map(|path| folder.join(path)).collect::<Vec<PathBuf>>();
    let text = if raw.tokens.is_written() {
        let rule = "`data.tokens` stands beside it, and a run reads one or the other";
        raw.text.absent(|_| "written".to_owned(), rule).map(|()| Vec::new())
    } else {
        raw.text
            .required(rule, "add files, folders or globs")
            .map(list)
            .and_then(|paths| named(&raw.text, paths, "file, folder or glob"))
    };
    let files = token_files(raw, &within);
    let tokenizer = raw.tokenizer.is_written().then(|| raw.tokenizer.given().map(|path| folder.join(path)));
    let validation = validation(raw);
    let (text, files, validation) = (text?, files?, validation?);
    let tokenizer = match tokenizer {
        Some(given) => Some(given?),
        None => None,
    };
    if files.end_token.is_some() && files.tokens.is_empty() && tokenizer.is_none() {
        raw.end_token
            .site
            .hint("no effect here: text without `data.tokenizer` has no token that ends documents");
    }
    if let (Some(EndToken::Name(name)), None) = (&files.end_token, &tokenizer) {
        let rule = "`data.tokenizer` is not named, and it alone knows the number of a token";
        return raw.end_token.broken(format!("{name:?}"), rule, "name it, or write the token's number");
    }
    let text = within(text);
    let document_attention = document_attention(raw, &text, &files)?;
    Some(DataConfig {
        text,
        files,
        tokenizer,
        validation,
        document_attention,
        seq_lengths: seq_lengths(raw)?,
        verify: raw.verify.or(false)?,
    })
}

/// Whether a token sees its own document alone. Where the file does not say, it does in conversations, which have nothing to do with each other. Data that
/// is not there yet is plain text here: whoever reads it says that it is missing.
fn document_attention(raw: &RawData, text: &[PathBuf], files: &TokenFilesConfig) -> Option<bool> {
    if raw.document_attention.is_written() {
        return raw.document_attention.given();
    }
    let of_text = || {
        let found = if text.is_empty() { Vec::new() } else { find_all(text).unwrap_or_default() };
        first_with_conversations(&found).map(Path::to_owned)
    };
    let of_tokens = || files.tokens.iter().find(|path| MadeBy::has_conversations(path)).cloned();
    let found = of_tokens().or_else(of_text);
    if let Some(path) = &found {
        raw.document_attention.site.hint(format!(
            "true, since `{}` holds conversations, each of which is a document of its own; write false to let tokens attend to earlier ones",
            path.display()
        ));
    }
    Some(found.is_some())
}

/// The smallest vocabulary that the data goes with.
pub(super) fn fewest_tokens(raw: &RawData) -> usize {
    let is_bytes = !raw.tokens.is_written() && !raw.tokenizer.is_written();
    if is_bytes { 256 } else { 1 }
}

/// The share that is held out.
fn validation(raw: &RawData) -> Option<f64> {
    if raw.validation_tokens.is_written() {
        let rule = "`data.validation_tokens` stands beside it, and says what is validated on";
        return raw.validation.absent(|share| share.to_string(), rule).map(|()| 0.0);
    }
    raw.validation.keep(
        raw.validation.or(0.05),
        |share| (0.0..=0.5).contains(&share),
        "it is a share of the data, from 0 to 0.5",
        "use a value such as 0.05",
    )
}

/// What is said of files of tokens.
fn token_files(raw: &RawData, within: &dyn Fn(Vec<String>) -> Vec<PathBuf>) -> Option<TokenFilesConfig> {
    let paths = |field: &Field<Either<String, Vec<String>>>| match field.is_written() {
        true => field.given().map(list).and_then(|paths| named(field, paths, "file of tokens")),
        false => Some(Vec::new()),
    };
    let (tokens, validation_tokens) = (paths(&raw.tokens), paths(&raw.validation_tokens));
    let token_type = raw.token_type.or(TokenType::U16);
    let end_token = match raw.end_token.given() {
        Some(Either::First(name)) => Some(Some(EndToken::Name(name))),
        Some(Either::Second(number)) => match u32::try_from(number) {
            Ok(number) => Some(Some(EndToken::Number(number))),
            Err(_) => raw.end_token.broken(number, "tokens end at 2^32 - 1", "use a token of the vocabulary"),
        },
        None => (!raw.end_token.is_written()).then_some(None),
    };
    let (tokens, validation_tokens) = (tokens?, validation_tokens?);
    let weights = weights(raw, tokens.len());
    if !raw.tokens.is_written() && !raw.validation_tokens.is_written() && raw.token_type.is_written() {
        raw.token_type.site.hint("no effect here: no file of tokens is read");
    }
    Some(TokenFilesConfig {
        tokens: within(tokens),
        weights: weights?,
        validation_tokens: within(validation_tokens),
        token_type: token_type?,
        end_token: end_token?,
    })
}

/// A weight for each file, or none.
fn weights(raw: &RawData, num_files: usize) -> Option<Vec<f64>> {
    if !raw.weights.is_written() {
        return Some(Vec::new());
    }
    let weights = raw.weights.given()?;
    if !raw.tokens.is_written() {
        let rule =
            "weights are of the files of `data.tokens`, and this run has none: a text is read as a whole";
        return raw.weights.broken(
            format!("a list of {}", weights.len()),
            rule,
            "remove it, or make files of tokens with `pipezero tokenize`",
        );
    }
    if weights.len() != num_files {
        let rule = format!("`data.tokens` names {}, and each has a weight", counted(num_files, "file"));
        return raw.weights.broken(
            format!("a list of {}", weights.len()),
            rule,
            "write as many weights as files",
        );
    }
    match weights.iter().find(|weight| **weight <= 0.0) {
        Some(weight) => {
            raw.weights.broken(weight, "a weight is above 0", "leave a file out that is not to be read")
        }
        None => Some(weights),
    }
}

/// The lengths that micro-batches may have; [`check_lengths`] compares them with the model's.
fn seq_lengths(raw: &RawData) -> Option<Vec<usize>> {
    let lengths = raw.seq_lengths.or(Vec::new())?;
    if raw.seq_lengths.is_written() && lengths.is_empty() {
        let rule = "a micro-batch has one of the lengths, and there is none";
        return raw.seq_lengths.broken("an empty list", rule, "add some, or remove it");
    }
    Some(lengths.into_iter().map(|length| usize::try_from(length).unwrap_or(usize::MAX)).collect())
}

/// No micro-batch is empty, or longer than what is planned.
pub(super) fn check_lengths(raw: &RawData, model: Option<&ModelConfig>) -> Option<()> {
    let (lengths, model) = (raw.seq_lengths.given().unwrap_or_default(), model?);
    let longest = model.facts().seq_length as u64;
    match lengths.into_iter().find(|length| !(1..=longest).contains(length)) {
        Some(length) => {
            let rule =
                format!("lengths are from 1 to `model.seq_length`, {longest}, for which memory is planned");
            raw.seq_lengths.broken(length, rule, "use lengths from there")
        }
        None => Some(()),
    }
}

/// Paths of a key to `what`, at least one and none of them empty.
fn named(field: &Field<Either<String, Vec<String>>>, paths: Vec<String>, what: &str) -> Option<Vec<String>> {
    if paths.is_empty() || paths.iter().any(String::is_empty) {
        let rule = format!("it must name at least one {what}, and none may be empty");
        return field.broken("empty", rule, "add one");
    }
    Some(paths)
}

/// Of a model without attention, a token sees no other in any case, and it has no positions.
pub(super) fn check_documents(raw: &RawData, model: Option<&ModelConfig>) {
    if raw.document_attention.given() == Some(true) && matches!(model, Some(ModelConfig::Mlp(_))) {
        raw.document_attention.site.hint("no effect here: the mlp family has no attention and no positions");
    }
}

fn list(text: Either<String, Vec<String>>) -> Vec<String> {
    match text {
        Either::First(path) => vec![path],
        Either::Second(paths) => paths,
    }
}

/// Reports every file that `data` names and of which `fault` knows why it cannot be found.
pub(crate) fn check_data(raw: &RawRun, folder: &Path, fault: &dyn Fn(DataPath<'_>) -> Option<String>) {
    if !model::may_read_text(&raw.model) {
        return;
    }
    let data = &raw.data;
    let report = |field: &Field<Either<String, Vec<String>>>, of: &dyn Fn(&Path) -> Option<String>| {
        let entries = field.given().map(list).unwrap_or_default();
        for entry in entries.iter().filter(|entry| !entry.is_empty()) {
            if let Some(fault) = of(&folder.join(entry)) {
                field.broken::<()>(format!("\"{}\"", shorten(entry)), fault, RELATIVE);
            }
        }
    };
    report(&data.text, &|path| fault(DataPath::Text(path)));
    for field in [&data.tokens, &data.validation_tokens] {
        report(field, &|path| fault(DataPath::Tokens(path)));
    }
    if let Some(named) = data.tokenizer.given()
        && let Some(fault) = fault(DataPath::Tokenizer(&folder.join(&named)))
    {
        data.tokenizer.broken::<()>(format!("\"{}\"", shorten(&named)), fault, RELATIVE);
    }
}

const RELATIVE: &str = "relative paths start at the run file's folder";

fn no_effect(head: &Head, why: &str) {
    if head.is_written {
        head.site.hint(format!("no effect here: {why}"));
    }
}

/// `evaluation`, of the text that is kept for validation.
pub(super) fn resolve_evaluation(raw: &RawEvaluation, reads_text: bool) -> Option<EvaluationConfig> {
    if !reads_text {
        no_effect(&raw.head, "a timed model learns nothing that could be evaluated");
    }
    let rule = "an evaluation needs at least one batch";
    let repair = "use 1 or more; for no evaluation, set `data.validation` to 0";
    let batches = raw.batches.keep(raw.batches.or(8), |batches| batches > 0, rule, repair);
    Some(EvaluationConfig { every: raw.every.or(0)?, batches: batches? })
}
