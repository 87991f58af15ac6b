//! The tables of docs/run-file.md: every key with its type, default, class and meaning.

use std::fmt::Write;

use super::keys::{self, Meaning, Off, Offer};
use super::raw::RawRun;
use super::section::{Section, SectionSpec};
use crate::files::json::join;

/// The tables as Markdown: keys that have an effect, section by section; hints; what is not offered.
pub fn reference() -> String {
    let run = RawRun::spec();
    let mut paths = Vec::new();
    let mut text = String::new();
    effective(&run, &mut text, &mut paths);
    let rows = |wanted: &dyn Fn(&Meaning) -> Option<String>| {
        let keys = paths.iter().flat_map(|path| keys::foreign(path).iter().map(move |key| (*path, key)));
        keys.filter_map(move |(path, key)| {
            Some(format!("| `{}` | {} |\n", join(path, key.name), wanted(&key.meaning)?))
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
    text
}

fn effective(section: &SectionSpec, text: &mut String, paths: &mut Vec<&'static str>) {
    paths.push(section.path);
    if !section.keys.is_empty() {
        let title =
            if section.path.is_empty() { "Top level".to_owned() } else { format!("`{}`", section.path) };
        let head = "| Key | Type | Default | Meaning | Why this default |\n|---|---|---|---|---|";
        // Writing to a String cannot fail.
        let _ = writeln!(text, "### {title}\n\n{}\n\n{head}", section.about);
        for key in &section.keys {
            let default =
                if key.default.is_empty() { "needed".to_owned() } else { format!("`{}`", key.default) };
            let _ = writeln!(
                text,
                "| `{}` | {} | {default} | {} | {} |",
                key.name, key.expected, key.about, key.why
            );
        }
        text.push('\n');
    }
    for (_, inner) in &section.sections {
        effective(inner, text, paths);
    }
}
