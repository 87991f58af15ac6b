//! Pieces have the tokens of the whole text, with the parts of published tokenizers and models that know tokens across all words.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use tokenizers::models::bpe::{BPE, BpeTrainerBuilder};
use tokenizers::normalizers::NormalizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{DecoderWrapper, PostProcessorWrapper, PreTokenizerWrapper, TokenizerImpl};

use super::Pieces;
use super::pattern::Pattern;
use crate::Tokenizer;

const LLAMA_3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN_2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const GPT_4: &str = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++(?!\S)|\s*[\r\n]|\s+";
const GPT_4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const DEEPSEEK_3: &str = r##"[!"#$%&'()*+,\-./:;=?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##;
const BLOOM: &str = r" ?[^(\s|[.,!?…。,、।۔،])]+";

/// The building blocks of texts: characters that the parts distinguish, and added tokens.
const BITS: [&str; 40] = [
    "the",
    "cat",
    "e",
    "S",
    "'s",
    "'LL",
    "don't",
    " ",
    " ",
    " ",
    "  ",
    "   ",
    "\n",
    "\n\n",
    "\r\n",
    "\t",
    "\u{a0}",
    "\u{3000}",
    "1",
    "234",
    "12345",
    ".",
    ",",
    "...",
    "(",
    "-",
    "\u{2581}",
    "世界",
    "世",
    "。",
    "「",
    "かな",
    "한국",
    "слово",
    "é",
    "e\u{301}",
    "\u{338}",
    "\u{1f980}",
    "<|x|>",
    "<m>",
];

fn split(expression: &str) -> Value {
    json!({"type": "Split", "pattern": {"Regex": expression}, "behavior": "Isolated", "invert": false})
}

fn bytes(uses_regex: bool, has_space: bool) -> Value {
    json!({"type": "ByteLevel", "add_prefix_space": has_space, "trim_offsets": true, "use_regex": uses_regex})
}

fn sequence(steps: &[Value]) -> Value {
    json!({"type": "Sequence", "pretokenizers": steps})
}

fn metaspace(scheme: &str, split: bool) -> Value {
    json!({"type": "Metaspace", "replacement": "\u{2581}", "prepend_scheme": scheme, "split": split})
}

fn added(id: u32, content: &str, changes: &[&str]) -> Value {
    let mut token = json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
                           "normalized": false, "special": true});
    changes.iter().for_each(|change| token[*change] = json!(true));
    token
}

/// A BPE of bytes that was trained on a text without words, so that it joins bytes across all boundaries.
fn byte_bpe() -> Value {
    let mut tokenizer: TokenizerImpl<
        BPE,
        NormalizerWrapper,
        PreTokenizerWrapper,
        PostProcessorWrapper,
        DecoderWrapper,
    > = TokenizerImpl::new(BPE::default());
    tokenizer.with_pre_tokenizer(Some(ByteLevel::new(false, true, false)));
    let mut trainer = BpeTrainerBuilder::new()
        .show_progress(false)
        .vocab_size(2000)
        .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
        .build();
    tokenizer.train(&mut trainer, pairs()).unwrap();
    serde_json::from_str::<Value>(&tokenizer.to_string(false).unwrap()).unwrap()["model"].clone()
}

/// All pairs of bits, thrice, so that each is joined.
fn pairs() -> impl Iterator<Item = String> + Send {
    BITS.iter().flat_map(|one| BITS.iter().map(move |other| format!("{one}{other}"))).cycle().take(3 * 1600)
}

/// A vocabulary of pieces of pairs of bits, with what stands for a space.
fn names(prefix: &str) -> Vec<String> {
    let mut names = vec!["[UNK]".to_owned(), "[CLS]".to_owned(), "[SEP]".to_owned()];
    for text in pairs().take(1600) {
        let letters: Vec<char> = text.replace(' ', "\u{2581}").to_lowercase().chars().collect();
        for len in 1..=letters.len().min(4) {
            let name: String = letters[..len].iter().collect();
            names.extend([name.clone(), format!("{prefix}{name}")]);
        }
    }
    let mut seen = std::collections::HashSet::new();
    names.retain(|name| seen.insert(name.clone()));
    names
}

