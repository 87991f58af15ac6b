//! Files that were written are read back; files that are damaged are refused with their name and the rule.

use std::fs::{self, File};
use std::path::Path;

use super::*;

/// Documents of these parts, as a `.bin` and an `.idx`.
fn write(prefix: &Path, token_type: TokenType, documents: &[Vec<(Vec<u32>, bool)>]) -> Written {
    let create = |ending: &str| File::create_new(prefix.with_extension(ending)).unwrap();
    let open = |ending: &str| File::open(prefix.with_extension(ending)).unwrap();
    let mut writer = DocumentWriter::new(token_type, create("bin"), create("sequences"), Written::default());
    for document in documents {
        writer.document(document.iter().map(|(tokens, has_loss)| (&tokens[..], *has_loss))).unwrap();
    }
    let written = writer.sync().unwrap();
    write_index(&mut create("idx"), &mut open("sequences"), written, token_type).unwrap();
    written
}

fn read_all(file: &TokenFile) -> Vec<u32> {
    let mut tokens = vec![0; file.num_tokens() as usize];
    file.read(0, &mut tokens, 1 << 20).unwrap();
    tokens
}

#[test]
fn what_was_written_is_read_back() {
    for token_type in [TokenType::U16, TokenType::I32] {
        let folder = tempfile::tempdir().unwrap();
        let prefix = folder.path().join("data");
        let documents = [
            vec![(vec![1, 2, 3], true)],
            // Without a token: no document.
            vec![(vec![], true)],
            vec![(vec![4, 5], false), (vec![6], true)],
            vec![(vec![7], false)],
        ];
        let written = write(&prefix, token_type, &documents);
        assert_eq!((written.num_tokens, written.num_documents, written.num_sequences), (7, 3, 4));
        for name in ["data", "data.bin", "data.idx"] {
            let file = TokenFile::open(&folder.path().join(name), TokenType::U32).unwrap();
            assert_eq!((file.found_as(), file.token_type()), (FoundAs::Indexed, token_type));
            assert_eq!(read_all(&file), [1, 2, 3, 4, 5, 6, 7]);
            assert_eq!(file.document_ends(), [3, 6, 7]);
            assert_eq!(file.unscored(), [3..5, 6..7]);
        }
    }
}

/// The index, byte for byte, as Megatron's format is described.
#[test]
fn an_index_has_megatrons_form() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("data");
    write(&prefix, TokenType::U16, &[vec![(vec![1, 2, 3], true)], vec![(vec![4], true)]]);
    let mut expected = b"MMIDIDX\0\0".to_vec();
    expected.extend(1_u64.to_le_bytes());
    expected.push(8);
    expected.extend([2_u64, 3].map(u64::to_le_bytes).concat());
    expected.extend([3_i32, 1].map(i32::to_le_bytes).concat());
    expected.extend([0_i64, 6, 0, 1, 2].map(i64::to_le_bytes).concat());
    assert_eq!(fs::read(prefix.with_extension("idx")).unwrap(), expected);
    assert_eq!(fs::read(prefix.with_extension("bin")).unwrap(), [1, 0, 2, 0, 3, 0, 4, 0]);
}

#[test]
fn files_without_an_index_are_nanogpts_or_llm_cs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("train.bin");
    let open = |bytes: &[u8], token_type| {
        fs::write(&path, bytes).unwrap();
        TokenFile::open(&path, token_type)
    };
    let bare: Vec<u8> = [5_u16, 50_256, 7].iter().flat_map(|token| token.to_le_bytes()).collect();
    let file = open(&bare, TokenType::U16).unwrap();
    assert_eq!((file.found_as(), read_all(&file)), (FoundAs::Bare, vec![5, 50_256, 7]));
    for (magic, version, token_type) in
        [(20_240_520_u32, 1_u32, TokenType::U16), (20_240_801, 7, TokenType::U32)]
    {
        let mut bytes: Vec<u8> = [magic, version, 3].iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.resize(1024, 0);
        for token in [9_u32, 8, 7] {
            bytes.extend(&token.to_le_bytes()[..token_type.num_bytes()]);
        }
        let file = open(&bytes, TokenType::U16).unwrap();
        assert_eq!((file.found_as(), file.token_type()), (FoundAs::WithHeader, token_type));
        assert_eq!(read_all(&file), [9, 8, 7]);
        let error = open(&bytes[..bytes.len() - 1], TokenType::U16).unwrap_err();
        assert!(matches!(error.fault, TokenFault::Length { .. }), "{error}");
        bytes[..4].reverse();
        assert!(matches!(open(&bytes, TokenType::U16).unwrap_err().fault, TokenFault::Swapped));
    }
}

#[test]
fn documents_of_a_bare_file_end_with_a_token() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("train.bin");
    let bytes: Vec<u8> = [1_u16, 0, 2, 3, 0, 0, 4].iter().flat_map(|token| token.to_le_bytes()).collect();
    fs::write(&path, bytes).unwrap();
    let mut file = TokenFile::open(&path, TokenType::U16).unwrap();
    assert_eq!(file.document_ends(), [7]);
    file.find_documents(0, 5).unwrap();
    assert_eq!(file.document_ends(), [2, 5, 6, 7]);
}

