//! The text of tokens that come one by one: each piece as soon as nothing that follows can change it.
//!
//! A piece is found by decoding twice: the last tokens together with those of the piece before, and those alone; what the first text has more is
//! the piece. The tokens before are decoded too because a decoder treats the beginning of a text in its own way. Rejected: to decode everything
//! for each token, which takes time in the square of their number; and the library's `DecodeStream`, which fails where one more byte turns
//! bytes that were shown as several characters into one.

use super::codec::TextCodec;
use super::tokenizer::{Tokenizer, TokenizerError};

/// The text of tokens that come one by one.
///
/// All pieces together are the text of all tokens. Cost: each token is decoded about three times, but for tokens that wait for others to
/// complete a character, which are decoded again for each of these.
#[derive(Debug)]
pub struct TextStream<'a> {
    codec: &'a TextCodec,
    /// The last tokens.
    window: Vec<u32>,
    /// How many of these the pieces have the text of.
    num_given: usize,
    /// Bytes of their text.
    given_bytes: usize,
}

impl<'a> TextStream<'a> {
    /// Of a text that goes on from these tokens, whose text has been given.
    ///
    /// # Errors
    /// When the tokenizer's decoder fails.
    pub fn after(codec: &'a TextCodec, tokens: &[u32]) -> Result<Self, TokenizerError> {
        let given_bytes = codec.decode(tokens)?.len();
        Ok(Self { codec, window: tokens.to_vec(), num_given: tokens.len(), given_bytes })
    }

    /// The text that another token adds: nothing while what follows may change it. Where tokens are bytes it is the byte, which may be a
    /// part of a character.
    ///
    /// # Errors
    /// When the tokenizer's decoder fails.
    pub fn push(&mut self, token: u32) -> Result<Vec<u8>, TokenizerError> {
        match self.codec {
            TextCodec::Bytes => Ok(u8::try_from(token).into_iter().collect()),
            TextCodec::Tokenizer(tokenizer) => {
                self.window.push(token);
                if tokenizer.settles(token) { self.piece(tokenizer) } else { Ok(Vec::new()) }
            }
        }
    }

    fn piece(&mut self, tokenizer: &Tokenizer) -> Result<Vec<u8>, TokenizerError> {
        let text = tokenizer.decode(&self.window)?;
        let piece = behind(&text, self.given_bytes);
        // A character that its last tokens are still to complete is shown as U+FFFD.
        if piece.is_empty() || piece.ends_with('\u{FFFD}') {
            return Ok(Vec::new());
        }
        let new = self.window.split_off(self.num_given);
        self.given_bytes = tokenizer.decode(&new)?.len();
        self.num_given = new.len();
        self.window = new;
        Ok(piece.as_bytes().to_vec())
    }

    /// What is left when no token follows: a character that was not completed.
    ///
    /// # Errors
    /// When the tokenizer's decoder fails.
    pub fn finish(self) -> Result<Vec<u8>, TokenizerError> {
        match self.codec {
            TextCodec::Bytes => Ok(Vec::new()),
            TextCodec::Tokenizer(tokenizer) => {
                let text = tokenizer.decode(&self.window)?;
                Ok(behind(&text, self.given_bytes).as_bytes().to_vec())
            }
        }
    }
}

