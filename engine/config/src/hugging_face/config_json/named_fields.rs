//! The fields of a folder's config.json that training does not use, as a notice names them.

use std::path::Path;

use pipezero_files::json::{Source, Value, parse_first, shorten};

use super::PublishedModel;
use super::unused_fields::Purpose;
use crate::hugging_face::unused::Unused;

impl PublishedModel {
    /// The fields of a folder's config.json that training does not use, by purpose. None where the file cannot be read, which
    /// [`PublishedModel::open`] reports.
    pub fn unused_fields(folder: &Path) -> Vec<Unused> {
        let Ok(text) = Self::text_of(folder) else { return Vec::new() };
        Self::unused_in(&text)
    }

    pub(super) fn unused_in(text: &str) -> Vec<Unused> {
        let Ok(root) = parse_first(&Source::file(Self::FILE, text)) else { return Vec::new() };
        let Value::Object(entries) = &root.value else { return Vec::new() };
        let of_purpose = |purpose: Purpose| {
            let fields = entries.iter().filter(|entry| Purpose::of(&entry.key) == Some(purpose));
            let names: Vec<String> = fields.map(|entry| format!("`{}`", shorten(&entry.key))).collect();
            (!names.is_empty()).then(|| Unused::new(names.join(", "), purpose.text()))
        };
        Purpose::ALL.into_iter().filter_map(of_purpose).collect()
    }
}
