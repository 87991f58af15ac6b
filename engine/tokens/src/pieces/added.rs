//! Added tokens, which a tokenizer looks for in a text before all else.

use std::collections::HashSet;

use tokenizers::{AddedToken, NormalizedString, Normalizer, NormalizerWrapper};

/// The added tokens, as far as they matter to a cut.
#[derive(Debug, Default)]
pub(super) struct Added {
    /// Pairs of neighbouring characters in a token.
    inner: HashSet<(char, char)>,
    /// Whether a token includes the white space before or after it.
    has_strip: bool,
    /// The last characters of tokens that take the white space behind them.
    before_space: HashSet<char>,
    /// The first and last characters of tokens that are found only as whole words.
    word_begins: HashSet<char>,
    word_ends: HashSet<char>,
}

impl Added {
    /// Looks at these tokens; `None` if the normalizer fails for one.
    pub(super) fn of(
        tokens: impl Iterator<Item = AddedToken>,
        normalizer: Option<&NormalizerWrapper>,
    ) -> Option<Self> {
        let mut added = Self::default();
        for token in tokens {
            added.add(&token, &token.content);
            if let Some(normalizer) = normalizer {
                let mut changed = NormalizedString::from(token.content.as_str());
                normalizer.normalize(&mut changed).ok()?;
                added.add(&token, changed.get());
            }
        }
        Some(added)
    }

    fn add(&mut self, token: &AddedToken, written: &str) {
        self.inner.extend(written.chars().zip(written.chars().skip(1)));
        self.has_strip |= token.lstrip || token.rstrip;
        if token.rstrip {
            self.before_space.extend(written.chars().next_back());
        }
        if token.single_word {
            self.word_begins.extend(written.chars().next());
            self.word_ends.extend(written.chars().next_back());
        }
    }

    /// Whether the same tokens are found on both sides of a cut between these characters as in the whole text.
    pub(super) fn are_apart(&self, before: char, after: char) -> bool {
        let is_stripped = self.has_strip && before.is_whitespace() || self.before_space.contains(&before);
        let is_looked_at = self.word_ends.contains(&before) || self.word_begins.contains(&after);
        !is_stripped && !is_looked_at && !self.inner.contains(&(before, after))
    }
}
