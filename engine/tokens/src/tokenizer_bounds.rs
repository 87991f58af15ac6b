//! Bounds of what a tokenizer.json may make of a text: it is a small program, and anybody may have written it.
//!
//! A few hundred bytes can make gigabytes of one letter, by forty steps of which each doubles the text, or millions of tokens, by a template of many
//! parts. The library has no bounds of its own and cannot be stopped. So what each part of the file can add is computed before it is used. How long its regular
//! expressions take shows only while they do ([`bounded_time`](super::bounded_time)).

use std::collections::HashSet;

use serde_json::Value;

/// How many times as long a part may make any text.
const GROWTH_MAX: u64 = 1024;
/// How many times as long a part may make a text whose result may have more than [`BYTES_MAX`].
const GROWTH_OF_LONG: u64 = 140;
/// Bytes of the longest form of a character that Unicode has, U+FDFA: published maps of characters have no longer one.
const LONGEST_FORM: u64 = 33;
/// Bytes of a text after it has grown: the library keeps some twenty bytes for each meanwhile.
const BYTES_MAX: u64 = 16 << 20;
/// Bytes of a text that is made of tokens at once.
const DECODED_MAX: u64 = 64 << 20;
/// Steps of a part: published ones have up to ten.
const STEPS_MAX: usize = 64;
/// How often a template may have the text.
const REPEATS_MAX: u64 = 16;
/// Tokens that a template may add to a text.
const ADDED_MAX: u64 = 4096;
/// Letters of the longest word that WordPiece looks up: its time is the square of it. BERT has 100.
const WORD_MAX: u64 = 10_000;
/// Tokens that are added to a model's: published ones have up to some ten thousands.
const ADDED_TOKENS_MAX: usize = 200_000;
/// Merges of a BPE model: published ones have up to 600,000.
const MERGES_MAX: usize = 1_000_000;
/// Different lengths of tokens of a Unigram model: as many tokens may begin at each place of a text.
const LENGTHS_MAX: usize = 256;

/// How much longer the parts of a tokenizer can make texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Growth {
    /// The part that makes most of a text, and how many times as long.
    most: (&'static str, u64),
    /// The first part with a regular expression, which may be slow; else the model.
    slowest: &'static str,
    /// How many times as long the decoder makes the names of tokens.
    decoder: u64,
}

impl Growth {
    /// Reads it off a tokenizer.json.
    ///
    /// # Errors
    /// The part, and what it does, if that is more than any published tokenizer does.
    pub(super) fn of(json: &Value) -> Result<Self, String> {
        check_template(&json["post_processor"])?;
        check_model(&json["model"])?;
        let num_added = json["added_tokens"].as_array().map_or(0, Vec::len);
        if num_added > ADDED_TOKENS_MAX {
            return Err(format!(
                "it has {num_added} `added_tokens`, and at most {ADDED_TOKENS_MAX} are read; use another tokenizer"
            ));
        }
        let (mut most, mut decoder) = (("normalizer", 1), 1);
        for part in ["normalizer", "pre_tokenizer", "decoder", "post_processor"] {
            let num_steps = steps(&json[part]).len();
            if num_steps > STEPS_MAX {
                return Err(format!(
                    "its `{part}` has {num_steps} steps, and at most {STEPS_MAX} are read; use another tokenizer"
                ));
            }
            let growth = growth_of(&json[part]);
            if growth > GROWTH_MAX {
                return Err(format!(
                    "its `{part}` can make a text {growth} times as long, and at most {GROWTH_MAX} times is read"
                ));
            }
            match part {
                "decoder" => decoder = growth,
                _ if growth > most.1 => most = (part, growth),
                _ => {}
            }
        }
        let has_expression = |part: &&&str| has_key(&json[**part], "Regex");
        let slowest = ["normalizer", "pre_tokenizer"].iter().find(has_expression).copied().unwrap_or("model");
        Ok(Self { most, slowest, decoder })
    }

    /// Says that a text of so many bytes took too long.
    pub(super) fn too_slow(self, num_bytes: usize, seconds: u64) -> String {
        let part = self.slowest;
        format!(
            "its `{part}` takes more than {seconds} s for {num_bytes} bytes; use another tokenizer, or simplify that part"
        )
    }

    /// Says that the texts of tokens took too long.
    pub(super) fn decodes_too_slowly(seconds: u64) -> String {
        format!("its `decoder` takes more than {seconds} s; use another tokenizer, or simplify that part")
    }

    /// Refuses tokens whose names have so many bytes if their text could become too long.
    pub(super) fn check_decoded(self, num_bytes: usize) -> Result<(), String> {
        let decoded = self.decoder.saturating_mul(num_bytes as u64);
        match decoded > DECODED_MAX {
            true => Err(format!(
                "its `decoder` can make {decoded} bytes of tokens of {num_bytes}, and at most {DECODED_MAX} are made; use another tokenizer"
            )),
            false => Ok(()),
        }
    }