/// The text behind so many bytes, from the next whole character on: bytes of a text that was given before may turn out to be no character.
fn behind(text: &str, num_bytes: usize) -> &str {
    &text[text.ceil_char_boundary(num_bytes)..]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;
    use crate::train_tokenizer;

    const TEXT: &str = "the Käse, the Øl, 世界, 世上, \u{1f980}\u{1f990}, e\u{301}, \u{FFFD} the end ";

    /// A byte-level BPE with all bytes and some pairs: characters of several bytes are one token, or several.
    fn byte_level() -> TextCodec {
        let file = tempfile::NamedTempFile::new().unwrap();
        train_tokenizer([TEXT.repeat(3)].into_iter(), 290, file.path()).unwrap();
        TextCodec::of(Some(Tokenizer::load(file.path(), None).unwrap()))
    }

    /// A tokenizer with these tokens, of which the first is special, and this decoder.
    fn of_tokens(tokens: &[String], decoder: &serde_json::Value) -> TextCodec {
        let vocabulary: serde_json::Map<_, _> =
            tokens.iter().zip(0..).map(|(name, number)| (name.clone(), serde_json::json!(number))).collect();
        let json = serde_json::json!({
            "added_tokens": [{"id": 0, "content": tokens[0], "single_word": false, "lstrip": false, "rstrip": false,
                              "normalized": false, "special": true}],
            "decoder": decoder,
            "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": tokens[0]},
        });
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), json.to_string()).unwrap();
        TextCodec::of(Some(Tokenizer::load(file.path(), None).unwrap()))
    }

    /// As Llama 2's: what has no token is written in bytes, and bytes in a row that are no text are one U+FFFD each.
    fn byte_fallback() -> TextCodec {
        let words =
            ["</s>", "\u{2581}the", "\u{2581}", "\u{2581}\u{2581}", "a", "世", "\u{FFFD}"].map(str::to_owned);
        let bytes = [0x61, 0xE4, 0xB8, 0x96, 0xC3, 0xA4].map(|byte: u8| format!("<0x{byte:02X}>"));
        let decoder = serde_json::json!({"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "\u{2581}"}, "content": " "},
            {"type": "ByteFallback"},
            {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        ]});
        of_tokens(&[&words[..], &bytes].concat(), &decoder)
    }

    fn codecs() -> Vec<TextCodec> {
        let words = ["[PAD]", "the", "##s", ".", "n't", "\u{FFFD}"].map(str::to_owned);
        let spaces = ["<s>", "\u{2581}the", "\u{2581}", "a", "\u{2581}\u{2581}"].map(str::to_owned);
        vec![
            byte_level(),
            byte_fallback(),
            of_tokens(&words, &serde_json::json!({"type": "WordPiece", "prefix": "##", "cleanup": true})),
            of_tokens(
                &spaces,
                &serde_json::json!({"type": "Metaspace", "replacement": "\u{2581}", "prepend_scheme": "always"}),
            ),
            of_tokens(&["<s>", "a", "b"].map(str::to_owned), &serde_json::Value::Null),
            TextCodec::Bytes,
        ]
    }

    /// The text that is given after each token, and at the end.
    fn given(codec: &TextCodec, before: &[u32], tokens: &[u32]) -> Vec<Vec<u8>> {
        let mut stream = TextStream::after(codec, before).unwrap();
        let mut text = Vec::new();
        let mut given: Vec<Vec<u8>> = Vec::new();
        for &token in tokens {
            text.extend(stream.push(token).unwrap());
            given.push(text.clone());
        }
        text.extend(stream.finish().unwrap());
        given.push(text);
        given
    }

    /// The text of tokens as the codec decodes it, in bytes where tokens are bytes.
    fn decoded(codec: &TextCodec, tokens: &[u32]) -> Vec<u8> {
        match codec {
            TextCodec::Bytes => tokens.iter().filter_map(|&token| u8::try_from(token).ok()).collect(),
            TextCodec::Tokenizer(tokenizer) => tokenizer.decode(tokens).unwrap().into_bytes(),
        }
    }

    /// Random tokens of each tokenizer, some of them beyond its vocabulary: the pieces are the text of all tokens, and at no time more than
    /// its beginning.
    #[test]
    fn all_pieces_are_the_text_of_all_tokens() {
        for codec in codecs() {
            let vocab_size = match &codec {
                TextCodec::Bytes => 256,
                TextCodec::Tokenizer(tokenizer) => tokenizer.vocab_size() as u32,
            };
            proptest!(|(tokens in prop::collection::vec(0..vocab_size + 2, 0..40))| {
                let given = given(&codec, &[], &tokens);
                let whole = decoded(&codec, &tokens);
                prop_assert_eq!(given.last().unwrap(), &whole);
                prop_assert!(given.iter().all(|given| whole.starts_with(given)));
            });
        }
    }

    /// Also where the text before ends within what the tokenizer would join, and with tokens that go on from a text.
    #[test]
    fn pieces_go_on_from_a_text() {
        let codec = byte_level();
        const TEXTS: [&str; 5] = ["the ", "世", "a \u{FFFD}", "\u{1f980}", "e"];
        proptest!(|(text in select(&TEXTS[..]), tokens in prop::collection::vec(0..290_u32, 0..20))| {
            let before = codec.prompt(text).unwrap();
            let whole = decoded(&codec, &[&before[..], &tokens].concat());
            let expected = whole.strip_prefix(text.as_bytes()).unwrap();
            let given = given(&codec, &before, &tokens);
            prop_assert_eq!(given.last().unwrap(), expected);
        });
    }

    /// A whole character is given with its last token, and nothing of one before.
    #[test]
    fn text_is_given_as_soon_as_a_character_is_whole() {
        let codec = byte_level();
        proptest!(|(tokens in prop::collection::vec(0..290_u32, 1..40))| {
            for (number, given) in (1..).zip(given(&codec, &[], &tokens)).take(tokens.len()) {
                let text = codec.decode(&tokens[..number]).unwrap();
                let is_whole = !text.ends_with('\u{FFFD}');
                let is_special = Some(tokens[number - 1]) == codec.end_token();
                prop_assert!(given == text.as_bytes() || !is_whole || is_special);
            }
        });
    }

    /// A byte of a text that was given may turn out to be no character: what follows is given all the same.
    #[test]
    fn bytes_that_spoil_the_text_before_end_no_stream() {
        let codec = byte_fallback();
        let TextCodec::Tokenizer(tokenizer) = &codec else { panic!("a tokenizer") };
        let [e4, b8, of_96, a] = [8, 9, 10, 4];
        assert_eq!(tokenizer.name_of(of_96).as_deref(), Some("<0x96>"));
        // 世 in three bytes, and then a byte that makes U+FFFD of all four.
        let given = given(&codec, &[e4, b8, of_96], &[e4, a]);
        assert_eq!(String::from_utf8_lossy(given.last().unwrap()), "\u{FFFD}\u{FFFD}\u{FFFD}a");
    }

    /// What is decoded for a token does not grow with the text before it.
    #[test]
    fn the_window_stays_short() {
        let codec = byte_level();
        let tokens = codec.prompt(&TEXT.repeat(20)).unwrap();
        let mut stream = TextStream::after(&codec, &[]).unwrap();
        let mut longest = 0;
        for token in tokens {
            stream.push(token).unwrap();
            longest = longest.max(stream.window.len());
        }
        assert!((2..12).contains(&longest), "{longest}");
    }
}
