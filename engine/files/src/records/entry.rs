//! Cuts a value out of JSON by counting brackets, without parsing it.

/// How far a value has been read. What is no JSON is for the parser to say: here it may end too early or too late, and in both cases no parser
/// takes it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Brackets {
    kind: Kind,
    depth: usize,
    is_in_string: bool,
    is_escaped: bool,
}

/// Which value it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    /// It has not begun.
    #[default]
    None,
    /// An object or a list, which ends with its bracket.
    Nested,
    /// A string, which ends with its quote.
    String,
    /// A number or a word, which ends before what is no part of it.
    Word,
}

impl Brackets {
    pub(super) fn is_before_value(self) -> bool {
        self.kind == Kind::None
    }

    pub(super) fn is_in_string(self) -> bool {
        self.is_in_string
    }

    /// Whether the value ends before this byte, which is no part of it.
    pub(super) fn ends_before(self, byte: u8) -> bool {
        self.kind == Kind::Word && (is_space(byte) || matches!(byte, b',' | b']' | b'}' | b'[' | b'{' | b'"'))
    }

    /// Goes on over a byte of the value; whether the value ends with it.
    pub(super) fn ends_with(&mut self, byte: u8) -> bool {
        if self.is_in_string {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => self.is_in_string = false,
                _ => {}
            }
            return !self.is_in_string && self.kind == Kind::String;
        }
        match byte {
            b'"' => {
                self.is_in_string = true;
                self.begin(Kind::String);
            }
            b'{' | b'[' => {
                self.depth += 1;
                self.begin(Kind::Nested);
            }
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                self.begin(Kind::Nested);
                return self.depth == 0;
            }
            _ => self.begin(Kind::Word),
        }
        false
    }

    fn begin(&mut self, kind: Kind) {
        if self.is_before_value() {
            self.kind = kind;
        }
    }
}

/// Whether it is white space of JSON.
pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}