    /// Refuses a text of so many bytes if it could become too long.
    pub(super) fn check(self, num_bytes: usize) -> Result<(), String> {
        let (part, growth) = self.most;
        let grown = growth.saturating_mul(num_bytes as u64);
        match growth > GROWTH_OF_LONG && grown > BYTES_MAX {
            true => Err(format!(
                "its `{part}` can make {grown} bytes of the text's {num_bytes}, and at most {BYTES_MAX} are made; cut the text into documents"
            )),
            false => Ok(()),
        }
    }
}

/// Whether an object in a part has this key.
fn has_key(part: &Value, key: &str) -> bool {
    match part {
        Value::Array(values) => values.iter().any(|value| has_key(value, key)),
        Value::Object(fields) => fields.contains_key(key) || fields.values().any(|value| has_key(value, key)),
        _ => false,
    }
}

/// The steps of a part, those of sequences in sequences too.
fn steps(part: &Value) -> Vec<&Value> {
    let inner = ["normalizers", "pretokenizers", "decoders", "processors"]
        .iter()
        .find_map(|key| part[*key].as_array());
    inner.map_or_else(|| vec![part], |inner| inner.iter().flat_map(steps).collect())
}

/// How many times as long a normalizer, pre-tokenizer or decoder can make a text.
///
/// Unicode's forms make a text longer once: a second one finds nothing to do, unless another step has written letters in between. Published maps of characters are such
/// forms too.
fn growth_of(part: &Value) -> u64 {
    // That of forms counts until a step has written something else.
    let (mut growth, mut of_forms, mut has_map) = (1_u64, 1_u64, false);
    for step in steps(part) {
        let mut form = growth_of_form(step);
        let mut written = growth_of_written(step);
        if let Some(map) = step["precompiled_charsmap"].as_str() {
            let longest = longest_replacement(map);
            if has_map || longest > LONGEST_FORM {
                written = Some(longest);
            } else {
                form = form.max(longest);
            }
            has_map = true;
        }
        if let Some(written) = written {
            (growth, of_forms) = (growth.saturating_mul(written), 1);
        }
        if form > of_forms {
            (growth, of_forms) = (growth.saturating_mul(form.div_ceil(of_forms)), form);
        }
    }
    growth
}

/// How many times as many bytes of UTF-8 a form of Unicode has, at most (UAX #15, and the longest lower-case letters).
fn growth_of_form(step: &Value) -> u64 {
    match step["type"].as_str() {
        Some("NFKC" | "NFKD") => 11,
        Some("NFC" | "NFD" | "BertNormalizer") => 3,
        Some("Lowercase") => 2,
        _ => 1,
    }
}

/// How many times as long a step makes a text that writes what the file says; `None` of one that writes nothing of its own. By the keys of steps, since the library reads
/// steps without a `type` too.
fn growth_of_written(step: &Value) -> Option<u64> {
    let bytes = |value: &Value| value.as_str().map_or(0, |text| text.len() as u64);
    // Half of all bytes become letters of two bytes; words get a space.
    let is_doubling = matches!(step["type"].as_str(), Some("ByteLevel" | "WordPiece"));
    // An empty text is found at every place.
    let has_empty = ["suffix", "word_delimiter_token"].iter().any(|key| step[*key].as_str() == Some(""));
    let mut written = (is_doubling || has_empty).then_some(2_u64);
    if step["content"].is_string() {
        let replaced = match bytes(&step["pattern"]["String"]) {
            // An expression may match nothing, and so at every place.
            0 => bytes(&step["content"]) + 1,
            pattern => bytes(&step["content"]).div_ceil(pattern).max(1),
        };
        written = Some(written.unwrap_or(1).saturating_mul(replaced));
    }
    if step["prepend"].is_string() {
        written = Some(written.unwrap_or(1).saturating_mul(bytes(&step["prepend"]) + 1));
    }
    written
}

/// Bytes of the longest replacement in a map of characters: a character may have one byte.
fn longest_replacement(map: &str) -> u64 {
    let bytes = bytes_of_base64(map);
    let Some(Ok(first)) = bytes.get(..4).map(<[u8; 4]>::try_from) else { return 1 };
    // A tree of characters, behind its length, and then the replacements, each ended by a zero.
    let replacements = bytes.get(4 + u32::from_le_bytes(first) as usize..).unwrap_or_default();
    let longest = replacements.split(|&byte| byte == 0).map(<[u8]>::len).max().unwrap_or(0);
    longest.max(1) as u64
}

