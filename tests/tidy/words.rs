//! One word for one thing: what the glossary of `docs/STYLE.md` says not to write stands nowhere else.

use super::source::sources;
use super::tree::{files, items, read, report, table};

const PAGE: &str = "docs/STYLE.md";

/// Names of the standard library and rayon, as they are called.
const NAMES_OF_OTHERS: &str = "as_chunks as_chunks_mut as_rchunks chunks chunks_mut chunks_exact chunks_exact_mut chunk_by \
    par_chunks par_chunks_mut par_chunks_exact rchunks";

/// A word or a phrase that is not to be written.
struct Banned {
    phrase: String,
    /// As [`words`] of it.
    words: String,
    /// The word of the glossary to write.
    instead: String,
}

impl Banned {
    fn new(phrase: String, instead: &str) -> Self {
        Self { words: words(&phrase), phrase, instead: instead.to_owned() }
    }
}

fn glossary() -> Vec<Banned> {
    let rows = table(PAGE, "## Glossary");
    let banned =
        rows.iter().flat_map(|row| items(&row[2]).into_iter().map(|phrase| Banned::new(phrase, &row[0])));
    let banned: Vec<Banned> = banned.collect();
    assert!(!banned.is_empty(), "{PAGE} bans no word: was its table read?");
    banned
}

/// Whether a name in camel case has a new word at `index`: `Zero|Stage`, `HTTP|Server`.
fn begins_a_word(name: &[char], index: usize) -> bool {
    let is_upper = |index: usize| name.get(index).is_some_and(|c| c.is_uppercase());
    is_upper(index) && (!is_upper(index - 1) || name.get(index + 1).is_some_and(|c| c.is_lowercase()))
}

/// The words of a text in lower case, each after a space; names in snake and camel case are several words. Other signs than
/// hyphens stay, so that a phrase does not reach across them.
fn words(text: &str) -> String {
    let mut words = String::new();
    for part in
        text.split(|c: char| c.is_whitespace() || c == '_' || c == '-').filter(|part| !part.is_empty())
    {
        let chars: Vec<char> = part.chars().collect();
        words.push(' ');
        for (index, c) in chars.iter().enumerate() {
            let is_after_sign = index > 0 && chars[index - 1].is_alphanumeric() != c.is_alphanumeric();
            if is_after_sign || index > 0 && begins_a_word(&chars, index) {
                words.push(' ');
            }
            words.extend(c.to_lowercase());
        }
    }
    words.push(' ');
    words
}

/// The banned words and phrases in a line.
fn banned_in<'a>(line: &str, glossary: &'a [Banned]) -> Vec<&'a Banned> {
    let names = line.split_inclusive(|c: char| !c.is_alphanumeric() && c != '_');
    let of_others: Vec<&str> = NAMES_OF_OTHERS.split_whitespace().collect();
    let is_own = |name: &&str| !of_others.contains(&name.trim_end_matches(|c: char| !c.is_alphanumeric()));
    let own = words(&names.filter(is_own).collect::<String>());
    glossary.iter().filter(|banned| own.contains(&banned.words)).collect()
}

#[test]
fn words_have_one_meaning() {
    let glossary = glossary();
    let mut findings = Vec::new();
    let pages = files("", ".md").into_iter().filter(|path| path != PAGE);
    for path in sources().into_iter().chain(pages) {
        for (index, line) in read(&path).lines().enumerate() {
            for Banned { phrase, instead, .. } in banned_in(line, &glossary) {
                findings.push(format!(
                    "{path}:{}: \"{phrase}\"; the glossary in {PAGE} has \"{instead}\"",
                    index + 1
                ));
            }
        }
    }
    report(&findings);
}

#[test]
fn banned_words_are_found_in_names_and_phrases() {
    let glossary = [("parcel", "message"), ("air mail", "message"), ("ZeRO step", "ZeRO-1")];
    let glossary = glossary.map(|(phrase, instead)| Banned::new(phrase.to_owned(), instead));
    let found =
        |line| banned_in(line, &glossary).iter().map(|banned| banned.phrase.as_str()).collect::<Vec<_>>();
    for line in ["a Parcel.", "let num_parcel = 1;", "fn f(of: ParcelKind)"] {
        assert_eq!(found(line), ["parcel"], "{line}");
    }
    for line in ["air mail", "the AirMail", "air-mail"] {
        assert_eq!(found(line), ["air mail"], "{line}");
    }
    assert_eq!(found("ZeRO step 1"), ["ZeRO step"]);
    for line in ["parcels", "parcelled", "air, mail", "a mail by air", "chunks_exact(2)"] {
        assert_eq!(found(line), [""; 0], "{line}");
    }
}
