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
    let rows = |wanted: &dyn Fn(&str, &Meaning) -> Option<String>| {
        let keys = sections.iter().flat_map(|section| keys::foreign_within(section.path));
        keys.filter_map(move |(section, key)| {
            let path = join(&section, key.name);
            Some(format!("| `{path}` | {} |\n", wanted(&path, &key.meaning)?))
        })
        .collect::<String>()
    };
    text += "## Hints\n\n| Key | What decides that here |\n|---|---|\n";
    text += &rows(&|_, meaning| match meaning {
        Meaning::Hint(decides) => Some((*decides).to_owned()),
        _ => None,
    });
    for wanted in [Offer::Never, Offer::Later] {
        let head = "| Key | Accepted only as | What any other value asks for |\n|---|---|---|";
        text += &format!("\n## {}\n\n{AS_WELL}\n\n{head}\n", wanted.title());
        text += &rows(&|path, meaning| match meaning {
            Meaning::NotOffered { offer, off, what, .. } if *offer == wanted => {
                let also = keys::ALSO_ACCEPTED.iter().find(|(key, _)| *key == path);
                let also = also.map(|(_, values)| format!("; {values}")).unwrap_or_default();
                Some(format!("{}{also} | {what}", off.accepted()))
            }
            _ => None,
        });
    }
    text + &known()
}

/// Values that the column of accepted ones leaves out.
const AS_WELL: &str =
    "`null` and `\"auto\"` are accepted too, unless it says *absent*. A key of an object may be left out.";

/// The table of what may stand inside sections without effect.
fn known() -> String {
    let row = |(path, inner): &(&str, &[&str])| {
        let own = keys::foreign(path).iter().map(|key| key.name);
        let names: BTreeSet<&str> = inner.iter().copied().chain(own).collect();
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        format!("| `{path}` | {} |\n", names.join(", "))
    };
    let open = keys::foreign("").iter().filter(|key| {
        let may_be_object =
            matches!(key.meaning, Meaning::NotOffered { off: Off::Disabled | Off::NoneEnabled, .. });
        may_be_object && keys::inner(key.name).is_none()
    });
    let open: Vec<String> = open.map(|key| format!("`{}`", key.name)).collect();
    let title = "## Inside sections without effect";
    let head = "| Section | Keys that DeepSpeed knows in it |\n|---|---|\n";
    let any = format!(
        "Any other key may stand in {}: DeepSpeed passes them on as they are, or does not know them.",
        open.join(", ")
    );
    format!("\n{title}\n\n{any}\n\n{head}{}", keys::INNER.iter().map(row).collect::<String>())
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
