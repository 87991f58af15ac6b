//! Files of tokens: the same samples on every grid, every document on one side, every token once in an epoch.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use pipezero_config::{DataConfig, EndToken, TokenFilesConfig};
use pipezero_models::layer::IGNORED_TARGET;
use pipezero_tokens::{DocumentWriter, TokenType, Written, train_tokenizer, write_index};

use super::*;

/// Writes documents of these lengths, in which every token is a number of its own from `first` on.
fn write(folder: &Path, name: &str, first: u32, lengths: &[u32]) -> PathBuf {
    let prefix = folder.join(name);
    let create = |ending: &str| File::create_new(prefix.with_added_extension(ending)).unwrap();
    let mut writer = DocumentWriter::new(TokenType::I32, create("bin"), create("pieces"), Written::default());
    let mut next = first;
    for &length in lengths {
        let document: Vec<u32> = (next..next + length).collect();
        writer.document([(&document[..], true)].into_iter()).unwrap();
        next += length;
    }
    let written = writer.sync().unwrap();
    let mut pieces = File::open(prefix.with_added_extension("pieces")).unwrap();
    write_index(&mut create("idx"), &mut pieces, written, TokenType::I32).unwrap();
    prefix
}

fn config(tokens: &[PathBuf], weights: &[f64], validation: f64) -> DataConfig {
    let files = TokenFilesConfig { tokens: tokens.to_vec(), weights: weights.to_vec(), ..Default::default() };
    DataConfig { files, validation, ..DataConfig::default() }
}

fn layout(data_degree: usize, num_micro_batches: usize, micro_batch_size: usize) -> BatchLayout {
    BatchLayout { data_degree, num_micro_batches, micro_batch_size, seq_length: 5 }
}

const VOCAB_SIZE: usize = 100_000;

/// The inputs and targets of some steps.
fn read(
    source: &dyn BatchSource,
    layout: BatchLayout,
    steps: std::ops::RangeInclusive<u64>,
) -> Vec<(Vec<u32>, Vec<u32>)> {
    let mut rows = Vec::new();
    let mut batch = TokenBatch::zeros(layout.micro_batch_size, layout.seq_length);
    for step in steps {
        for data_rank in 0..layout.data_degree {
            for micro_batch in 0..layout.num_micro_batches {
                source.micro_batch(step, data_rank, micro_batch, &mut batch).unwrap();
                let inputs = batch.inputs.chunks(layout.seq_length);
                rows.extend(
                    inputs
                        .zip(batch.targets.chunks(layout.seq_length))
                        .map(|(a, b)| (a.to_vec(), b.to_vec())),
                );
            }
        }
    }
    rows
}

/// 20 grids of 60 sequences a step, weighted sources, more than two epochs of the smaller one, and a run that goes on in the middle.
#[test]
fn samples_do_not_depend_on_the_grid() {
    let folder = tempfile::tempdir().unwrap();
    let lengths: Vec<u32> = (0..200).map(|number| 1 + number % 17).collect();
    let sources = [write(folder.path(), "a", 0, &lengths), write(folder.path(), "b", 50_000, &lengths[..60])];
    let corpus = Corpus::load(&config(&sources, &[0.7, 0.3], 0.1), 5, VOCAB_SIZE).unwrap();
    let reference = read(&corpus.training_batches(layout(1, 1, 60), 3).unwrap(), layout(1, 1, 60), 1..=12);
    let factors = |number: usize| (1..=number).filter(move |factor| number.is_multiple_of(*factor));
    let grids = factors(60).flat_map(|d| factors(60 / d).map(move |m| layout(d, m, 60 / d / m)));
    let mut num_grids = 0;
    for layout in grids.step_by(2).take(20) {
        let batches = corpus.training_batches(layout, 3).unwrap();
        assert_eq!(read(&batches, layout, 1..=12), reference, "{layout:?}");
        let resumed = batches.starting_at(Start { num_steps: 5, num_sequences: 300 });
        assert_eq!(read(&resumed, layout, 6..=12), reference[300..], "{layout:?}");
        num_grids += 1;
    }
    assert_eq!(num_grids, 20);
    // The share of each source.
    let of_b = reference.iter().filter(|(inputs, _)| inputs[0] >= 50_000).count();
    assert!((of_b as f64 - 0.3 * 720.0).abs() <= 2.0, "{of_b} of 720");
}