fn bytes_of_base64(text: &str) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |letter: &u8| DIGITS.iter().position(|digit| digit == letter).map(|value| value as u32);
    let digits: Vec<u32> = text.as_bytes().iter().map_while(digit).collect();
    let of_four = |digits: &[u32]| {
        let bits = digits.iter().fold(0, |bits, digit| bits << 6 | digit) << (6 * (4 - digits.len()));
        bits.to_be_bytes().into_iter().skip(1).take(digits.len() * 6 / 8)
    };
    digits.chunks(4).flat_map(of_four).collect()
}

/// Refuses templates that have the text more often than is of use, or add more tokens than that.
fn check_template(post_processor: &Value) -> Result<(), String> {
    let (mut repeats, mut added) = (1_u64, 0_u64);
    for step in steps(post_processor) {
        let Some(pieces) = step["single"].as_array() else { continue };
        let num_texts = pieces.iter().filter(|piece| piece.get("Sequence").is_some()).count() as u64;
        let num_tokens: u64 = pieces.iter().map(|piece| tokens_of(step, piece)).fold(0, u64::saturating_add);
        repeats = repeats.saturating_mul(num_texts.max(1));
        added = added.saturating_mul(num_texts.max(1)).saturating_add(num_tokens);
    }
    if repeats > REPEATS_MAX {
        return Err(format!(
            "its `post_processor` has the text {repeats} times, and at most {REPEATS_MAX} times is read"
        ));
    }
    if added > ADDED_MAX {
        return Err(format!(
            "its `post_processor` adds {added} tokens to a text, and at most {ADDED_MAX} are read"
        ));
    }
    Ok(())
}

/// How many tokens stand for a piece of a template.
fn tokens_of(template: &Value, piece: &Value) -> u64 {
    let Some(name) = piece["SpecialToken"]["id"].as_str() else { return 0 };
    template["special_tokens"][name]["ids"].as_array().map_or(0, |ids| ids.len() as u64)
}

