//! The blocks of a template that mark what the assistant says: `{% generation %}` to `{% endgeneration %}`, an extension of transformers.
//!
//! minijinja knows no tags but its own. So each becomes a condition that always holds, which trims the white space around it in the same way; and
//! the library says of each part of the output which part of the source has written it.

use std::ops::Range;

use minijinja::OutputSpan;

/// A template whose blocks are conditions.
#[derive(Debug)]
pub(super) struct Marked {
    pub(super) source: String,
    /// Where the blocks are in `source`, ascending.
    blocks: Vec<Range<usize>>,
}

/// What stands for the tags.
const BEGIN: &str = " if true ";
const END: &str = " endif ";

impl Marked {
    /// Finds the blocks. A tag without its other half stays, and is for the library to refuse.
    pub(super) fn new(template: &str) -> Self {
        let mut marked = Self { source: String::with_capacity(template.len()), blocks: Vec::new() };
        let (mut rest, mut begun) = (template, Vec::new());
        while let Some(at) = rest.find("{%") {
            marked.source.push_str(&rest[..at]);
            let tag = &rest[at..];
            let Some((open, name, close, len)) = tag_of(tag) else {
                marked.source.push_str("{%");
                rest = &tag[2..];
                continue;
            };
            if name == "endgeneration"
                && let Some(begin) = begun.pop()
            {
                marked.blocks.push(begin..marked.source.len());
            }
            let inside = if name == "generation" { BEGIN } else { END };
            marked.source.extend(["{%", open, inside, close, "%}"]);
            if name == "generation" {
                begun.push(marked.source.len());
            }
            rest = &tag[len..];
        }
        marked.source.push_str(rest);
        marked.blocks.sort_unstable_by_key(|block| block.start);
        marked
    }

    /// Whether it marks anything.
    pub(super) fn has_blocks(&self) -> bool {
        !self.blocks.is_empty()
    }

    /// The parts of the output that blocks have written, ascending; those of one block without anything between them are one.
    pub(super) fn written_by_blocks(&self, spans: &[OutputSpan]) -> Vec<Range<usize>> {
        let mut parts: Vec<Range<usize>> = Vec::new();
        for span in spans {
            let source = span.source_range();
            let is_inside = |block: &Range<usize>| block.start <= source.start && source.end <= block.end;
            if !self.blocks.iter().any(is_inside) {
                continue;
            }
            let output = span.output_range();
            match parts.last_mut().filter(|last| last.end == output.start) {
                Some(last) => last.end = output.end,
                None => parts.push(output),
            }
        }
        parts
    }
}

/// The control of white space before and behind the name in a tag of a block, the name, and the length of the tag.
fn tag_of(tag: &str) -> Option<(&str, &str, &str, usize)> {
    let inside = tag.strip_prefix("{%")?;
    let end = inside.find("%}")?;
    let len = 2 + end + 2;
    let inside = &inside[..end];
    let is_control = |sign: &str| sign == "-" || sign == "+";
    let open = inside.get(..1).filter(|sign| is_control(sign)).unwrap_or("");
    let inside = &inside[open.len()..];
    let close = inside.get(inside.len().saturating_sub(1)..).filter(|sign| is_control(sign)).unwrap_or("");
    let name = inside[..inside.len() - close.len()].trim();
    matches!(name, "generation" | "endgeneration").then_some((open, name, close, len))
}
