//! Elements of a parameter, or of its optimizer state, as a file names them.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// A range of elements of one parameter, or of one of its states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// `parameter`, or the optimizer's name of a state, such as `exp_avg`.
    pub kind: String,
    /// The parameter's name, such as `h.0.attn.qkv.weight`.
    pub name: String,
    /// Its elements, in row-major order of the whole parameter.
    pub range: Range<usize>,
}

impl Piece {
    /// What pieces of parameters themselves have for their kind.
    pub const PARAMETER: &str = "parameter";
}

/// `exp_avg/h.0.attn.qkv.weight/512..1024`: the name of a tensor in a file.
impl fmt::Display for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}..{}", self.kind, self.name, self.range.start, self.range.end)
    }
}

/// A name that no piece has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAPiece;

impl FromStr for Piece {
    type Err = NotAPiece;

    fn from_str(text: &str) -> Result<Self, NotAPiece> {
        let (kind, rest) = text.split_once('/').ok_or(NotAPiece)?;
        let (name, range) = rest.rsplit_once('/').ok_or(NotAPiece)?;
        let (start, end) = range.split_once("..").ok_or(NotAPiece)?;
        let (start, end) = (start.parse().map_err(|_| NotAPiece)?, end.parse().map_err(|_| NotAPiece)?);
        if kind.is_empty() || name.is_empty() || start >= end {
            return Err(NotAPiece);
        }
        Ok(Self { kind: kind.to_owned(), name: name.to_owned(), range: start..end })
    }
}
