//! What is written depends on the inputs and the tokenizer alone.

use std::fs;
use std::path::{Path, PathBuf};

use pipezero_tokens::{TokenFile, TokenType, Tokenizer, Written, train_tokenizer};

use super::*;

mod json; // Files of JSON in every form.

const TEXT: &str = "The quick brown fox jumps over the lazy dog. 2 + 2 = 4; naïve façade — 你好, мир!\n";

struct Silent;

impl Watch for Silent {
    fn progress(&mut self, _: u64, _: Written) {}
}

/// Stops the work after so many batches, as a killed process would.
struct Killed(usize);

impl Watch for Killed {
    fn progress(&mut self, _: u64, _: Written) {
        self.0 = self.0.checked_sub(1).unwrap_or_else(|| std::panic::panic_any("killed"));
    }
}

fn options(folder: &Path, inputs: &[&str], out: &str) -> Options {
    Options {
        inputs: inputs.iter().map(|name| folder.join(name)).collect(),
        tokenizer: folder.to_owned(),
        end: End::Known,
        prefix: folder.join(out),
        form: Form::default(),
        num_threads: 2,
        save_every: 1,
        start: Start::New,
    }
}

fn folder_with_tokenizer() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    train_tokenizer([TEXT].into_iter(), 320, &folder.path().join(Tokenizer::FILE)).unwrap();
    folder
}

fn tokens_of(path: &Path) -> (Vec<u32>, Vec<u64>) {
    let file = TokenFile::open(path, TokenType::U16).unwrap();
    let mut tokens = vec![0; file.num_tokens() as usize];
    file.read(0, &mut tokens, 320).unwrap();
    (tokens, file.document_ends().to_vec())
}

fn error_of(options: Options) -> String {
    match Job::new(options) {
        Err(error) => error.to_string(),
        Ok(job) => job.run(&mut Silent).unwrap_err().to_string(),
    }
}

/// Against the library alone: each document's tokens, and the end token.
#[test]
fn documents_are_those_of_the_tokenizer() {
    let folder = folder_with_tokenizer();
    let documents: Vec<String> = (0..400).map(|number| format!("{TEXT}number {number}\n\n{TEXT}")).collect();
    fs::write(folder.path().join("a.txt"), documents.join("<|sep|>")).unwrap();
    let lines = documents.iter().map(|text| format!("{}\n", serde_json::json!({ "body": text })));
    fs::write(folder.path().join("b.jsonl"), lines.collect::<String>()).unwrap();
    let mut asked = options(folder.path(), &["a.txt", "b.jsonl"], "out/data");
    asked.form.separator = Some("<|sep|>".to_owned());
    asked.form.fields.text = "body".to_owned();
    let finished = Job::new(asked).unwrap().run(&mut Silent).unwrap();
    let tokenizer = Tokenizer::load(folder.path(), None).unwrap();
    let end = tokenizer.end_token().expect("<|endoftext|> is the one of GPT-2");
    let (mut expected, mut ends) = (Vec::new(), Vec::new());
    for text in documents.iter().chain(&documents) {
        expected.extend(tokenizer.encode(text).unwrap());
        expected.push(end);
        ends.push(expected.len() as u64);
    }
    assert_eq!(tokens_of(&finished.bin), (expected, ends));
    assert_eq!(finished.written.num_documents, 800);
    let names = fs::read_dir(folder.path().join("out")).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["data.bin", "data.idx", "data.tokenizer-of-tokens.json"]);
}