/// Of each source on its own, and of both as one text: in each epoch every token but the first is a target once, but for the rest that
/// fills no window.
#[test]
fn every_token_is_a_target_once_in_an_epoch() {
    let folder = tempfile::tempdir().unwrap();
    let lengths: Vec<u32> = (0..90).map(|number| 1 + number * 7 % 19).collect();
    let sources = [write(folder.path(), "a", 0, &lengths), write(folder.path(), "b", 50_000, &lengths[..31])];
    for weights in [&[][..], &[1.0, 1.0]] {
        for validation in [0.0, 0.2] {
            let corpus = Corpus::load(&config(&sources, weights, validation), 5, VOCAB_SIZE).unwrap();
            let batches = corpus.training_batches(layout(1, 1, 1), 9).unwrap();
            let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
            let num_steps = 2 * batches.num_samples();
            let rows = read(&batches, layout(1, 1, 1), 1..=num_steps);
            assert!(rows.iter().all(|(inputs, targets)| inputs[1..] == targets[..4]));
            rows.into_iter()
                .flat_map(|(_, targets)| targets)
                .for_each(|target| *counts.entry(target).or_default() += 1);
            if weights.is_empty() {
                assert!(counts.values().all(|&count| count == 2), "two epochs");
                assert_eq!(counts.len() as u64, 5 * batches.num_samples());
            } else {
                // Each source has as many sequences; the shorter one comes round more often, evenly.
                let of_b: Vec<u64> = counts.range(50_000..).map(|(_, &count)| count).collect();
                let of_a: Vec<u64> = counts.range(..50_000).map(|(_, &count)| count).collect();
                for counts in [of_a, of_b] {
                    let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
                    assert!(most - least <= 1, "{least} to {most}");
                }
            }
        }
    }
}

/// Both sides together are all documents, each whole and on one side; validation has its share of them, whatever their lengths.
#[test]
fn documents_are_split_whole() {
    let folder = tempfile::tempdir().unwrap();
    let lengths: Vec<u32> = (0..300).map(|number| 1 + number * number % 23).collect();
    let path = write(folder.path(), "a", 0, &lengths);
    for share in [0.05, 0.3, 0.5] {
        let corpus = Corpus::load(&config(std::slice::from_ref(&path), &[], share), 5, VOCAB_SIZE).unwrap();
        let [training, held_out] = corpus.num_tokens();
        let total: u32 = lengths.iter().sum();
        assert_eq!(training + held_out, u64::from(total));
        let side = |is_held_out| {
            let every = corpus.every_sequence(layout(1, 1, 1), is_held_out).unwrap();
            let rows = read(&every, layout(1, 1, 1), 1..=every.num_batches());
            let first = rows[0].0[0];
            let targets = rows.into_iter().flat_map(|(_, targets)| targets);
            [first]
                .into_iter()
                .chain(targets.filter(|&target| target != IGNORED_TARGET))
                .collect::<Vec<u32>>()
        };
        let (mut training, mut held_out) = (&side(false)[..], &side(true)[..]);
        let (mut next, mut num_held_out) = (0, 0);
        for &length in &lengths {
            num_held_out += u32::from(training.first() != Some(&next));
            let side = if training.first() == Some(&next) { &mut training } else { &mut held_out };
            assert!(side[..length as usize].iter().copied().eq(next..next + length), "document of {next}");
            *side = &side[length as usize..];
            next += length;
        }
        assert!(training.is_empty() && held_out.is_empty());
        assert!((f64::from(num_held_out) - share * 300.0).abs() <= 1.0, "{num_held_out} of 300");
    }
}

/// Short and long documents in turn: as many of each are held out, to within what chance makes of it.
#[test]
fn the_length_of_a_document_does_not_decide_where_it_goes() {
    let folder = tempfile::tempdir().unwrap();
    let lengths: Vec<u32> = (0..2000).map(|number| if number % 2 == 0 { 2 } else { 40 }).collect();
    let path = write(folder.path(), "a", 0, &lengths);
    let corpus = Corpus::load(&config(&[path], &[], 0.05), 5, VOCAB_SIZE).unwrap();
    let every = corpus.every_sequence(layout(1, 1, 1), true).unwrap();
    let rows = read(&every, layout(1, 1, 1), 1..=every.num_batches());
    let targets = rows.iter().flat_map(|(_, targets)| targets).filter(|&&target| target != IGNORED_TARGET);
    // A short and a long document have 42 tokens.
    let num_long = targets.filter(|&&target| target % 42 >= 2).count().div_ceil(40);
    // Of 100 documents; the number of long ones has a standard deviation of 5.
    assert!((30..=70).contains(&num_long), "{num_long} of 100 are long");
}

