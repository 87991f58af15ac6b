//! Source text as miette shows it below an error: the marked place and the lines around it; of a long line, only a part.

use miette::{MietteError, MietteSpanContents, SourceCode, SourceSpan, SpanContents};

use super::source::{Source, SourceKind};

/// Bytes of a line that is drawn as a whole, with the lines around it.
const LINE_BYTES_MAX: usize = 2000;

/// A part of a long line around a place: that, and a little on both sides.
fn around(text: &str, span: &SourceSpan) -> SourceSpan {
    const BESIDE: usize = 40;
    let (start, end) = (span.offset(), span.offset() + span.len());
    let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
    let line_end = text[end..].find('\n').map_or(text.len(), |newline| end + newline);
    let from = text.ceil_char_boundary(start.saturating_sub(BESIDE).max(line_start));
    let to = text.floor_char_boundary((end + BESIDE).min(line_end));
    (from, to.max(end) - from).into()
}

impl SourceCode for Source {
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        context_lines_before: usize,
        context_lines_after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let mut inner = self.drawn().read_span(span, context_lines_before, context_lines_after)?;
        if inner.data().split(|&byte| byte == b'\n').any(|line| line.len() > LINE_BYTES_MAX) {
            inner = self.drawn().read_span(&around(self.drawn(), span), 0, 0)?;
        }
        let name = match self.kind {
            SourceKind::File => self.name.clone(),
            SourceKind::Argument => "--set".to_owned(),
        };
        Ok(Box::new(MietteSpanContents::new_named(
            name,
            inner.data(),
            *inner.span(),
            inner.line(),
            inner.column(),
            inner.line_count(),
        )))
    }
}
