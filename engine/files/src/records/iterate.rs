//! All records of a file, each with its line.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;

use crate::opened::open_regular;

use super::error::{RecordError, RecordFault};
use super::layout::Layout;
use super::read::{Record, read};

/// The records of a file, in order; those of nothing but white space are left out. It ends with the first mistake.
#[derive(Debug)]
pub struct Records {
    from: BufReader<File>,
    layout: Layout,
    /// The line on which the next one begins, from 1.
    line: u64,
    is_first: bool,
    has_ended: bool,
}

impl Records {
    /// Opens a file, and looks at its form.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn open(path: &Path) -> io::Result<Self> {
        let layout = Layout::of(path, None)?;
        let from = BufReader::with_capacity(1 << 18, open_regular(path)?);
        Ok(Self { from, layout, line: 1, is_first: true, has_ended: false })
    }

    /// How its documents follow each other.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }
}

impl Iterator for Records {
    /// The line on which a record or a mistake begins, and the record.
    type Item = (u64, Result<String, RecordFault>);

    fn next(&mut self) -> Option<Self::Item> {
        while !self.has_ended {
            match read(&mut self.from, &self.layout, self.is_first) {
                Ok(Record { text, bytes, lines_before, is_last }) => {
                    (self.is_first, self.has_ended) = (false, is_last);
                    let line = self.line + lines_before;
                    self.line += bytes.iter().filter(|&&byte| byte == b'\n').count() as u64;
                    if !text.trim().is_empty() {
                        return Some((line, Ok(text)));
                    }
                }
                Err(RecordError { lines_before, fault }) => {
                    self.has_ended = true;
                    return Some((self.line + lines_before, Err(fault)));
                }
            }
        }
        None
    }
}