/// Each damage, what is said of it, and where.
#[test]
fn damaged_files_are_named_with_the_rule() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("data");
    write(&prefix, TokenType::U16, &[vec![(vec![1, 2, 3], true)], vec![(vec![4], false)]]);
    let sound =
        (fs::read(prefix.with_extension("bin")).unwrap(), fs::read(prefix.with_extension("idx")).unwrap());
    type Damage = fn(&mut Vec<u8>, &mut Vec<u8>);
    let cases: [(&str, &str, Damage); 13] = [
        ("data.bin", "has 7 bytes, but the 4 tokens of", |bin, _| bin.truncate(7)),
        ("data.bin", "has 9 bytes, but the 4 tokens of", |bin, _| bin.push(0)),
        ("data.idx", "has 81 bytes, but 2 sequences and 3 starts of documents need 82", |_, idx| {
            idx.truncate(81)
        }),
        ("data.idx", "has 33 bytes", |_, idx| idx.truncate(33)),
        ("data.idx", "does not begin with MMIDIDX", |_, idx| idx[0] = b'X'),
        ("data.idx", "big-endian", |_, idx| idx[9..17].reverse()),
        ("data.idx", "version 3", |_, idx| idx[9] = 3),
        ("data.idx", "of type 6", |_, idx| idx[17] = 6),
        ("data.idx", "of type 0", |_, idx| idx[17] = 0),
        ("data.idx", "18446744073709551615 sequences", |_, idx| idx[18..26].fill(255)),
        ("data.idx", "sequence 1 has -1 tokens", |_, idx| idx[38..42].fill(255)),
        ("data.idx", "sequence 1 begins at byte 7, but those before it end at 6", |_, idx| idx[50] = 7),
        ("data.idx", "document 2 begins with sequence 0, but 1 come before it", |_, idx| idx[74] = 0),
    ];
    for (name, said, damage) in cases {
        let (mut bin, mut idx) = sound.clone();
        damage(&mut bin, &mut idx);
        fs::write(prefix.with_extension("bin"), bin).unwrap();
        fs::write(prefix.with_extension("idx"), idx).unwrap();
        let error = TokenFile::open(&prefix, TokenType::U16).unwrap_err();
        assert!(error.path.ends_with(name) && error.to_string().contains(said), "{said}: {error}");
    }
}

/// Files of other kinds under the name of one of tokens: refused by how they begin; tokens that look a little like them are not.
#[test]
fn other_files_are_not_taken_for_tokens() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("train.bin");
    let words = |tokens: &[u16]| tokens.iter().flat_map(|token| token.to_le_bytes()).collect::<Vec<u8>>();
    let cases: [(&str, Vec<u8>, Option<&str>); 15] = [
        ("an index", b"MMIDIDX\0\0\x01\0\0\0".repeat(2), Some("an index of Megatron's")),
        ("an array", [b"\x93NUMPY\x01\0".to_vec(), vec![7; 120]].concat(), Some("numpy saved with a header")),
        ("gzip", [vec![0x1f, 0x8b, 8, 0], vec![3; 90]].concat(), Some("compressed by gzip")),
        ("text", b"It was the best of times.\n".repeat(6), Some("it is text; name it as `data.text`")),
        (
            "u32",
            words(&[5, 0, 0, 0, 9, 0, 50_000, 0].repeat(20)),
            Some("as tokens do that are stored as u32; write"),
        ),
        ("u32 beyond 2^16", words(&[5, 0, 34_464, 1, 9, 0].repeat(20)), Some("stored as u32")),
        ("i64", words(&[5, 0, 0, 0, 50_000, 0, 0, 0].repeat(20)), Some("stored as i64")),
        ("as gzip begins", [vec![0x1f, 0x8b, 7, 7], words(&[9; 50])].concat(), None),
        ("other text", "Ünïcode “quoted”,\x0c".repeat(300).into_bytes(), Some("it is text")),
        (
            "weights",
            [vec![90, 0, 0, 0, 0, 0, 0, 0], b"{\"a\":".repeat(30)].concat(),
            Some("a file of safetensors"),
        ),
        ("zeros", words(&[0; 200]), None),
        ("often zero", words(&[[5, 0].repeat(100), vec![5, 9]].concat()), None),
        ("letters", words(&[[u16::from_le_bytes(*b"ab")].repeat(99), vec![1]].concat()), None),
        ("a short text", b"abcdefgh".to_vec(), None),
        ("few tokens", words(&[5, 0, 7, 0]), None),
    ];
    for (name, bytes, said) in cases {
        fs::write(&path, bytes).unwrap();
        match (TokenFile::open(&path, TokenType::U16), said) {
            (Ok(_), None) => {}
            (Err(error), Some(said)) => assert!(error.to_string().contains(said), "{name}: {error}"),
            (opened, _) => panic!("{name}: {opened:?}"),
        }
    }
    let stored = |token_type| match TokenFile::open(&path, token_type) {
        Err(TokenFileError { fault: TokenFault::Wider { stored, .. }, .. }) => Some(stored),
        opened => opened.map(|_| None).unwrap(),
    };
    for (tokens, of_bytes) in [([5, 700, 9, 1200], None), ([5, 700, 9, 1000], Some(TokenType::U16))] {
        fs::write(&path, words(&tokens.repeat(20))).unwrap();
        assert_eq!([TokenType::U8, TokenType::U16].map(stored), [of_bytes, None], "{tokens:?}");
    }
    // Another ending than .bin belongs to no index.
    write(&folder.path().join("data"), TokenType::U16, &[vec![(vec![1, 2, 3], true)]]);
    fs::write(folder.path().join("data.tokens"), words(&[1, 2])).unwrap();
    let file = TokenFile::open(&folder.path().join("data.tokens"), TokenType::U16).unwrap();
    assert_eq!((file.found_as(), file.num_tokens()), (FoundAs::Bare, 2));
}