fn word_piece() -> Value {
    let vocab: serde_json::Map<_, _> = names("##").into_iter().zip((0..).map(|id| json!(id))).collect();
    json!({"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": vocab})
}

fn unigram() -> Value {
    let vocab: Vec<Value> = names("")
        .into_iter()
        .zip(1..)
        .map(|(name, rank)| json!([name, -1.0 - f64::from(rank % 97) / 10.0]))
        .collect();
    json!({"type": "Unigram", "unk_id": 0, "vocab": vocab, "byte_fallback": false})
}

fn of(
    normalizer: Value,
    pre_tokenizer: Value,
    model: &Value,
    post_processor: Value,
    added: &[Value],
) -> Tokenizer {
    let json = json!({"version": "1.0", "normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "model": model,
                      "post_processor": post_processor, "added_tokens": added});
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), json.to_string()).unwrap();
    let tokenizer = Tokenizer::load(file.path(), None).unwrap();
    let longest = tokenizer.pieces().and_then(Pieces::longest).unwrap_or(Tokenizer::TEXT_BYTES_MAX);
    assert_eq!(Tokenizer::at_once_max(file.path()), longest);
    tokenizer
}

/// Tokens before a text, or on both sides.
fn template(begin: (&str, u32), end: Option<(&str, u32)>) -> Value {
    let special = |(name, _): (&str, u32)| json!({"SpecialToken": {"id": name, "type_id": 0}});
    let text = json!({"Sequence": {"id": "A", "type_id": 0}});
    let single: Vec<Value> =
        [Some(special(begin)), Some(text.clone()), end.map(special)].into_iter().flatten().collect();
    let named: serde_json::Map<_, _> = [Some(begin), end]
        .into_iter()
        .flatten()
        .map(|(name, id)| (name.to_owned(), json!({"id": name, "ids": [id], "tokens": [name]})))
        .collect();
    json!({"type": "TemplateProcessing", "single": single, "pair": [text.clone(), {"Sequence": {"id": "B", "type_id": 1}}], "special_tokens": named})
}

/// Words are matches of an expression.
fn of_expressions() -> Vec<(&'static str, Tokenizer)> {
    let bpe = &byte_bpe();
    let none = || Value::Null;
    let x = |changes: &[&str]| added(3000, "<|x|>", changes);
    let m = |changes: &[&str]| added(3001, "<m>", changes);
    let bytes_of = |expression: &str| sequence(&[split(expression), bytes(false, false)]);
    let digits = |individual: bool| json!({"type": "Digits", "individual_digits": individual});
    let of_digits = json!({"type": "Split", "pattern": {"Regex": "[0-9][0-9][0-9]"}, "behavior": "Isolated", "invert": false});
    let falcon = [
        json!({"type": "Punctuation", "behavior": "Contiguous"}),
        bytes(true, false),
        digits(false),
        of_digits,
    ];
    let deepseek =
        [split(r"\p{N}{1,3}"), split("[一-龥\u{3040}-ゟ゠-ヿ]+"), split(DEEPSEEK_3), bytes(false, false)];
    vec![
        ("gpt-2", of(none(), bytes(true, false), bpe, none(), &[x(&[])])),
        ("gpt-2 with a space", of(none(), bytes(true, true), bpe, none(), &[x(&["lstrip"]), m(&["rstrip"])])),
        (
            "words",
            of(none(), bytes(true, false), bpe, none(), &[x(&["single_word"]), m(&["lstrip", "rstrip"])]),
        ),
        (
            "spaces",
            of(
                none(),
                bytes(true, false),
                bpe,
                none(),
                &[added(3002, "  ", &["normalized"]), added(3003, "e ", &[])],
            ),
        ),
        ("llama 3", of(none(), bytes_of(LLAMA_3), bpe, template(("<|x|>", 3000), None), &[x(&[])])),
        ("qwen 2", of(json!({"type": "NFC"}), bytes_of(QWEN_2), bpe, none(), &[x(&[])])),
        ("nfkd", of(json!({"type": "NFKD"}), bytes_of(QWEN_2), bpe, none(), &[x(&["normalized"])])),
        ("gpt-4", of(none(), bytes_of(GPT_4), bpe, none(), &[x(&[])])),
        ("gpt-4o", of(none(), bytes_of(GPT_4O), bpe, none(), &[x(&[])])),
        ("deepseek 3", of(none(), sequence(&deepseek), bpe, none(), &[x(&[])])),
        ("starcoder", of(none(), sequence(&[digits(true), bytes(true, false)]), bpe, none(), &[x(&[])])),
        ("falcon", of(none(), sequence(&falcon), bpe, none(), &[x(&[])])),
        ("bloom", of(none(), bytes_of(BLOOM), bpe, none(), &[x(&[])])),
    ]
}