/// Stopped after each of several numbers of batches, with one thread and with three: the same files, which are those of inputs without byte
/// order marks.
#[test]
fn interrupted_work_ends_with_the_same_files() {
    let folder = folder_with_tokenizer();
    let lines: String = (0..9000)
        .map(|number| format!("{}\n", serde_json::json!({ "text": format!("{number} {TEXT}") })))
        .collect();
    let inputs = ["a.jsonl", "b.txt"];
    let read = |path: &PathBuf| fs::read(path).unwrap();
    let [plain, whole] = ["", "\u{feff}"].map(|mark| {
        fs::write(folder.path().join("a.jsonl"), format!("{mark}{lines}")).unwrap();
        fs::write(folder.path().join("b.txt"), format!("{mark}{TEXT}")).unwrap();
        let out = format!("whole{}", mark.len());
        Job::new(options(folder.path(), &inputs, &out)).unwrap().run(&mut Silent).unwrap()
    });
    let (bin, idx) = (read(&whole.bin), read(&whole.idx));
    assert!(bin == read(&plain.bin) && idx == read(&plain.idx), "a byte order mark is no text");
    for num_batches in 0..5 {
        let out = format!("resumed-{num_batches}");
        let asked =
            Options { num_threads: 1 + 2 * (num_batches % 2), ..options(folder.path(), &inputs, &out) };
        let job = Job::new(asked.clone()).unwrap();
        let killed = std::panic::AssertUnwindSafe(|| job.run(&mut Killed(num_batches)));
        assert!(std::panic::catch_unwind(killed).is_err(), "there are more than {num_batches} batches");
        assert!(
            error_of(asked.clone()).contains("go on with it with --resume, or begin again with --overwrite")
        );
        // A process that is killed may have written more than it has noted.
        let partial = folder.path().join(format!("{out}.bin.partial"));
        let longer = [read(&partial), vec![7; 99]].concat();
        fs::write(&partial, longer).unwrap();
        let finished = Job::new(Options { start: Start::Resume, ..asked }).unwrap().run(&mut Silent).unwrap();
        assert!(read(&finished.bin) == bin && read(&finished.idx) == idx, "after {num_batches} batches");
        assert_eq!(finished.written, whole.written);
    }
}

#[test]
fn prompts_and_masks_carry_no_loss() {
    let folder = folder_with_tokenizer();
    let lines = concat!(
        "{\"prompt\": \"What is 2 + 2?\", \"completion\": \" 4\"}\n\n",
        "{\"tokens\": [5, 6, 7, 8, 9], \"mask\": [0, 1, true, false, 0]}\n",
        "{\"tokens\": [5]}"
    );
    fs::write(folder.path().join("a.jsonl"), lines).unwrap();
    let finished = Job::new(options(folder.path(), &["a.jsonl"], "data")).unwrap().run(&mut Silent).unwrap();
    let tokenizer = Tokenizer::load(folder.path(), None).unwrap();
    let prompt = tokenizer.encode("What is 2 + 2?").unwrap();
    let pair = [&prompt[..], &tokenizer.encode(" 4").unwrap(), &[tokenizer.end_token().unwrap()]].concat();
    let (tokens, ends) = tokens_of(&finished.bin);
    assert_eq!(tokens, [&pair[..], &[5, 6, 7, 8, 9, 5]].concat());
    let (first, pair) = (prompt.len() as u64, pair.len() as u64);
    assert_eq!(ends, [pair, pair + 5, pair + 6]);
    let file = TokenFile::open(&finished.bin, TokenType::U16).unwrap();
    assert_eq!(file.unscored(), [0..first, pair..pair + 1, pair + 3..pair + 5]);
}