#[test]
fn a_token_beyond_the_vocabulary_is_named_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("data");
    write(&prefix, TokenType::I32, &[vec![(vec![1, 2, 700, 3], true)]]);
    let file = TokenFile::open(&prefix, TokenType::U16).unwrap();
    let error = file.read(1, &mut [0; 3], 700).unwrap_err();
    let said =
        format!("`{}`: token 700 at token 2 (byte 8) is beyond vocab_size 700; ", file.path().display());
    assert!(error.to_string().starts_with(&said), "{error}");
    assert!(file.read(1, &mut [0; 3], 701).is_ok());
    // A negative one is beyond any vocabulary.
    fs::write(prefix.with_extension("bin"), [1, 0, 0, 0, 255, 255, 255, 255, 3, 0, 0, 0, 3, 0, 0, 0])
        .unwrap();
    let error = file.read(0, &mut [0; 4], 701).unwrap_err();
    assert!(error.to_string().contains("token -1 at token 1 (byte 4)"), "{error}");
    // A file that becomes shorter is an error of its own, and not the end of the process.
    fs::write(prefix.with_extension("bin"), [1, 0, 0, 0]).unwrap();
    let error = file.read(0, &mut [0; 4], 701).unwrap_err();
    assert!(
        error.to_string().contains("has 4 bytes, but the 4 tokens that it had when it was opened need 16"),
        "{error}"
    );
}

#[test]
fn what_is_no_file_of_tokens_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("train.bin");
    let error = TokenFile::open(&path, TokenType::U16).unwrap_err();
    assert!(
        error.to_string().contains("there is neither this file nor, for a prefix, one with .bin"),
        "{error}"
    );
    fs::write(&path, [1, 2, 3]).unwrap();
    let error = TokenFile::open(&path, TokenType::U16).unwrap_err();
    assert!(error.to_string().contains("its 3 bytes are no whole number of u16 tokens"), "{error}");
    fs::write(&path, []).unwrap();
    let error = TokenFile::open(&path, TokenType::U16).unwrap_err();
    assert!(error.to_string().contains("it holds no token"), "{error}");
    assert!(matches!(
        TokenFile::open(Path::new("/dev/zero"), TokenType::U16).unwrap_err().fault,
        TokenFault::NotAFile
    ));
}

/// A map of characters that says that it is longer than it is would be allocated as it says.
#[test]
fn damaged_maps_of_characters_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokenizer.json");
    for map in ["//////////8=", "8P///wAA", "AAAA", "", "!!!!!!!!"] {
        let json = serde_json::json!({
            "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"},
            "normalizer": {"type": "Precompiled", "precompiled_charsmap": map},
        });
        fs::write(&path, json.to_string()).unwrap();
        let error = Tokenizer::load(&path, None).unwrap_err().to_string();
        assert!(error.contains("`precompiled_charsmap` is cut short or damaged"), "{map}: {error}");
    }
}

/// An expression that tries the square of the text's length at each place of the text, and so stays below the steps at which the library gives up.
#[test]
fn a_tokenizer_that_takes_too_long_is_left_and_its_part_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokenizer.json");
    let json = serde_json::json!({
        "version": "1.0", "added_tokens": [],
        "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "a*a*[^a]"}, "behavior": "Isolated", "invert": false},
        "model": {"type": "WordLevel", "vocab": {"a": 0, "[UNK]": 1}, "unk_token": "[UNK]"}
    });
    fs::write(&path, json.to_string()).unwrap();
    let tokenizer = Tokenizer::load(&path, None).unwrap();
    assert_eq!(tokenizer.encode("a").unwrap(), [0]);
    let error = tokenizer.encode(&"a".repeat(4000)).unwrap_err().to_string();
    assert!(error.contains("its `pre_tokenizer` takes more than 8 s for 4000 bytes"), "{error}");
}