/// nanoGPT's two files, and a share of a file that is cut at its end tokens.
#[test]
fn bare_files_are_split_at_end_tokens_or_by_files() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, tokens: &[u16]| {
        let path = folder.path().join(name);
        fs::write(&path, tokens.iter().flat_map(|token| token.to_le_bytes()).collect::<Vec<u8>>()).unwrap();
        path
    };
    let tokens: Vec<u16> = (0..40).flat_map(|document| [1 + document; 10].into_iter().chain([0])).collect();
    let (train, val) = (write("train.bin", &tokens), write("val.bin", &tokens[..33]));
    let mut asked = config(std::slice::from_ref(&train), &[], 0.0);
    asked.files.validation_tokens = vec![val];
    let corpus = Corpus::load(&asked, 5, 64).unwrap();
    assert_eq!(corpus.num_tokens(), [440, 33]);
    let mut asked = config(&[train], &[], 0.25);
    asked.files.end_token = Some(EndToken::Number(0));
    let corpus = Corpus::load(&asked, 5, 64).unwrap();
    assert_eq!(corpus.num_tokens(), [330, 110]);
    // A token beyond the vocabulary is found where the file is looked through, else where it is read.
    let error = Corpus::load(&asked, 5, 20).unwrap_err().to_string();
    assert!(
        error.contains("train.bin`: token 20 at token 209 (byte 418) is beyond vocab_size 20"),
        "{error}"
    );
    asked.validation = 0.0;
    let batches = Corpus::load(&asked, 5, 20).unwrap().training_batches(layout(1, 1, 1), 0).unwrap();
    let mut batch = TokenBatch::zeros(1, 5);
    let found = (1..=87).filter_map(|step| batches.micro_batch(step, 0, 0, &mut batch).err()).next().unwrap();
    assert!(found.to_string().contains("is beyond vocab_size 20"), "{found}");
}

/// With document attention, what begins a document is no target; without, it is. A prompt never is.
#[test]
fn prompts_and_first_tokens_are_no_targets() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("data");
    let create = |ending: &str| File::create_new(prefix.with_added_extension(ending)).unwrap();
    let mut writer = DocumentWriter::new(TokenType::U16, create("bin"), create("pieces"), Written::default());
    for _ in 0..2 {
        writer.document([(&[1, 2, 3][..], false), (&[4, 5][..], true)].into_iter()).unwrap();
        writer.document([(&[6, 7, 8][..], true)].into_iter()).unwrap();
    }
    let written = writer.sync().unwrap();
    let mut pieces = File::open(prefix.with_added_extension("pieces")).unwrap();
    write_index(&mut create("idx"), &mut pieces, written, TokenType::U16).unwrap();
    let mut asked = config(&[prefix], &[], 0.0);
    let layout = BatchLayout { seq_length: 15, ..layout(1, 1, 1) };
    const NONE: u32 = IGNORED_TARGET;
    let mut batch = TokenBatch::zeros(1, 15);
    for (document_attention, first) in [(false, 6), (true, NONE)] {
        asked.document_attention = document_attention;
        let corpus = Corpus::load(&asked, 15, 64).unwrap();
        corpus.training_batches(layout, 1).unwrap().micro_batch(1, 0, 0, &mut batch).unwrap();
        let starts = [[0; 5].as_slice(), &[5; 3], &[8; 5], &[13; 2]].concat();
        assert_eq!(batch.document_starts, if document_attention { starts } else { vec![0; 15] });
        let rows = [(batch.inputs.clone(), batch.targets.clone())];
        let targets = vec![NONE, NONE, 4, 5, first, 7, 8, NONE, NONE, NONE, 4, 5, first, 7, 8];
        assert_eq!(rows[0], (vec![1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7], targets));
    }
}