/// Words end at white space, or begin with it.
fn of_spaces() -> Vec<(&'static str, Tokenizer)> {
    let none = || Value::Null;
    let x = |changes: &[&str]| added(3000, "<|x|>", changes);
    let m = |changes: &[&str]| added(3001, "<m>", changes);
    let bert = |lower: bool| json!({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": lower});
    let cls = || template(("[CLS]", 1), Some(("[SEP]", 2)));
    let pieces = &unigram();
    vec![
        (
            "bert",
            of(
                bert(true),
                json!({"type": "BertPreTokenizer"}),
                &word_piece(),
                cls(),
                &[x(&[]), m(&["lstrip"])],
            ),
        ),
        (
            "bert, cased",
            of(bert(false), json!({"type": "BertPreTokenizer"}), &word_piece(), cls(), &[x(&[])]),
        ),
        (
            "whitespace",
            of(json!({"type": "Lowercase"}), json!({"type": "Whitespace"}), &word_piece(), none(), &[]),
        ),
        ("white space", of(none(), json!({"type": "WhitespaceSplit"}), &word_piece(), none(), &[])),
        ("unigram", of(none(), metaspace("always", true), pieces, cls(), &[x(&[])])),
        ("first", of(json!({"type": "Nmt"}), metaspace("first", true), pieces, none(), &[x(&[])])),
        ("never", of(none(), metaspace("never", true), pieces, none(), &[m(&["rstrip"])])),
        (
            "both",
            of(
                none(),
                sequence(&[json!({"type": "WhitespaceSplit"}), metaspace("first", true)]),
                pieces,
                none(),
                &[x(&[])],
            ),
        ),
    ]
}

#[test]
fn pieces_have_the_tokens_of_the_whole_text() {
    for (name, tokenizer) in of_expressions().into_iter().chain(of_spaces()) {
        let Pieces { cuts, longest, .. } = tokenizer.pieces().unwrap_or_else(|| panic!("{name}"));
        // Of "spaces" an added token has a letter and a space; of "bert" one takes spaces, which stand around Chinese letters. "first" makes line breaks spaces.
        let is_of_spaces =
            ["spaces", "bert", "gpt-2 with a space", "unigram", "never", "both"].contains(&name);
        assert_eq!(longest.is_none(), is_of_spaces, "{name}");
        let (mut num_texts, mut num_pieces) = (0, 0);
        let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
            cases: 400,
            failure_persistence: None,
            ..ProptestConfig::default()
        });
        let texts = (prop::collection::vec(select(&BITS[..]), 1..60), 1..24_usize);
        runner
            .run(&texts, |(bits, piece_bytes)| {
                let text = bits.concat();
                for is_whole in [true, false] {
                    let whole = tokenizer.encoded_by(&text, is_whole, usize::MAX).unwrap();
                    let pieces = tokenizer.encoded_by(&text, is_whole, piece_bytes).unwrap();
                    prop_assert_eq!(pieces, whole, "{}: {:?} by {}", name, text, piece_bytes);
                }
                Ok(())
            })
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        for seed in 0..20 {
            let text: String = (0..100)
                .map(|number| BITS[(number * 7 + seed * 13 + number * number / 3) % BITS.len()])
                .collect();
            num_texts += 1;
            num_pieces += cuts.pieces(&text, 8).len();
        }
        assert!(num_pieces > 4 * num_texts, "{name}: {num_pieces} pieces of {num_texts} texts");
    }
}

