//! Which files an entry names, in which order, and every way in which there is no text.

use super::*;

/// A folder with a few texts; `(path, text)` each.
fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (path, text) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().expect("files lie in a folder")).expect("a new folder");
        fs::write(path, text).expect("a new file");
    }
    folder
}

/// Texts named by their content, so that a list of contents is a list of files.
fn tree() -> tempfile::TempDir {
    folder(&[
        ("b.txt", "b.txt"),
        ("a.txt", "a.txt"),
        ("notes.md", "notes.md"),
        ("deep/c.txt", "deep/c.txt"),
        ("deep/deeper/d.txt", "deep/deeper/d.txt"),
        ("deep.txt", "deep.txt"),
        (".hidden.txt", ".hidden.txt"),
        (".git/e.txt", ".git/e.txt"),
        ("deep/.cache/f.txt", "deep/.cache/f.txt"),
    ])
}

fn read(folder: &tempfile::TempDir, entries: &[&str]) -> Result<Vec<String>, TextError> {
    let entries: Vec<_> = entries.iter().map(|entry| folder.path().join(entry)).collect();
    Ok(read_text(&entries)?.into_iter().map(|file| file.text).collect())
}

/// Finding is reading without the contents.
#[test]
fn what_is_found_is_what_could_be_read() {
    let folder = tree();
    fs::write(folder.path().join("bytes"), [0xff]).expect("a new file");
    for entry in ["a.txt", "*.txt", "deep", "**/*.txt", "bytes"] {
        find_text(&folder.path().join(entry)).expect(entry);
    }
    for entry in ["c.txt", "*.rs", "deep/.cache/*.rs", "[", "a.txt/b.txt"] {
        let found = find_text(&folder.path().join(entry)).expect_err(entry).to_string();
        let read = read_text(&[folder.path().join(entry)]).expect_err(entry).to_string();
        assert_eq!(found, read, "{entry}");
    }
}

fn refused(folder: &tempfile::TempDir, entries: &[&str]) -> String {
    let message = read(folder, entries).expect_err("there is no text").to_string();
    message.replace(folder.path().to_str().expect("temporary folders have plain names"), "FOLDER")
}

#[test]
fn folders_are_read_in_order_of_path_without_hidden_entries() {
    let visible = ["a.txt", "b.txt", "deep/c.txt", "deep/deeper/d.txt", "deep.txt", "notes.md"];
    assert_eq!(read(&tree(), &[""]).expect("texts"), visible);
    // A hidden folder that is named is meant.
    assert_eq!(read(&tree(), &[".git"]).expect("texts"), [".git/e.txt"]);
}

#[test]
fn globs_match_files_at_their_depth() {
    let cases: [(&str, &[&str]); 11] = [
        ("*.txt", &["a.txt", "b.txt", "deep.txt"]),
        ("**/*.txt", &["a.txt", "b.txt", "deep/c.txt", "deep/deeper/d.txt", "deep.txt"]),
        ("deep/**/*", &["deep/c.txt", "deep/deeper/d.txt"]),
        ("*/*.txt", &["deep/c.txt"]),
        ("[ab].txt", &["a.txt", "b.txt"]),
        ("?.txt", &["a.txt", "b.txt"]),
        (".git/*", &[".git/e.txt"]),
        (".*.txt", &[".hidden.txt"]),
        ("*/**/*.txt", &["deep/c.txt", "deep/deeper/d.txt"]),
        ("**/.cache/*", &["deep/.cache/f.txt"]),
        ("deep/../*/c.*", &["deep/c.txt"]),
    ];
    for (glob, files) in cases {
        assert_eq!(read(&tree(), &[glob]).expect("texts"), files, "{glob}");
    }
}

#[test]
fn entries_keep_their_order_and_files_count_once() {
    let files = ["b.txt", "a.txt", "deep.txt", "notes.md"];
    assert_eq!(read(&tree(), &["b.txt", "*.txt", "deep/../a.txt", "*.md", "b.txt"]).expect("texts"), files);
}

/// A file with a glob's characters in its name, or in a folder above it, is found by that name.
#[test]
fn existing_names_are_taken_literally() {
    let odd = folder(&[("[x]/a*.txt", "odd"), ("[x]/ab.txt", "plain"), ("x/a*.txt", "wrong")]);
    assert_eq!(read(&odd, &["[x]/a*.txt"]).expect("texts"), ["odd"]);
    assert_eq!(read(&odd, &["[x]/*b.txt"]).expect("texts"), ["plain"]);
}

#[test]
fn empty_files_are_fine_beside_others() {
    let some = folder(&[("a.txt", ""), ("b.txt", "b")]);
    assert_eq!(read(&some, &["*"]).expect("texts"), ["", "b"]);
}