/// Refuses models whose time for a word is beyond all use.
fn check_model(model: &Value) -> Result<(), String> {
    if let Some(longest) = model["max_input_chars_per_word"].as_u64().filter(|longest| *longest > WORD_MAX) {
        return Err(format!(
            "its `model.max_input_chars_per_word` is {longest}, and at most {WORD_MAX} letters of a word are looked up"
        ));
    }
    let num_merges = model["merges"].as_array().map_or(0, Vec::len);
    if num_merges > MERGES_MAX {
        return Err(format!(
            "its `model.merges` has {num_merges} entries, and at most {MERGES_MAX} are read; use another tokenizer"
        ));
    }
    // Unigram's vocabulary is a list of pairs; those of the others are objects.
    let tokens = model["vocab"].as_array().into_iter().flatten();
    let lengths: HashSet<usize> = tokens.filter_map(|pair| pair[0].as_str()).map(str::len).collect();
    if lengths.len() > LENGTHS_MAX {
        return Err(format!(
            "its `model.vocab` has tokens of {} lengths, and at most {LENGTHS_MAX} are read",
            lengths.len()
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_makes_much_of_little_is_refused_and_its_part_named() {
        let doubled = |times: usize| {
            vec![json!({"type": "Replace", "pattern": {"String": "x"}, "content": "xx"}); times]
        };
        let everywhere = json!({"type": "Replace", "pattern": {"Regex": "y*"}, "content": "x".repeat(5000)});
        let bytes = vec![json!({"type": "ByteLevel"}); 40];
        let ids: Vec<u32> = vec![0; 5000];
        let text = json!({"Sequence": {"id": "A", "type_id": 0}});
        let template = |single: Vec<Value>| json!({"type": "TemplateProcessing", "single": single, "special_tokens": {"a": {"ids": ids}}});
        let nested = vec![template(vec![text.clone(); 2]); 40];
        let deep =
            json!({"type": "Sequence", "processors": [{"type": "Sequence", "processors": nested.clone()}]});
        let without_type = vec![json!({"pattern": {"String": "x"}, "content": "xx"}); 40];
        // A map of one character of a byte to three, which is written twice.
        let small = "AAAAAA".to_owned() + "YWFh";
        let maps = vec![json!({"type": "Precompiled", "precompiled_charsmap": small}); 40];
        // A letter of two bytes becomes one of three, which stands for 33.
        let forms: Vec<Value> = (0..7)
            .flat_map(|_| {
                let replaced =
                    json!({"type": "Replace", "pattern": {"String": "\u{644}"}, "content": "\u{fdfa}"});
                [replaced, json!({"type": "NFKC"})]
            })
            .collect();
        let empty = vec![json!({"type": "BPEDecoder", "suffix": ""}); 40];
        let lengths: Vec<Value> = (1..400).map(|len| json!(["x".repeat(len), -1.0])).collect();
        let map = "AAAAAA".to_owned() + &"YWFh".repeat(4000);
        for (json, part) in [
            (json!({"normalizer": {"type": "Sequence", "normalizers": doubled(40)}}), "`normalizer`"),
            (json!({"normalizer": {"type": "Sequence", "normalizers": doubled(70)}}), "`normalizer`"),
            (json!({"normalizer": everywhere}), "`normalizer`"),
            (json!({"normalizer": {"type": "Prepend", "prepend": "x".repeat(5000)}}), "`normalizer`"),
            (json!({"normalizer": {"type": "Precompiled", "precompiled_charsmap": map}}), "`normalizer`"),
            (json!({"normalizer": {"type": "Sequence", "normalizers": without_type}}), "`normalizer`"),
            (json!({"normalizer": {"normalizers": maps}}), "`normalizer`"),
            (json!({"normalizer": {"type": "Sequence", "normalizers": forms}}), "`normalizer`"),
            (json!({"decoder": {"type": "Sequence", "decoders": empty}}), "`decoder`"),
            (json!({"post_processor": deep}), "`post_processor`"),
            (json!({"pre_tokenizer": {"type": "Sequence", "pretokenizers": bytes}}), "`pre_tokenizer`"),
            (json!({"decoder": {"type": "Sequence", "decoders": doubled(40)}}), "`decoder`"),
            (json!({"post_processor": template(vec![text.clone(); 100])}), "`post_processor`"),
            (
                json!({"post_processor": template(vec![json!({"SpecialToken": {"id": "a", "type_id": 0}})])}),
                "`post_processor`",
            ),
            (json!({"post_processor": {"type": "Sequence", "processors": nested}}), "`post_processor`"),
            (
                json!({"model": {"type": "WordPiece", "max_input_chars_per_word": 1_000_000_000}}),
                "`model.max_input_chars_per_word`",
            ),
            (json!({"model": {"type": "Unigram", "vocab": lengths}}), "`model.vocab`"),
        ] {
            let error = Growth::of(&json).unwrap_err();
            assert!(error.contains(part), "{part}: {error}");
        }
        let json = json!({"normalizer": {"type": "Sequence", "normalizers": doubled(10)}});
        let growth = Growth::of(&json).unwrap();
        growth.check(1 << 14).unwrap();
        let error = growth.check(1 << 15).unwrap_err();
        assert!(error.contains("`normalizer` can make 33554432 bytes"), "{error}");
        let decoder = json!({"decoder": {"type": "Sequence", "decoders": doubled(10)}});
        let growth = Growth::of(&decoder).unwrap();
        growth.check_decoded(1 << 16).unwrap();
        assert!(growth.check_decoded(1 << 17).unwrap_err().contains("`decoder` can make 134217728 bytes"));
        growth.check(usize::MAX).unwrap();
    }

    /// The parts of Llama 2, GPT-2, BERT, T5 and ALBERT, as published: texts of any length pass.
    #[test]
    fn published_tokenizers_pass() {
        let llama = json!({"normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "\u{2581}"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "\u{2581}"},
        ]}, "post_processor": {"type": "TemplateProcessing", "single": [
            {"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}
        ], "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}});
        let gpt = json!({"normalizer": null, "pre_tokenizer": {"type": "ByteLevel"}, "decoder": {"type": "ByteLevel"}});
        let bert = json!({"normalizer": {"type": "BertNormalizer"}, "model": {"type": "WordPiece", "max_input_chars_per_word": 100}});
        // The longest replacement of Unicode's compatibility forms, U+FDFA, has 33 bytes.
        let map = "AAAAAA".to_owned() + &"YWFh".repeat(11);
        let t5 = json!({"normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Precompiled", "precompiled_charsmap": map},
            {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "\u{2581}"},
        ]}});
        let map = "AAAAAA".to_owned() + &"YWFh".repeat(11);
        let albert = json!({"normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Replace", "pattern": {"String": "``"}, "content": "\""},
            {"type": "NFKD"},
            {"type": "StripAccents"},
            {"type": "Lowercase"},
            {"type": "Precompiled", "precompiled_charsmap": map},
            {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
        ]}});
        for json in [llama, gpt, bert, t5, albert] {
            Growth::of(&json).unwrap().check(usize::MAX).unwrap();
        }
    }

    #[test]
    fn base64_is_read() {
        for (text, bytes) in [
            ("", &b""[..]),
            ("YQ==", b"a"),
            ("YWI=", b"ab"),
            ("YWJj", b"abc"),
            ("YWJjZA==", b"abcd"),
            ("//79", &[0xff, 0xfe, 0xfd]),
        ] {
            assert_eq!(bytes_of_base64(text), bytes, "{text}");
        }
    }
}