#[test]
fn a_checksum_knows_other_data() {
    let folder = tempfile::tempdir().unwrap();
    let a = write(folder.path(), "a", 0, &[30, 50]);
    let checksum = |asked: &DataConfig| Corpus::load(asked, 5, VOCAB_SIZE).unwrap().checksum().unwrap();
    let first = checksum(&config(std::slice::from_ref(&a), &[], 0.0));
    assert_eq!(first, checksum(&config(std::slice::from_ref(&a), &[], 0.0)));
    // Other documents, other tokens, another split, weights.
    let b = write(folder.path(), "b", 0, &[50, 30]);
    let c = write(folder.path(), "c", 1, &[30, 50]);
    let others = [
        config(std::slice::from_ref(&b), &[], 0.0),
        config(&[c], &[], 0.0),
        config(std::slice::from_ref(&a), &[], 0.5),
        config(&[a.clone(), b.clone()], &[], 0.0),
        config(&[a.clone(), b.clone()], &[1.0, 1.0], 0.0),
        config(&[a, b], &[2.0, 1.0], 0.0),
    ];
    let mut known = vec![first];
    for other in &others {
        let found = checksum(other);
        assert!(!known.contains(&found), "{other:?}");
        known.push(found);
    }
}

/// A text with a tokenizer is its tokens and the end token of each file.
#[test]
fn texts_are_tokenized() {
    let folder = tempfile::tempdir().unwrap();
    let text = "one two three, one two three; four five six.\n".repeat(40);
    train_tokenizer([&text].into_iter(), 300, &folder.path().join("tokenizer.json")).unwrap();
    for name in ["a.txt", "b.txt"] {
        fs::write(folder.path().join(name), &text).unwrap();
    }
    let asked = DataConfig {
        text: vec![folder.path().join("*.txt")],
        tokenizer: Some(folder.path().join("tokenizer.json")),
        ..DataConfig::default()
    };
    let corpus = Corpus::load(&asked, 5, 300).unwrap();
    let tokenizer = tokenizer_of(&asked).unwrap().unwrap();
    let tokens = tokenizer.encode(&text).unwrap();
    assert_eq!(corpus.num_tokens(), [2 * (tokens.len() as u64 + 1), 0]);
    let (largest, error) = (tokenizer.vocab_size() - 1, Corpus::load(&asked, 5, 256).unwrap_err());
    let said = format!(
        "the tokenizer has tokens up to {largest}, but the model knows tokens below vocab_size 256; set "
    );
    assert!(error.to_string().starts_with(&said), "{error}");
}

/// The batches of texts are those of the same bytes as one file of tokens, validation too; a text that changes afterwards is an error, and no other data.
#[test]
fn texts_are_read_where_they_lie_until_they_change() {
    let folder = tempfile::tempdir().unwrap();
    let text: Vec<u8> = (0..50_000_u32).map(|number| b' ' + (number * number / 7 % 90) as u8).collect();
    let names = ["a.txt", "b.txt", "c.txt"];
    let cuts = [0, 20_000, 20_001, text.len()];
    for (name, range) in names.iter().zip(cuts.windows(2)) {
        fs::write(folder.path().join(name), &text[range[0]..range[1]]).unwrap();
    }
    let of_text =
        DataConfig { text: vec![folder.path().join("*.txt")], validation: 0.25, ..DataConfig::default() };
    let corpus = Corpus::load(&of_text, 5, 256).unwrap();
    assert_eq!(corpus.num_tokens().iter().sum::<u64>(), text.len() as u64);
    let layout = layout(1, 2, 3);
    let batches = corpus.training_batches(layout, 4).unwrap();
    let mut seen = read(&batches, layout, 1..=20);
    let held_out = corpus.validation_batches(layout, 4).unwrap().unwrap();
    seen.extend(read(&held_out, layout, 1..=20));
    // Each window is a part of the text, but for those that go over a boundary between the sides.
    let bytes = |tokens: &[u32]| tokens.iter().map(|&token| token as u8).collect::<Vec<u8>>();
    let is_in_text = |(inputs, targets): &(Vec<u32>, Vec<u32>)| {
        let window = [bytes(&inputs[..1]), bytes(targets)].concat();
        text.windows(6).any(|found| found == window)
    };
    let num_found = seen.iter().filter(|row| is_in_text(row)).count();
    assert!(num_found + 5 > seen.len(), "{num_found} of {}", seen.len());
    let checksum = corpus.checksum().unwrap();
    assert_eq!(Corpus::load(&of_text, 5, 256).unwrap().checksum().unwrap(), checksum);
    fs::write(folder.path().join("a.txt"), "x".repeat(20_000 + 1)).unwrap();
    let mut batch = TokenBatch::zeros(3, 5);
    let failed = (1..=50).find_map(|step| batches.micro_batch(step, 0, 0, &mut batch).err()).unwrap();
    let error = DataError::of_source(failed);
    assert_eq!(error.key(), "data.text");
    assert!(error.to_string().contains("a.txt` has changed since this process began to read it"), "{error}");
    assert!(corpus.checksum().is_err());
}

