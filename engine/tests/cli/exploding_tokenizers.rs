//! Tokenizers and chat templates made to explode. Both are programs, and anybody may have written them.

use serde_json::{Value, json};

use crate::exploding::Exploding;

const FILE: &str = "bad/tokenizer.json";
/// A text of 1 MiB.
const TOKENIZE: &str = "tokenize big.txt --tokenizer bad --no-end-token --out made";

/// A tokenizer with another part.
fn with(part: &str, value: Value) -> String {
    let mut tokenizer = json!({
        "version": "1.0",
        "added_tokens": [],
        "model": { "type": "WordLevel", "vocab": { "[UNK]": 0, "x": 1 }, "unk_token": "[UNK]" },
        "pre_tokenizer": { "type": "Whitespace" },
    });
    tokenizer[part] = value;
    tokenizer.to_string()
}

pub(crate) fn tokenizers() -> Vec<Exploding> {
    let tokenizer = |name, part: &str, value| Exploding::text(name, FILE, TOKENIZE, with(part, value));
    let replaced = |pattern: Value, content: String| json!({ "type": "Replace", "pattern": pattern, "content": content });
    let doubled = |times: usize| vec![replaced(json!({ "String": "x" }), "xx".to_owned()); times];
    let normalizers = |steps: Vec<Value>| json!({ "type": "Sequence", "normalizers": steps });
    let text = json!({ "Sequence": { "id": "A", "type_id": 0 } });
    let template = |single: Vec<Value>| {
        let tokens = json!({ "a": { "id": "a", "ids": vec![0; 5000], "tokens": vec!["x"; 5000] } });
        json!({ "type": "TemplateProcessing", "single": single, "pair": [text], "special_tokens": tokens })
    };
    let forms = (0..7).flat_map(|_| {
        [replaced(json!({ "String": "\u{644}" }), "\u{fdfa}".to_owned()), json!({ "type": "NFKC" })]
    });
    // Base64: a tree of no characters, and what they become.
    let map = |letters: usize| json!({ "type": "Precompiled", "precompiled_charsmap": "AAAAAA".to_owned() + &"YWFh".repeat(letters) });
    let lengths: Vec<Value> = (1..400).map(|len| json!(["x".repeat(len), -1.0])).collect();
    let added: Vec<Value> = (0..300_000)
        .map(|id| json!({ "id": id + 2, "content": format!("<{id}>"), "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true }))
        .collect();
    let merges: Vec<String> = (0..2_000_000).map(|number| format!("a{number} b")).collect();
    let byte_level =
        json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false });
    vec![
        tokenizer("a normalizer that doubles 40 times", "normalizer", normalizers(doubled(40))),
        tokenizer("a normalizer that doubles 8 times", "normalizer", normalizers(doubled(8))),
        tokenizer(
            "a normalizer of 60,000 steps",
            "normalizer",
            normalizers(vec![json!({ "type": "NFC" }); 60_000]),
        ),
        tokenizer(
            "an expression that matches everywhere",
            "normalizer",
            replaced(json!({ "Regex": "y*" }), "x".repeat(5000)),
        ),
        tokenizer(
            "a text before each text of 100 MB",
            "normalizer",
            json!({ "type": "Prepend", "prepend": "x".repeat(100 << 20) }),
        ),
        tokenizer("a map of one character to 12,000", "normalizer", map(4000)),
        tokenizer("40 maps of characters", "normalizer", normalizers(vec![map(1); 40])),
        tokenizer("forms of Unicode, again and again", "normalizer", normalizers(forms.collect())),
        tokenizer(
            "bytes as letters, 40 times",
            "pre_tokenizer",
            json!({ "type": "Sequence", "pretokenizers": vec![byte_level; 40] }),
        ),
        tokenizer(
            "60 expressions that replace",
            "normalizer",
            normalizers(vec![replaced(json!({ "Regex": "[xy ]*z" }), "q".to_owned()); 60]),
        ),
        tokenizer("a template with the text 100 times", "post_processor", template(vec![text.clone(); 100])),
        tokenizer(
            "a template that adds 5,000 tokens",
            "post_processor",
            template(vec![text.clone(), json!({ "SpecialToken": { "id": "a", "type_id": 0 } })]),
        ),
        tokenizer(
            "templates in templates",
            "post_processor",
            json!({ "type": "Sequence", "processors": vec![template(vec![text.clone(); 2]); 40] }),
        ),
        tokenizer(
            "words of 10^9 letters",
            "model",
            json!({ "type": "WordPiece", "vocab": { "[UNK]": 0 }, "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 1_000_000_000 }),
        ),
        tokenizer(
            "tokens of 400 lengths",
            "model",
            json!({ "type": "Unigram", "unk_id": 0, "vocab": lengths }),
        ),
        tokenizer(
            "2,000,000 merges of nothing",
            "model",
            json!({ "type": "BPE", "vocab": { "a": 0 }, "merges": merges }),
        ),
        tokenizer("300,000 added tokens", "added_tokens", json!(added)),
        tokenizer("a tokenizer of 50,000,000 numbers", "more", json!([0]))
            .replaced("[0]", &format!("[{}0]", "0,".repeat(50_000_000))),
        Exploding::text("a tokenizer of lists in lists", FILE, TOKENIZE, "[".repeat(1 << 20)),
        Exploding::sparse("a tokenizer of 10 GB", FILE, TOKENIZE, b"{", 10 << 30),
        decoding("a decoder that doubles 40 times", json!({ "type": "Sequence", "decoders": doubled(40) })),
        decoding(
            "a decoder of 60,000 steps",
            json!({ "type": "Sequence", "decoders": vec![json!({ "type": "Fuse" }); 60_000] }),
        ),
        decoding(
            "a decoder that replaces slowly",
            replaced(json!({ "Regex": "(?:[a-z]+)+!" }), "q".to_owned()),
        ),
    ]
}

/// A run's tokenizer with a decoder.
fn decoding(name: &'static str, decoder: Value) -> Exploding {
    let names: serde_json::Map<_, _> =
        (0..7).map(|id| (format!("{}{id}", "a".repeat(60_000 * id)), json!(id))).collect();
    let mut tokenizer: Value = serde_json::from_str(&with("decoder", decoder)).unwrap();
    tokenizer["model"]["vocab"] = names.into();
    tokenizer["model"]["unk_token"] = json!("0");
    Exploding::text(
        name,
        "out/tokenizer.json",
        "generate out --prompt the --max-tokens 64",
        tokenizer.to_string(),
    )
}

pub(crate) fn templates() -> Vec<Exploding> {
    let template = |name, text: String| {
        Exploding::text(
            name,
            "tok/chat_template.jinja",
            "tokenize chats.jsonl --tokenizer tok --out made",
            text,
        )
    };
    let in_blocks = |begin: &str, end: &str| format!("{}{}", begin.repeat(5000), end.repeat(5000));
    vec![
        template("a template with a loop of 10^8", "{% for i in range(100000000) %}x{% endfor %}".to_owned()),
        template("a template with loops in loops", "{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}".to_owned()),
        template("a template that doubles 60 times", "{% set n = namespace(x='x') %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}{{ n.x }}".to_owned()),
        template("a template that joins itself", "{% set n = namespace(x=['x']) %}{% for i in range(60) %}{% set n.x = n.x + n.x %}{% endfor %}{{ n.x }}".to_owned()),
        template("a text 10^10 times", "{{ 'x' * 10000000000 }}".to_owned()),
        template("a text that is 10^10 wide", "{{ 'x'|center(10000000000) }}{{ 'x'|indent(10000000000) }}".to_owned()),
        template("a macro that calls itself", "{% macro m(n) %}{{ m(n + 1) }}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}".to_owned()),
        template("lists that hold themselves twice", "{% set n = namespace(x=['x']) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x|tojson }}".to_owned()),
        template("lists that are compared", "{% set n = namespace(x=['x'], y=['x']) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}{% set n.y = [n.y, n.y] %}{% endfor %}{{ n.x == n.y }}".to_owned()),
        template("a list of 10^10 numbers", "{{ range(10000000000)|list }}".to_owned()),
        template("a template of blocks in blocks", in_blocks("{% if messages %}", "{% endif %}")),
        template("a template that writes 300 MB", "{% for i in range(300000) %}{{ 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx' * 10 }}{% endfor %}".to_owned()),
    ]
}