/// Not enough is known of these tokenizers: a word may be the whole text, or a part looks further.
#[test]
fn other_tokenizers_take_texts_as_a_whole() {
    let pieces = &unigram();
    let none = || Value::Null;
    let llama_2 = json!({"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "\u{2581}"}, {"type": "Replace", "pattern": {"String": " "}, "content": "\u{2581}"}]});
    let gemma = json!({"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": false});
    let replaced = json!({"type": "Replace", "pattern": {"String": " "}, "content": "\u{2581}"});
    for (normalizer, pre_tokenizer) in [
        (none(), none()),
        (llama_2, none()),
        (none(), metaspace("always", false)),
        (none(), bytes(false, false)),
        (replaced, gemma),
        (none(), json!({"type": "FixedLength", "length": 5})),
        (none(), split(r"(?<=a)b|\S+|\s+")),
        (none(), split(r"\b\S+|\s+")),
        (none(), split(r"\S+$|\s+")),
        (none(), split("(?m:.+)")),
        (none(), split(r"[\s\S]+")),
        (json!({"type": "Strip", "strip_left": true, "strip_right": true}), bytes(true, false)),
    ] {
        let tokenizer = of(normalizer.clone(), pre_tokenizer.clone(), pieces, none(), &[]);
        assert!(tokenizer.pieces().is_none(), "{normalizer} {pre_tokenizer}");
    }
    // A template that has the text twice.
    let twice = json!({"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                       "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}], "special_tokens": {}});
    assert!(of(none(), json!({"type": "WhitespaceSplit"}), pieces, twice, &[]).pieces().is_none());
}

/// A text without white space, of a tokenizer that cuts usual ones.
#[test]
fn a_long_word_is_refused_by_its_length_and_place() {
    let tokenizer = of(Value::Null, bytes(true, false), &byte_bpe(), Value::Null, &[]);
    let text = format!("the cat {}", "e".repeat(super::STRETCH_BYTES + 9));
    let error = tokenizer.encode(&text).unwrap_err().to_string();
    assert!(error.contains("4194314 bytes of it, from byte 7 on, have no place"), "{error}");
}

#[test]
fn expressions_reach_across_what_they_may_match_and_no_further() {
    for (expression, across, apart) in [
        (
            LLAMA_3,
            &["ee", " e", ".e", ".\n", "  ", "\n\n", "11", "'s", " ."][..],
            &["e ", "e\n", "1 ", "e1", "1e", "世。", ". "][..],
        ),
        (GPT_4, &["ee", ".\n", "  "], &["e ", "e\n", "1e"]),
        (GPT_4O, &["ee", "e'", "./"], &["e ", "e\n", "e1"]),
        (BLOOM, &["ee", " e", "1e"], &["e ", "e.", "e。"]),
        ("ab|cd?", &["ab", "cd"], &["ac", "bc", "ba", "dc"]),
        ("(?:ab)+", &["ab", "ba"], &["aa", "bb"]),
        ("a(?!b)c?", &["ab", "ac"], &["bc", "cb"]),
        ("a{2}", &["aa"], &["ab"]),
        ("x(?=.*y)", &["xx", "xy", "zz", "zy"], &["yx\n", "\nz"][1..]),
    ] {
        let pattern = Pattern::of(expression).unwrap_or_else(|| panic!("{expression}"));
        let reaches = |pair: &&str| {
            let mut pair = pair.chars();
            pattern.reaches_across(pair.next().unwrap(), pair.next().unwrap())
        };
        for pair in across {
            assert!(reaches(pair), "{expression} {pair:?}");
        }
        for pair in apart {
            assert!(!reaches(pair), "{expression} {pair:?}");
        }
    }
    for unknown in [
        "a*",
        "^a",
        "a$",
        r"\ba",
        r"a\z",
        "(?<=a)b",
        "(?<n>a)",
        "(?m:a)",
        r"(a)\1",
        "a|",
        "[]a]",
        "[[:alpha:]]",
        "a{",
        "(a",
        r"\X",
        "(?i:ß)",
        "(?i:[^a])",
        r"\x61",
    ] {
        assert!(Pattern::of(unknown).is_none(), "{unknown}");
    }
}
