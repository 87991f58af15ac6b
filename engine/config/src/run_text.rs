//! The text of a run file or a master file: its bounds, and what it is as JSON.

use pipezero_files::json::{Node, Source, parse};

use super::error::{ConfigError, ConfigErrors, Problem};
use super::other_forms::{has_several, is_yaml};
use super::place::Place;

/// Bytes of a file at most: the longest lists in one are of texts and of layers.
pub(super) const MAX_BYTES: u64 = 16 << 20;

/// Values of a run file or master file at most, keys and elements of lists, so that each is answered within seconds.
pub(super) const MAX_VALUES: usize = 100_000;

/// The values of a text that messages call `name`.
///
/// # Errors
/// When it is no JSON, holds a key twice or has too many values, or is in the form of another system.
pub(super) fn parse_text(name: &str, text: &str) -> Result<Node, ConfigErrors> {
    let num_values = num_values(text);
    if num_values > MAX_VALUES {
        let reason = format!(
            "it has about {num_values} values, and a run file has at most {MAX_VALUES}; name files by their folder or a pattern such as \"data/*.txt\""
        );
        return Err(unreadable(name, &reason));
    }
    if let Some(error) = is_yaml(name, text) {
        return Err(ConfigErrors::new(vec![error]));
    }
    let root = parse(&Source::relaxed_file(name, text))
        .map_err(|errors| ConfigErrors::new(errors.into_iter().map(ConfigError::from).collect()))?;
    has_several(&root).map_or(Ok(root), |error| Err(ConfigErrors::of_master(vec![error])))
}

/// About how many values a text has. All but the first of a list or section stand behind a comma, so it need not be parsed to know that it has too many.
pub(super) fn num_values(text: &str) -> usize {
    text.bytes().filter(|&byte| byte == b',').count()
}

/// The mistake that a file of this name cannot be read.
pub(super) fn unreadable(name: &str, reason: &str) -> ConfigErrors {
    let place = Place { path: String::new(), span: Source::file(name, "").span(0, 0) };
    ConfigErrors::new(vec![ConfigError::new(place, Problem::Unreadable { reason: reason.to_owned() })])
}