/// Each mistake: the name of the file, what is in it, and what is said, which names the file and the line.
#[test]
fn what_is_no_document_is_said_at_its_line() {
    let folder = folder_with_tokenizer();
    let good = "{\"text\": \"a\"}\n";
    let cases: [(&str, &[u8], &str); 22] = [
        ("a.jsonl", b"{\"text\": 5}", ":3: \"text\" is a number, and must be a string"),
        (
            "b.jsonl",
            b"{\"text\": \"a\"",
            ":3: column 12: EOF while parsing an object; a line holds one JSON object",
        ),
        ("c.jsonl", b"[1, 2]", ":3: it is JSON, but no object"),
        ("d.jsonl", b"{\"prompt\": \"a\"}", ":3: it has \"prompt\" and no \"completion\"; a pair has both"),
        (
            "e.jsonl",
            b"{\"body\": \"a\"}",
            ":3: it has neither \"text\", nor \"messages\", nor \"prompt\" and \"completion\", nor \"instruction\" and \"output\", nor \"tokens\", but \"body\"",
        ),
        ("f.jsonl", b"{}", "but no field; name the field"),
        (
            "g.jsonl",
            b"{\"tokens\": [1, 999]}",
            ":3: \"tokens\" has 999 at 1, and the tokenizer has whole numbers below",
        ),
        ("h.jsonl", b"{\"tokens\": [1, -2]}", "\"tokens\" has -2 at 1"),
        ("i.jsonl", b"{\"tokens\": [1], \"mask\": []}", "\"mask\" has 0 entries, and \"tokens\" has 1"),
        ("j.jsonl", b"{\"tokens\": [1], \"mask\": [2]}", "\"mask\" has 2 at 0, and must have 0 or 1"),
        ("k.jsonl", b"{\"tokens\": 7}", "\"tokens\" is a number, and must be a list"),
        ("l.jsonl", b"{\"text\": \"\xff\"}", ":3: it is not UTF-8 text, 10 bytes from here"),
        ("m.jsonl", b"{\"text\": \"\\ud800\"}", ":3: column"),
        (
            "n.jsonl",
            b"{\"completion\": \"a\", \"prompt\": \"a\", \"text\": \"a\"}",
            ":3: it has \"text\" and \"prompt\", and an object holds one",
        ),
        (
            "o.jsonl",
            b"{\"text\": \"a\", \"completion\": \"a\"}",
            ":3: it has \"text\" and \"completion\", and",
        ),
        (
            "p.jsonl",
            b"{\"text\": \"a\", \"tokens\": [1]}",
            ":3: it has \"text\" and \"tokens\", and an object",
        ),
        (
            "q.jsonl",
            b"{\"tokens\": [1], \"prompt\": 7}",
            ":3: it has \"prompt\" and \"tokens\", and an object",
        ),
        (
            "r.jsonl",
            b"{\"text\": \"a\", \"mask\": [1]}",
            ":3: it has \"mask\" and no \"tokens\" that it could be",
        ),
        ("s.jsonl", b"{\"mask\": [1]}", ":3: it has \"mask\" and no \"tokens\" that it could be"),
        ("t.jsonl", b"{\"text\": null, \"tokens\": null}", ":3: \"text\" is null, and it holds no other"),
        ("u.jsonl", b"{\"tokens\": null}", ":3: \"tokens\" is null, and it holds no other"),
        (
            "v.jsonl",
            b"{\"prompt\": \"a\", \"completion\": null}",
            ":3: it has \"prompt\" and no \"completion\"",
        ),
    ];
    for (name, bytes, said) in cases {
        fs::write(folder.path().join(name), [good.as_bytes(), b"\n", bytes, b"\n", good.as_bytes()].concat())
            .unwrap();
        let error = error_of(options(folder.path(), &[name], name));
        assert!(error.contains(said) && error.contains(name), "{said}: {error}");
    }
}

/// A mistake in the first batch leaves nothing behind, so that the next start simply begins; before a later one the work is kept, and goes on once
/// it is mended, to the same files.
#[test]
fn a_mistake_loses_no_work() {
    let folder = folder_with_tokenizer();
    let path = folder.path().join("a.jsonl");
    let asked = |start| Options { start, ..options(folder.path(), &["a.jsonl", "b.jsonl"], "data") };
    let good = format!("{}\n", serde_json::json!({ "text": TEXT }));
    fs::write(folder.path().join("b.jsonl"), &good).unwrap();
    fs::write(&path, format!("{good}{{}}\n")).unwrap();
    for _ in 0..2 {
        let error = error_of(asked(Start::New));
        assert!(error.contains("a.jsonl:2: ") && !error.contains("--resume"), "{error}");
    }
    let num_good = 9000;
    let all_good = good.repeat(num_good);
    fs::write(&path, format!("{all_good}{{}}\n")).unwrap();
    for start in [Start::New, Start::Resume] {
        let error = error_of(asked(start));
        assert!(error.contains(&format!("a.jsonl:{}: ", num_good + 1)), "{error}");
        assert!(
            error.contains("documents before it are kept: correct the file and go on with --resume"),
            "{error}"
        );
    }
    assert!(error_of(asked(Start::New)).contains("go on with it with --resume"));
    // Another beginning of the same length is noticed, and so is none.
    for other in [all_good.replacen("text", "test", 1), "{}\n".to_owned()] {
        fs::write(&path, other).unwrap();
        let error = error_of(asked(Start::Resume));
        assert!(error.contains("are not those that were tokenized"), "{error}");
    }
    fs::write(&path, format!("{all_good}{good}")).unwrap();
    // What comes later may have become something else.
    fs::write(folder.path().join("b.jsonl"), good.repeat(2)).unwrap();
    let resumed = Job::new(asked(Start::Resume)).unwrap();
    assert!(resumed.resumed_bytes() > 0);
    let resumed = resumed.run(&mut Silent).unwrap();
    let whole = Options { prefix: folder.path().join("whole"), ..asked(Start::New) };
    let whole = Job::new(whole).unwrap().run(&mut Silent).unwrap();
    assert_eq!(whole.written.num_documents, num_good as u64 + 3);
    assert_eq!(tokens_of(&resumed.bin), tokens_of(&whole.bin));
}

