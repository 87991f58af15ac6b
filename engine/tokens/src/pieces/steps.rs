//! The steps of a pre-tokenizer, which cut a text into words.

use tokenizers::pre_tokenizers::split::SplitPattern;
use tokenizers::{
    OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer, PreTokenizerWrapper,
    SplitDelimiterBehavior,
};

use super::pattern::{Pattern, escaped};

/// GPT-2's expression, which the library's `ByteLevel` has.
const GPT_2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// The steps, in order.
#[derive(Debug)]
pub(super) struct Steps {
    steps: Vec<Step>,
    /// The character that a step writes at the beginning of a text, unless the text begins with it.
    first: Option<char>,
}

#[derive(Debug)]
enum Step {
    /// Matches of an expression; whether each is a word, or what stands between words.
    Matches { pattern: Pattern, is_each_apart: bool },
    /// Whether a word ends between two characters depends on nothing but these two.
    Pairs(PreTokenizerWrapper),
    /// Writes a character before words, and begins a word at each, if it cuts at all.
    Metaspace { replacement: char, cuts: bool },
    /// May write a space before a text, cuts it, and writes it as bytes.
    ByteLevel { writes_space: bool, pattern: Option<Pattern> },
    /// A step whose effect on a cut is not known.
    Other,
}

/// The effect of a step between two neighbouring characters.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Across {
    /// A word ends there, and all words are those of both sides.
    Apart,
    /// All words are those of both sides, except that the last one before the place and the first one after it may be one word.
    Joined,
    Unknown,
}

impl Steps {
    /// Takes the steps of a pre-tokenizer; `None` if no step is known to end words.
    pub(super) fn of(pre_tokenizer: &PreTokenizerWrapper) -> Option<Self> {
        use tokenizers::pre_tokenizers::metaspace::PrependScheme;
        let (mut steps, mut first) = (Vec::new(), None);
        for kind in inner(pre_tokenizer) {
            if let PreTokenizerWrapper::Metaspace(metaspace) = kind
                && metaspace.get_prepend_scheme() == PrependScheme::First
            {
                first = Some(metaspace.get_replacement());
            }
            steps.push(Step::of(kind));
        }
        let has_known = steps.iter().any(|step| !matches!(step, Step::Other));
        has_known.then_some(Self { steps, first })
    }

    /// Whether a word ends wherever the second character follows the first, and all words are those of both sides.
    pub(super) fn are_apart(&self, before: char, after: char) -> bool {
        let is_written = self.first.is_some_and(|first| after != ' ' && after != first);
        // Behind the first step that ends a word there, each word is treated for itself.
        let decided =
            self.steps.iter().map(|step| step.across(before, after)).find(|&across| across != Across::Joined);
        !is_written && decided == Some(Across::Apart)
    }
}

/// The steps of a pre-tokenizer, those of sequences in sequences too.
fn inner(pre_tokenizer: &PreTokenizerWrapper) -> Vec<&PreTokenizerWrapper> {
    match pre_tokenizer {
        PreTokenizerWrapper::Sequence(steps) => steps.as_ref().iter().flat_map(inner).collect(),
        step => vec![step],
    }
}

impl Step {
    fn of(kind: &PreTokenizerWrapper) -> Self {
        use SplitDelimiterBehavior::{Contiguous, Isolated, Removed};
        match kind {
            PreTokenizerWrapper::Split(split) => {
                let pattern = match &split.pattern {
                    SplitPattern::String(text) => Pattern::of(&escaped(text)),
                    SplitPattern::Regex(expression) => Pattern::of(expression),
                };
                match (pattern, split.behavior) {
                    (Some(pattern), Isolated | Removed) => Self::Matches { pattern, is_each_apart: true },
                    (Some(pattern), Contiguous) => Self::Matches { pattern, is_each_apart: false },
                    _ => Self::Other,
                }
            }
            PreTokenizerWrapper::ByteLevel(level) => {
                let pattern = if level.use_regex { Pattern::of(GPT_2) } else { None };
                Self::ByteLevel { writes_space: level.add_prefix_space, pattern }
            }
            PreTokenizerWrapper::Metaspace(metaspace) => {
                Self::Metaspace { replacement: metaspace.get_replacement(), cuts: metaspace.get_split() }
            }
            PreTokenizerWrapper::Punctuation(punctuation)
                if !matches!(punctuation.behavior, Isolated | Removed | Contiguous) =>
            {
                Self::Other
            }
            PreTokenizerWrapper::BertPreTokenizer(_)
            | PreTokenizerWrapper::Delimiter(_)
            | PreTokenizerWrapper::Whitespace(_)
            | PreTokenizerWrapper::WhitespaceSplit(_)
            | PreTokenizerWrapper::Digits(_)
            | PreTokenizerWrapper::Punctuation(_) => Self::Pairs(kind.clone()),
            PreTokenizerWrapper::UnicodeScripts(_)
            | PreTokenizerWrapper::FixedLength(_)
            | PreTokenizerWrapper::Sequence(_) => Self::Other,
        }
    }

    fn across(&self, before: char, after: char) -> Across {
        match self {
            Self::Other => Across::Unknown,
            Self::Matches { pattern, .. } if pattern.reaches_across(before, after) => Across::Unknown,
            Self::Matches { pattern, is_each_apart: true } if pattern.matches_alone(before) => Across::Apart,
            Self::Matches { .. } => Across::Joined,
            Self::Pairs(kind) => match is_cut(kind, before, after) {
                Some(true) => Across::Apart,
                Some(false) => Across::Joined,
                None => Across::Unknown,
            },
            Self::Metaspace { replacement, cuts } => {
                if *cuts && (after == ' ' || after == *replacement) {
                    Across::Apart
                } else {
                    Across::Unknown
                }
            }
            // Without a cut the steps behind it see bytes, and no longer these characters.
            Self::ByteLevel { writes_space, pattern } => {
                let is_apart = |pattern: &Pattern| {
                    !pattern.reaches_across(before, after) && pattern.matches_alone(before)
                };
                let is_written = *writes_space && after != ' ';
                if !is_written && pattern.as_ref().is_some_and(is_apart) {
                    Across::Apart
                } else {
                    Across::Unknown
                }
            }
        }
    }
}

/// Whether it ends a word between two characters, of which the text consists.
fn is_cut(kind: &PreTokenizerWrapper, before: char, after: char) -> Option<bool> {
    let mut words = PreTokenizedString::from(format!("{before}{after}").as_str());
    kind.pre_tokenize(&mut words).ok()?;
    let splits = words.get_splits(OffsetReferential::Original, OffsetType::Byte);
    let place = before.len_utf8();
    Some(splits.iter().all(|(_, (start, end), _)| *end <= place || *start >= place))
}
