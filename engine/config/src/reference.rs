//! The tables of docs/run-file.md: every key with its type, default, class and meaning.

use std::collections::BTreeSet;

use pipezero_files::json::join;

use super::keys::{self, Meaning, Off, Offer};
use super::raw::RawRun;
use super::section::{KeySpec, Section, SectionSpec};

/// The tables as Markdown: keys that have an effect, section by section; hints; what is not offered; what DeepSpeed
/// knows inside sections without effect.
pub fn reference() -> String {
    let run = RawRun::spec();
    let sections = run.all();
    let mut text: String = sections.iter().map(|section| effective(section)).collect();
    let rows = |wanted: &dyn Fn(&Meaning) -> Option<String>| {
        let keys = sections.iter().flat_map(|section| keys::foreign_within(section.path));
        keys.filter_map(move |(path, key)| {
            Some(format!("| `{}` | {} |\n", join(&path, key.name), wanted(&key.meaning)?))
        })
        .collect::<String>()
    };
    text += "## Hints\n\n| Key | What decides that here |\n|---|---|\n";
    text += &rows(&|meaning| match meaning {
        Meaning::Hint(decides) => Some((*decides).to_owned()),
        _ => None,
    });
    for wanted in [Offer::Never, Offer::Later] {
        let head = "| Key | Accepted only as | What any other value asks for |\n|---|---|---|";
        text += &format!("\n## {}\n\n{head}\n", wanted.title());
        text += &rows(&|meaning| match meaning {
            Meaning::NotOffered { offer, off, what, .. } if *offer == wanted => {
                let quote = if matches!(off, Off::Never) { "" } else { "`" };
                Some(format!("{quote}{}{quote} | {what}", off.json()))
            }
            _ => None,
        });
    }
    text + &known()
}

/// The table of what may stand inside sections without effect.
fn known() -> String {
    let row = |(path, inner): &(&str, &[&str])| {
        let own = keys::foreign(path).iter().map(|key| key.name);
        let names: BTreeSet<&str> = inner.iter().copied().chain(own).collect();
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        format!("| `{path}` | {} |\n", names.join(", "))
    };
    let head =
        "## Inside sections without effect\n\n| Section | Keys that DeepSpeed knows in it |\n|---|---|\n";
    format!("\n{head}{}", keys::INNER.iter().map(row).collect::<String>())
}

/// The table of a section's keys that have an effect.
fn effective(section: &SectionSpec) -> String {
    if section.keys.is_empty() {
        return String::new();
    }
    let title = if section.path.is_empty() { "Top level".to_owned() } else { format!("`{}`", section.path) };
    let head = "| Key | Type | Default | Meaning | Why this default |\n|---|---|---|---|---|";
    let row = |key: &KeySpec| {
        let default = if key.default.is_empty() { "needed".to_owned() } else { format!("`{}`", key.default) };
        format!("| `{}` | {} | {default} | {} | {} |\n", key.name, key.expected, key.about, key.why)
    };
    let rows: String = section.keys.iter().map(row).collect();
    format!("### {title}\n\n{}\n\n{head}\n{rows}\n", section.about)
}