/// What became tokens must still be what it was, and the tokens must still be there: those of other work are not taken for them.
#[test]
fn work_goes_on_with_its_own_files_alone() {
    let folder = folder_with_tokenizer();
    let path = |name: &str| folder.path().join(name);
    let good = format!("{}\n", serde_json::json!({ "text": TEXT }));
    let text = TEXT.repeat(300_000 / TEXT.len());
    fs::write(path("a.txt"), &text).unwrap();
    fs::write(path("b.jsonl"), good.repeat(20_000)).unwrap();
    let asked = |start| Options { start, ..options(folder.path(), &["a.txt", "b.jsonl"], "data") };
    Job::new(asked(Start::New)).unwrap().run(&mut Silent).unwrap();
    let earlier = fs::read(path("data.bin")).unwrap();
    fs::write(path("b.jsonl"), format!("{good}{{}}\n")).unwrap();
    assert!(error_of(asked(Start::Overwrite)).contains("documents before it are kept"));
    fs::write(path("b.jsonl"), &good).unwrap();
    // A text without separators is one document, which has become another.
    fs::write(path("a.txt"), format!("{text} and more")).unwrap();
    let error = error_of(asked(Start::Resume));
    assert!(error.contains("a.txt` has changed since it was tokenized"), "{error}");
    fs::write(path("b.jsonl"), format!("{good}{{}}\n")).unwrap();
    assert!(error_of(asked(Start::Overwrite)).contains("documents before it are kept"));
    fs::remove_file(path("data.bin.partial")).unwrap();
    fs::write(path("b.jsonl"), &good).unwrap();
    let error = error_of(asked(Start::Resume));
    assert!(error.contains("data.bin.partial` cannot be used"), "{error}");
    assert!(fs::read(path("data.bin")).unwrap() == earlier && path("data.idx").exists());
}

/// Asked to stop after each of several batches, and resumed: the same files.
#[test]
fn stopped_work_ends_with_the_same_files() {
    struct Stopping(usize);
    impl Watch for Stopping {
        fn progress(&mut self, _: u64, _: Written) {
            self.0 = self.0.saturating_sub(1);
        }

        fn is_to_stop(&self) -> bool {
            self.0 == 0
        }
    }
    let folder = folder_with_tokenizer();
    fs::write(folder.path().join("a.txt"), format!("{TEXT}\n").repeat(12_000)).unwrap();
    let asked = |start, out: &str| {
        let mut asked = Options { start, ..options(folder.path(), &["a.txt"], out) };
        asked.form.separator = Some("\n".to_owned());
        asked
    };
    let whole = Job::new(asked(Start::New, "whole")).unwrap().run(&mut Silent).unwrap();
    for num_batches in 0..3 {
        let out = format!("data-{num_batches}");
        let stopped = Job::new(asked(Start::New, &out)).unwrap().run(&mut Stopping(num_batches));
        assert!(matches!(stopped, Err(TokenizeError::Stopped { .. })), "{stopped:?}");
        let resumed = Job::new(asked(Start::Resume, &out)).unwrap();
        assert!(resumed.resumed_bytes() > 0);
        let resumed = resumed.run(&mut Silent).unwrap();
        assert_eq!(tokens_of(&resumed.bin), tokens_of(&whole.bin));
    }
}

/// Fields that are null are none, a number of tokens is no document, and a half of a pair that is named as the text is one.
#[test]
fn fields_that_are_no_document_are_left_alone() {
    let folder = folder_with_tokenizer();
    let tokenizer = Tokenizer::load(folder.path(), None).unwrap();
    let text = [tokenizer.encode("a b").unwrap(), vec![tokenizer.end_token().unwrap()]].concat();
    let cases = [
        ("text", "{\"text\": \"a b\", \"tokens\": 2, \"id\": 7}", &text[..]),
        (
            "text",
            "{\"text\": \"a b\", \"prompt\": null, \"completion\": null, \"tokens\": null, \"mask\": null}",
            &text,
        ),
        ("text", "{\"text\": null, \"tokens\": [5, 6], \"mask\": null}", &[5, 6]),
        ("completion", "{\"prompt\": \"c\", \"completion\": \"a b\"}", &text),
        ("tokens", "{\"tokens\": \"a b\"}", &text),
        ("mask", "{\"mask\": \"a b\"}", &text),
    ];
    for (index, (text_field, line, expected)) in cases.into_iter().enumerate() {
        fs::write(folder.path().join("a.jsonl"), line).unwrap();
        let mut asked = options(folder.path(), &["a.jsonl"], &format!("data-{index}"));
        asked.form.fields.text = text_field.to_owned();
        let finished = Job::new(asked).unwrap().run(&mut Silent).unwrap();
        assert_eq!(tokens_of(&finished.bin).0, expected, "{line}");
    }
    fs::write(folder.path().join("a.jsonl"), "{\"prompt\": \"c\"}").unwrap();
    let mut asked = options(folder.path(), &["a.jsonl"], "data");
    asked.form.fields.text = "completion".to_owned();
    assert!(error_of(asked).contains(":1: it has neither \"completion\", nor "));
}