#[cfg(unix)]
#[test]
fn links_are_followed_but_not_in_circles() {
    use std::os::unix::fs::symlink;

    let tree = tree();
    symlink(tree.path(), tree.path().join("deep/up")).expect("a link to the folder above");
    symlink(tree.path().join("deep"), tree.path().join("again")).expect("a link to a folder beside it");
    symlink(tree.path().join("a.txt"), tree.path().join("z.txt")).expect("a link to a file");
    // `again` comes before `deep`, so its files are found there, and once.
    let files = ["a.txt", "deep/c.txt", "deep/deeper/d.txt", "b.txt", "deep.txt", "notes.md"];
    assert_eq!(read(&tree, &[""]).expect("texts"), files);
    assert_eq!(read(&tree, &["**/*.md"]).expect("texts"), ["notes.md"]);
}

/// Forty folders, each with a link to every other one: more paths than can be walked, and forty files.
#[test]
fn links_that_lead_to_each_other_are_walked_once() {
    let tree = tempfile::tempdir().expect("a temporary folder");
    let names: Vec<String> = (0..40).map(|number| format!("f{number:02}")).collect();
    for name in &names {
        fs::create_dir(tree.path().join(name)).expect("a new folder");
        fs::write(tree.path().join(name).join("a.txt"), name).expect("a new file");
        for other in names.iter().filter(|other| *other != name) {
            let link = tree.path().join(name).join(format!("to-{other}"));
            std::os::unix::fs::symlink(tree.path().join(other), link).expect("a link");
        }
    }
    let mut found = read(&tree, &[""]).expect("texts");
    found.sort();
    assert_eq!(found, names);
    let message = refused(&tree, &["**/*.txt"]);
    assert!(
        message.starts_with("links lead to `FOLDER/f") && message.contains("in more than 16 ways"),
        "{message}"
    );
    assert_eq!(read(&tree, &["*/*.txt"]).expect("texts").len(), 40);
}

#[cfg(unix)]
#[test]
fn dangling_links_matter_where_they_are_wanted() {
    let tree = tree();
    std::os::unix::fs::symlink("nowhere", tree.path().join("gone.md")).expect("a dangling link");
    assert_eq!(read(&tree, &["?.txt"]).expect("texts"), ["a.txt", "b.txt"]);
    for entry in ["", "*.md"] {
        let message = refused(&tree, &[entry]);
        assert!(message.starts_with("`FOLDER/gone.md` cannot be read: "), "{message}");
        assert!(message.ends_with("; make it readable or leave it out"), "{message}");
    }
}

#[test]
fn missing_text_is_refused_by_name() {
    let tree = tree();
    fs::create_dir(tree.path().join("empty")).expect("a new folder");
    assert_eq!(
        read_text(&[]).expect_err("nothing is named").to_string(),
        "no text is named; name at least one file, folder or glob"
    );
    assert_eq!(
        refused(&tree, &["a.txt", "c.txt"]),
        "`FOLDER/c.txt` does not exist; name a file, a folder or a glob such as `texts/**/*.txt`"
    );
    for entry in ["empty", "*.rs", "nowhere/*.txt", "a.txt*/*"] {
        assert_eq!(
            refused(&tree, &[entry]),
            format!(
                "`FOLDER/{entry}` stands for no file; name a folder or glob with at least one file (hidden files are \
                 only found where the glob spells their dot)"
            )
        );
    }
    assert_eq!(
        refused(&tree, &["a***.txt"]),
        "`FOLDER/a***.txt` is not a valid glob: Pattern syntax error near position 3: wildcards are either regular \
         `*` or recursive `**`; write `[*]` for a star that is meant literally"
    );
}

#[test]
fn empty_text_is_refused() {
    let empty = folder(&[("a.txt", ""), ("b.txt", "")]);
    assert_eq!(refused(&empty, &[""]), "the text is empty: all 2 files have 0 bytes; name files with text");
}

#[test]
fn bytes_that_are_no_text_are_refused_at_their_place() {
    let tree = tree();
    fs::write(tree.path().join("photo"), b"gr\xc3\xbc\xc3\x9fe \xff\xfe").expect("a new file");
    assert_eq!(
        refused(&tree, &["a.txt", "photo"]),
        "`FOLDER/photo` is not UTF-8 text at byte 8; convert it, or name only the text files, with a glob such as \
         `**/*.txt`"
    );
}

/// A path below a file is neither there nor a glob.
#[test]
fn a_file_is_no_folder() {
    let message = refused(&tree(), &["a.txt/b.txt"]);
    assert!(message.starts_with("`FOLDER/a.txt/b.txt` "), "{message}");
}

#[test]
fn the_first_words_can_be_typed_in_a_shell() {
    for (text, expected) in [
        ("It was the best of times, it was", Some("It was the best")),
        ("//! The `queue`'s\n", Some("The queue s")),
        ("antidisestablishmentarianism is long", Some("antidisestablishmentarianism")),
        ("été", Some("t")),
        ("...\n", None),
    ] {
        let folder = folder(&[("a.txt", text)]);
        assert_eq!(first_words(&[folder.path().join("*.txt")]).as_deref(), expected, "{text}");
    }
    assert_eq!(first_words(&["/no/such/text".into()]), None);
}
