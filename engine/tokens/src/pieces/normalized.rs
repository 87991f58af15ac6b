//! The result of a normalizer for two neighbouring characters of a text.

use tokenizers::{NormalizedString, Normalizer, NormalizerWrapper};

/// The characters on both sides of a cut between these two after the normalizer; `None` unless it is known that it makes the same of both sides
/// as of the whole text.
pub(super) fn pair(normalizer: &NormalizerWrapper, before: char, after: char) -> Option<(char, char)> {
    use NormalizerWrapper as Kind;
    match normalizer {
        Kind::Sequence(steps) => {
            steps.as_ref().iter().try_fold((before, after), |(before, after), step| pair(step, before, after))
        }
        // Each character for itself.
        Kind::Lowercase(_) | Kind::Nmt(_) | Kind::StripAccents(_) => each(normalizer, before, after),
        // Forms of Unicode join characters with those before and behind them, but not these.
        Kind::NFC(_) | Kind::NFD(_) | Kind::NFKC(_) | Kind::NFKD(_) | Kind::BertNormalizer(_) => {
            (begins_anew(before) && is_alone(after)).then(|| each(normalizer, before, after)).flatten()
        }
        // They look at the ends of the text, or at more than one character.
        Kind::StripNormalizer(_)
        | Kind::Precompiled(_)
        | Kind::Replace(_)
        | Kind::Prepend(_)
        | Kind::ByteLevel(_) => None,
    }
}

/// Whether no form of Unicode joins it with what stands before it: letters that are no marks, of the scripts in which most is written (UAX #15, section 9).
fn begins_anew(character: char) -> bool {
    let is_letter = matches!(character,
        // Latin, Greek, Cyrillic, Hebrew, Arabic, Devanagari and Thai.
        '\u{c0}'..='\u{24f}' | '\u{370}'..='\u{3ff}' | '\u{400}'..='\u{481}' | '\u{48a}'..='\u{52f}'
        | '\u{5d0}'..='\u{5ea}' | '\u{621}'..='\u{64a}' | '\u{904}'..='\u{939}' | '\u{e01}'..='\u{e30}'
        // Kana, and syllables of Hangul.
        | '\u{3041}'..='\u{3096}' | '\u{30a1}'..='\u{30fa}' | '\u{ac00}'..='\u{d7a3}');
    character.is_ascii() || is_chinese(character) || is_letter
}

/// Whether no form of Unicode joins it with anything: white space, and Chinese characters.
fn is_alone(character: char) -> bool {
    matches!(character, ' ' | '\n' | '\r' | '\t') || is_chinese(character)
}

/// Chinese characters and their most frequent punctuation.
fn is_chinese(character: char) -> bool {
    matches!(character, '\u{4e00}'..='\u{9fff}' | '\u{3001}'..='\u{3011}')
}

/// The last character that it makes of the first one, and the first one of the second; `None` if it makes nothing of one.
fn each(normalizer: &NormalizerWrapper, before: char, after: char) -> Option<(char, char)> {
    let normalized = |character: char| {
        let mut text = NormalizedString::from(character.to_string());
        normalizer.normalize(&mut text).ok()?;
        Some(text.get().to_owned())
    };
    Some((normalized(before)?.chars().next_back()?, normalized(after)?.chars().next()?))
}
