//! Paths and texts in messages.

/// `section.key` or `list[0]`; either part may be empty.
pub fn join(section: &str, key: &str) -> String {
    let dot = if section.is_empty() || key.is_empty() || key.starts_with('[') { "" } else { "." };
    [section, dot, key].concat()
}

/// The text on one line and at most 40 characters long: a message must stay readable whatever the file holds.
pub fn shorten(text: &str) -> String {
    let mut characters = text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c });
    let head: String = characters.by_ref().take(40).collect();
    if characters.next().is_some() { head + "..." } else { head }
}