/// By its name, through its folder and by a glob.
#[test]
fn a_file_that_is_named_again_is_read_once() {
    let folder = folder_with_tokenizer();
    fs::create_dir(folder.path().join("texts")).unwrap();
    for name in ["a.txt", "b.txt"] {
        fs::write(folder.path().join("texts").join(name), format!("{name} {TEXT}")).unwrap();
    }
    let job = |inputs: &[&str], out| Job::new(options(folder.path(), inputs, out)).unwrap();
    let repeated = job(&["texts/b.txt", "texts", "texts/../texts/*.txt"], "repeated");
    assert_eq!((repeated.num_files(), repeated.num_repeats()), (2, 3));
    let once = job(&["texts/b.txt", "texts/a.txt"], "once");
    assert_eq!(once.num_repeats(), 0);
    let [repeated, once] = [repeated, once].map(|job| job.run(&mut Silent).unwrap());
    assert_eq!(tokens_of(&repeated.bin), tokens_of(&once.bin));
}

/// They may lie in a folder of inputs, and be written otherwise there.
#[test]
fn what_is_written_is_no_input() {
    let (folder, tokenizer) = (tempfile::tempdir().unwrap(), folder_with_tokenizer());
    fs::create_dir(folder.path().join("empty")).unwrap();
    fs::write(folder.path().join("a.txt"), TEXT).unwrap();
    let tokenizer = tokenizer.path().to_owned();
    let asked = Options { tokenizer, ..options(folder.path(), &["empty/.."], "data") };
    let first = Job::new(asked.clone()).unwrap().run(&mut Silent).unwrap();
    let again = Job::new(Options { start: Start::Overwrite, ..asked }).unwrap();
    assert_eq!(again.num_files(), 1, "the text");
    assert_eq!(again.run(&mut Silent).unwrap(), first);
}

#[test]
fn options_that_no_input_has_a_use_for_are_refused() {
    let folder = folder_with_tokenizer();
    for (name, contents) in [("a.txt", "a b"), ("b.jsonl", "{\"text\": \"a b\"}")] {
        fs::write(folder.path().join(name), contents).unwrap();
    }
    let form = |change: fn(&mut Form)| {
        let mut form = Form::default();
        change(&mut form);
        form
    };
    let separated = form(|form| form.separator = Some("c".to_owned()));
    let fields: [(_, fn(&mut Form)); 3] = [
        ("--text-field", |form| form.fields.text = "body".to_owned()),
        ("--prompt-field", |form| form.fields.prompt = "question".to_owned()),
        ("--completion-field", |form| form.fields.completion = "answer".to_owned()),
    ];
    let asked = |form: &Form, inputs: &[&str]| {
        Job::new(Options { form: form.clone(), ..options(folder.path(), inputs, "data") })
    };
    let refused = asked(&separated, &["b.jsonl"]).unwrap_err();
    assert!(matches!(refused, TokenizeError::NoText { num_files: 1 }), "{refused}");
    asked(&separated, &["a.txt", "b.jsonl"]).unwrap();
    for (named, change) in fields {
        let refused = asked(&form(change), &["a.txt"]).unwrap_err();
        assert!(
            matches!(refused, TokenizeError::NoJson { option, num_files: 1 } if option == named),
            "{refused}"
        );
        asked(&form(change), &["a.txt", "b.jsonl"]).unwrap();
    }
}