/// Bytes of JSON: each object is a document, of which what carries loss is learned; documents are marked, split whole, and end with a line break.
#[test]
fn objects_of_json_are_documents() {
    let folder = tempfile::tempdir().unwrap();
    let (texts, pairs) = (folder.path().join("texts.json"), folder.path().join("pairs.jsonl"));
    fs::write(&texts, "[{\"text\": \"abc\"}, {\"text\": \"de\\n\"}]").unwrap();
    fs::write(
        &pairs,
        "{\"prompt\": \"fgh\", \"completion\": \"ij\"}\n{\"tokens\": [65, 66, 67], \"mask\": [0, 1, 0]}\n",
    )
    .unwrap();
    let config = DataConfig { text: vec![texts, pairs], document_attention: true, ..DataConfig::default() };
    let corpus = Corpus::load(&config, 4, 256).unwrap();
    let text = "abc\nde\nfghij\nABC";
    assert_eq!(corpus.num_tokens(), [text.len() as u64, 0]);
    let layout =
        BatchLayout { data_degree: 1, num_micro_batches: 1, micro_batch_size: 1, seq_length: text.len() - 1 };
    let corpus = Corpus::load(&config, text.len() - 1, 256).unwrap();
    let mut batch = TokenBatch::zeros(1, text.len() - 1);
    corpus.training_batches(layout, 1).unwrap().micro_batch(1, 0, 0, &mut batch).unwrap();
    let inputs: String = batch.inputs.iter().map(|&byte| char::from(byte as u8)).collect();
    let letter = |&target: &u32| if target == IGNORED_TARGET { '.' } else { char::from(target as u8) };
    let targets: String = batch.targets.iter().map(letter).collect();
    // The first token of a document is no target either, since nothing before it is seen.
    assert_eq!((inputs.as_str(), targets.as_str()), ("abc\nde\nfghij\nAB", "bc\n.e\n...ij\n.B."));
    assert_eq!(batch.document_starts, [0, 0, 0, 0, 4, 4, 4, 7, 7, 7, 7, 7, 7, 13, 13]);
    // What is learned is part of the checksum, and so is where documents end.
    let checksum = |lines: &str| {
        let path = folder.path().join("a.jsonl");
        fs::write(&path, lines).unwrap();
        let config = DataConfig { text: vec![path], ..DataConfig::default() };
        Corpus::load(&config, 1, 256).unwrap().checksum().unwrap()
    };
    let checksums = [
        checksum("{\"tokens\": [1, 2, 3]}"),
        checksum("{\"tokens\": [1, 2]}\n{\"tokens\": [3]}"),
        checksum("{\"tokens\": [1, 2, 3], \"mask\": [0, 1, 1]}"),
        checksum("{\"tokens\": [1, 2, 3], \"mask\": [1, 1, 0]}"),
    ];
    for (number, one) in checksums.iter().enumerate() {
        assert!(!checksums[..number].contains(one), "{number}");
    }
}

#[test]
fn json_that_is_no_data_is_refused_at_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.json");
    for (text, said) in [
        ("{\"text\": \"a long enough text\"}\n\n{\"body\": 1}\n", "a.json:3: it has neither \"text\""),
        ("[{\"text\": \"a long enough text\"},\n 7]", "a.json:2: it is JSON, but no object: it is a number"),
        (
            "{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\"}]}",
            "a.json:1: it is a conversation, and text is read as bytes",
        ),
        ("[]", "the data has 0 tokens"),
        ("", "the text is empty: all 1 files have 0 bytes"),
        ("{\"tokens\": [1, 2, 3, 4, 5, 6], \"mask\": [0, 0, 0, 0, 0, 0]}", "none of its"),
    ] {
        fs::write(&path, text).unwrap();
        let config = DataConfig { text: vec![path.clone()], ..DataConfig::default() };
        let error = Corpus::load(&config, 4, 256).unwrap_err();
        assert!(error.to_string().contains(said), "{text}: {error}");
        assert_eq!(error.key(), "data.text");
    }
}
