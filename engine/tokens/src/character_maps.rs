//! Looks at maps of characters, as SentencePiece's tokenizers have them, before the library reads them.

/// Refuses a map of characters, as SentencePiece's tokenizers have, whose first number says that more bytes follow than there are: the library would
/// allocate them.
pub(super) fn check_character_maps(json: &serde_json::Value) -> Result<(), &'static str> {
    match json {
        serde_json::Value::Array(values) => values.iter().try_for_each(check_character_maps),
        serde_json::Value::Object(fields) => {
            let map = fields.get("precompiled_charsmap").and_then(|map| map.as_str());
            let is_whole =
                |map: &str| first_number(map).is_some_and(|bytes| bytes <= map.len() as u64 * 3 / 4);
            if map.is_some_and(|map| !is_whole(map)) {
                return Err("its `precompiled_charsmap` is cut short or damaged");
            }
            fields.values().try_for_each(check_character_maps)
        }
        _ => Ok(()),
    }
}

/// The first 32 bits of what a text in base64 stands for, little-endian.
fn first_number(text: &str) -> Option<u64> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |letter| DIGITS.iter().position(|&digit| digit == letter).map(|value| value as u64);
    let first = text.as_bytes().get(..6)?;
    let bits = first.iter().try_fold(0, |bits, &letter| Some(bits << 6 | digit(letter)?))?;
    // Six digits have 36 bits, of which the last 4 belong to the next byte.
    Some(u64::from(((bits >> 4) as u32).swap_bytes()))
}
