//! Files of JSON, in every form that other programs write: the same documents, or a mistake at its line.

use super::*;

/// The same objects, one a line, as a list on many lines, and one after the other: the same files, each interrupted after each of its first batches.
#[test]
fn json_of_every_form_gives_the_same_files() {
    let folder = folder_with_tokenizer();
    // A field that is no document fills the batches.
    let padding = "[{\"\\,".repeat(1000);
    let objects: Vec<_> = (0..150)
        .map(
            |number| serde_json::json!({ "padding": [padding], "text": format!("{number} [{{\"{TEXT}\\\n") }),
        )
        .collect();
    let joined = |by: &str| objects.iter().map(|object| format!("{object:#}")).collect::<Vec<_>>().join(by);
    let lines: String = objects.iter().map(|object| format!("{object}\n")).collect();
    let forms = [
        ("lines.jsonl", lines.clone()),
        ("lines.json", lines.clone()),
        ("windows.json", format!("\u{feff}{}", lines.replace('\n', "\r\n\r\n"))),
        ("list.json", format!("[\n{}\n]\n", joined(",\n"))),
        ("list.jsonl", format!("\u{feff}[{}]", joined(" , "))),
        ("values.json", joined("\n")),
    ];
    let mut expected = None;
    for (name, text) in forms {
        fs::write(folder.path().join(name), text).unwrap();
        let whole = Job::new(options(folder.path(), &[name], name)).unwrap().run(&mut Silent).unwrap();
        assert_eq!(whole.written.num_documents, 150, "{name}");
        let found = tokens_of(&whole.bin);
        assert!(*expected.get_or_insert_with(|| found.clone()) == found, "{name}");
        for num_batches in [1, 2] {
            let asked = options(folder.path(), &[name], &format!("{name}-{num_batches}"));
            let job = Job::new(asked.clone()).unwrap();
            let killed = std::panic::AssertUnwindSafe(|| job.run(&mut Killed(num_batches)));
            assert!(std::panic::catch_unwind(killed).is_err(), "there are more than {num_batches} batches");
            let resumed = Job::new(Options { start: Start::Resume, ..asked }).unwrap();
            assert!(resumed.resumed_bytes() > 0, "{name}");
            assert!(tokens_of(&resumed.run(&mut Silent).unwrap().bin) == found, "{name}");
        }
    }
}

/// Files that users of other programs have under the name `.json`: each is read, or refused with what it has.
#[test]
fn json_without_documents_is_refused() {
    let folder = folder_with_tokenizer();
    let cases = [
        (
            "{\"body\": \"a\", \"id\": 7}",
            "1: it has neither \"text\", nor \"messages\", nor \"prompt\" and \"completion\", nor \"instruction\" and \"output\", nor \"tokens\", but \"body\", \"id\"; name the field of the text with \
             --text-field of `pipezero tokenize`",
        ),
        (
            "{\n \"data\": [\n {\"text\": \"a\"}\n ]\n}\n",
            "1: it is one object, and a list of objects is inside of it, in \"data\"",
        ),
        ("[{\"text\": {\"body\": \"a\"}}]", "1: \"text\" is an object, and must be a string"),
        ("[{\"text\": \"a\"},\n {\"text\": [\"a\"]}]", "2: \"text\" is a list, and must be a string"),
        ("[{\"text\": \"a\"},\n", "2: the file ends, and its list does not"),
        (
            "[{\"text\": \"a\"},\n{\"text\": ",
            "2: column 9: EOF while parsing a value; the value that begins here must be",
        ),
        ("{\n\"text\": \"a\",\n\"b\" 1}", "1: line 3 of the value, column 5: expected `:`"),
        ("hello\n{\"text\": \"a\"}\n", "1: column 1: expected value; a line holds one JSON object"),
        ("{\"text\": \"a\"}\nhello\n", "2: column 1: expected value; a line holds one JSON object"),
        ("[1, 2]", "1: it is JSON, but no object: it is a number"),
        ("[[{\"text\": \"a\"}]]", "1: it is JSON, but no object: it is a list"),
        ("\"text\"", "1: it is JSON, but no object: it is a string"),
    ];
    for (index, (text, said)) in cases.into_iter().enumerate() {
        fs::write(folder.path().join("a.json"), text).unwrap();
        let error = error_of(options(folder.path(), &["a.json"], &format!("data-{index}")));
        assert!(error.contains(&format!("a.json:{said}")), "{text}: {error}");
    }
    // A list of strings is one of texts, as for Hugging Face's datasets, and an object alone is a document.
    for (text, num_documents) in [("[\"a b\", \"c\"]", 2), ("{\n\"text\": \"a\"\n}", 1)] {
        fs::write(folder.path().join("a.json"), text).unwrap();
        let asked = Options { start: Start::Overwrite, ..options(folder.path(), &["a.json"], "data") };
        assert_eq!(Job::new(asked).unwrap().run(&mut Silent).unwrap().written.num_documents, num_documents);
    }
    let empty = ["", "\n \n", "[]", "[\n]\n"];
    for text in empty {
        fs::write(folder.path().join("a.json"), text).unwrap();
        let asked = Options { start: Start::Overwrite, ..options(folder.path(), &["a.json"], "data") };
        assert!(error_of(asked).contains("the inputs hold no document"), "{text}");
    }
}
