//! A short name for a program, so that a trace is never read beside another one.
//!
//! FNV-1a of 64 bits over the program's text (Fowler, Noll and Vo): written down in a few lines and the same for
//! ever, which the standard library's hasher does not promise. It guards against mix-ups, not against malice.

use std::fmt::{self, Write};

use pipezero_schedule::Program;

const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// The name of a program: 16 digits, the same for equal texts.
pub(super) fn fingerprint(program: &Program) -> String {
    let mut hash = Fnv(OFFSET);
    write!(hash, "{program}").expect("a hash takes any text");
    format!("{:016x}", hash.0)
}

struct Fnv(u64);

impl Write for Fnv {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 = text.bytes().fold(self.0, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of the authors' own test suite, isthe.com/chongo/tech/comp/fnv.
    #[test]
    fn published_hashes() {
        for (text, expected) in
            [("", 0xcbf2_9ce4_8422_2325), ("a", 0xaf63_dc4c_8601_ec8c), ("foobar", 0x8594_4171_f739_67e8)]
        {
            let mut hash = Fnv(OFFSET);
            hash.write_str(text).unwrap();
            assert_eq!(hash.0, expected, "{text}");
        }
    }
}