#[test]
fn what_is_there_is_kept() {
    let folder = folder_with_tokenizer();
    fs::write(folder.path().join("a.txt"), TEXT).unwrap();
    fs::write(folder.path().join("empty.txt"), "\n \n").unwrap();
    let asked = options(folder.path(), &["a.txt"], "data");
    // Files of the user's, which no work has begun: neither written over, nor read and removed.
    for name in ["data.sequences", "data.bin.partial", "data.idx.partial", "data.tokenize.json.partial"] {
        fs::write(folder.path().join(name), "mine").unwrap();
        for start in [Start::New, Start::Resume] {
            let error = error_of(Options { start, ..asked.clone() });
            assert!(error.contains(&format!("{name}` exists; name another --out")), "{error}");
        }
        let error = error_of(options(folder.path(), &[name], "data"));
        assert!(error.contains(&format!("{name}` is written by the work itself")), "{error}");
        assert_eq!(fs::read(folder.path().join(name)).unwrap(), b"mine");
        fs::remove_file(folder.path().join(name)).unwrap();
    }
    #[cfg(unix)]
    {
        let link = folder.path().join("data.tokenize.json");
        std::os::unix::fs::symlink(folder.path().join("a.txt"), &link).unwrap();
        let error = error_of(Options { start: Start::Overwrite, ..asked.clone() });
        assert!(error.contains("it is no regular file; remove it"), "{error}");
        fs::remove_file(link).unwrap();
    }
    assert!(
        error_of(options(folder.path(), &["empty.txt"], "data"))
            .contains("hold no document: all 1 files are empty")
    );
    // Nothing has been begun, so nothing goes on. So it is where a process was killed as it wrote that it had begun.
    for (name, contents) in
        [("data.sequences", ""), ("data.bin.partial", ""), ("data.tokenize.json.partial", "{")]
    {
        fs::write(folder.path().join(name), contents).unwrap();
    }
    Job::new(Options { start: Start::Resume, ..asked.clone() }).unwrap().run(&mut Silent).unwrap();
    assert!(
        error_of(asked.clone())
            .contains("data.idx` exists; name another --out, or replace it with --overwrite")
    );
    fs::write(folder.path().join("a.txt"), TEXT.repeat(2)).unwrap();
    let replaced = Job::new(Options { start: Start::Overwrite, ..asked.clone() }).unwrap();
    assert_eq!(replaced.run(&mut Silent).unwrap().num_bytes, 2 * TEXT.len() as u64);
    // What goes on must be what was begun.
    let begun = Options { prefix: folder.path().join("begun"), ..asked };
    let job = Job::new(begun.clone()).unwrap();
    let killed = std::panic::AssertUnwindSafe(|| job.run(&mut Killed(0)));
    assert!(std::panic::catch_unwind(killed).is_err());
    let resumed = Options { start: Start::Resume, ..begun };
    let other = Options { end: End::None, ..resumed.clone() };
    assert!(error_of(other).contains("was begun with another token that ends documents"));
    fs::write(folder.path().join("a.txt"), TEXT).unwrap();
    let changed = error_of(resumed.clone());
    let (then, now) = (TEXT.repeat(2).len(), TEXT.len());
    let said = format!(
        "a.txt` has changed since it was tokenized: it had {then} bytes, and has {now}; begin again with --overwrite"
    );
    assert!(changed.ends_with(&said), "{changed}");
    fs::write(folder.path().join("begun.tokenize.json"), "{").unwrap();
    assert!(error_of(resumed).contains("cannot be used: EOF while parsing"));
}

#[test]
fn an_end_token_is_named_or_refused() {
    let folder = folder_with_tokenizer();
    fs::write(folder.path().join("a.txt"), TEXT).unwrap();
    let asked = options(folder.path(), &["a.txt"], "data");
    let named = |name: &str| Options { end: End::Named(name.to_owned()), ..asked.clone() };
    assert!(
        error_of(named("</s>")).contains("has no token \"</s>\"; its special tokens are \"<|endoftext|>\"")
    );
    let config = folder.path().join("tokenizer_config.json");
    fs::write(&config, "{\"eos_token\": {\"content\": \"!\"}}").unwrap();
    assert_eq!(Job::new(asked.clone()).unwrap().end_token().as_deref(), Some("!"));
    fs::write(&config, "{\"eos_token\": \"no such token\"}").unwrap();
    assert_eq!(Job::new(asked.clone()).unwrap().end_token().as_deref(), Some("<|endoftext|>"));
    assert_eq!(Job::new(Options { end: End::None, ..asked }).unwrap().end_token(), None);
}
