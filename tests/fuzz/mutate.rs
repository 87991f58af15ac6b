//! Changes to valid input, as damage and careless hands make them.

use tests::Draws;

/// What numbers are replaced by.
const NUMBERS: [&str; 14] = [
    "0",
    "-1",
    "1",
    "2",
    "255",
    "65536",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "99999999999999999999",
    "1e308",
    "1e-9",
    "0.5",
];

/// What is put between the bytes.
const TOKENS: [&str; 22] = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "null",
    "true",
    "\"auto\"",
    "{}",
    "[]",
    "//",
    "/*",
    "\n",
    " ",
    "\\u0000",
    "\u{1f600}",
    "..",
    "-",
    "e9",
    "0",
];

/// One to four changes.
pub(super) fn mutated(draws: &mut Draws, input: &[u8]) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..draws.below(4) + 1 {
        change(draws, &mut bytes);
    }
    bytes
}

fn change(draws: &mut Draws, bytes: &mut Vec<u8>) {
    let at = draws.below(bytes.len().max(1));
    let len = 1 + draws.below(40).min(bytes.len().saturating_sub(at + 1));
    let range = at.min(bytes.len())..(at + len).min(bytes.len());
    match draws.below(8) {
        0 if !bytes.is_empty() => bytes[at] ^= 1 << draws.below(8),
        1 => drop(bytes.drain(range)),
        2 => {
            let copy = bytes[range].to_vec();
            let to = draws.below(bytes.len() + 1);
            bytes.splice(to..to, copy).for_each(drop);
        }
        3 => bytes.truncate(at),
        4 => {
            let token = draws.of(&TOKENS);
            bytes.splice(at.min(bytes.len())..at.min(bytes.len()), token.bytes()).for_each(drop);
        }
        // Numbers decide sizes, so they are changed most.
        _ => replace_number(draws, bytes, at),
    }
}

/// Replaces the next number from a place on.
fn replace_number(draws: &mut Draws, bytes: &mut Vec<u8>, at: usize) {
    let Some(start) = bytes.iter().skip(at).position(u8::is_ascii_digit).map(|skipped| at + skipped) else {
        return;
    };
    let len = bytes[start..].iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
    let number = draws.of(&NUMBERS);
    bytes.splice(start..start + len, number.bytes()).for_each(drop);
}
