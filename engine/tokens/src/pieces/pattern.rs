//! Regular expressions: whether a match can ever continue from one given character to another.
//!
//! An expression is read as its atoms, each of which takes one character, and which atom may follow which (Glushkov's automaton). If no atom that takes `b`
//! follows one that takes `a`, then every way through the expression fails between an `a` and a `b` just as it fails at the end of a text. So matches on both
//! sides of that place are those of the two texts. It must not look back, which only some constructs do: all that is not known here is refused.

use tokenizers::utils::SysRegex;

/// Atoms of the longest expression that is read: published ones have up to 60.
const ATOMS_MAX: usize = 256;
/// Groups in groups.
const DEPTH_MAX: usize = 32;

/// An expression that does not look back.
#[derive(Debug)]
pub(super) struct Pattern {
    whole: SysRegex,
    atoms: Vec<SysRegex>,
    /// Which atom may follow which.
    follows: Vec<(usize, usize)>,
    ignores_case: bool,
}

impl Pattern {
    /// Reads an expression in the syntax of oniguruma; `None` if it has a construct that is not known here.
    pub(super) fn of(expression: &str) -> Option<Self> {
        let mut reader =
            Reader { rest: expression, atoms: Vec::new(), follows: Vec::new(), ignores_case: false };
        let part = reader.alternatives(false, 0)?;
        // One that matches nothing is found at every place.
        if !reader.rest.is_empty() || part.is_empty {
            return None;
        }
        let atoms = reader.atoms.iter().map(|atom| SysRegex::new(atom).ok()).collect::<Option<Vec<_>>>()?;
        let whole = SysRegex::new(expression).ok()?;
        Some(Self { whole, atoms, follows: reader.follows, ignores_case: reader.ignores_case })
    }

    /// Whether a match may continue from the first character to the second.
    pub(super) fn reaches_across(&self, before: char, after: char) -> bool {
        // Without regard to case some characters are as two letters.
        let is_plain =
            |character: char| character.is_ascii() || !(character.is_uppercase() || character.is_lowercase());
        if self.ignores_case && !(is_plain(before) && is_plain(after)) {
            return true;
        }
        let takes = |atom: usize, character: char| is_whole_match(&self.atoms[atom], character);
        let is_across = |&(one, next): &(usize, usize)| takes(one, before) && takes(next, after);
        self.follows.iter().any(is_across)
    }

    /// Whether it matches this character on its own.
    pub(super) fn matches_alone(&self, character: char) -> bool {
        is_whole_match(&self.whole, character)
    }
}

fn is_whole_match(expression: &SysRegex, character: char) -> bool {
    expression.find_iter(&character.to_string()).next() == Some((0, character.len_utf8()))
}

/// The expression of a text.
pub(super) fn escaped(text: &str) -> String {
    let mut expression = String::new();
    for letter in text.chars() {
        if r"\.+*?()|[]{}^$#&-~".contains(letter) {
            expression.push('\\');
        }
        expression.push(letter);
    }
    expression
}

/// A part of an expression: with which atoms it begins and ends, and whether it may take no character.
#[derive(Clone, Default)]
struct Part {
    begins: Vec<usize>,
    ends: Vec<usize>,
    is_empty: bool,
}

struct Reader<'a> {
    rest: &'a str,
    atoms: Vec<String>,
    follows: Vec<(usize, usize)>,
    ignores_case: bool,
}

impl Reader<'_> {
    fn take(&mut self, prefix: &str) -> bool {
        let rest = self.rest.strip_prefix(prefix);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.rest.chars().next()?;
        self.rest = &self.rest[next.len_utf8()..];
        Some(next)
    }

    fn join(&mut self, ends: &[usize], begins: &[usize]) {
        self.follows.extend(ends.iter().flat_map(|&end| begins.iter().map(move |&begin| (end, begin))));
    }

    fn alternatives(&mut self, no_case: bool, depth: usize) -> Option<Part> {
        if depth > DEPTH_MAX {
            return None;
        }
        let mut all = self.sequence(no_case, depth)?;
        while self.take("|") {
            let other = self.sequence(no_case, depth)?;
            all.begins.extend(other.begins);
            all.ends.extend(other.ends);
            all.is_empty |= other.is_empty;
        }
        Some(all)
    }

    fn sequence(&mut self, no_case: bool, depth: usize) -> Option<Part> {
        let mut all = Part { is_empty: true, ..Part::default() };
        while !self.rest.is_empty() && !self.rest.starts_with(['|', ')']) {
            let part = self.item(no_case, depth)?;
            self.join(&all.ends, &part.begins);
            if all.is_empty {
                all.begins.extend(&part.begins);
            }
            if !part.is_empty {
                all.ends.clear();
            }
            all.ends.extend(part.ends);
            all.is_empty &= part.is_empty;
        }
        Some(all)
    }

    /// An atom or a group, and how often it may stand there.
    fn item(&mut self, no_case: bool, depth: usize) -> Option<Part> {
        let is_ahead = self.rest.starts_with("(?=") || self.rest.starts_with("(?!");
        let mut part = if self.take("(?:") || self.take("(?>") || self.take("(?=") || self.take("(?!") {
            self.group(no_case, depth)?
        } else if self.take("(?i:") {
            self.ignores_case = true;
            self.group(true, depth)?
        } else if self.rest.starts_with("(?") {
            return None;
        } else if self.take("(") {
            self.group(no_case, depth)?
        } else {
            let atom = self.atom(no_case)?;
            let wrapped = if no_case { format!("(?i:{atom})") } else { format!("(?:{atom})") };
            self.atoms.push(wrapped);
            let number = self.atoms.len().checked_sub(1).filter(|&number| number < ATOMS_MAX)?;
            Part { begins: vec![number], ends: vec![number], is_empty: false }
        };
        if is_ahead {
            // It takes nothing, but looks at what follows.
            part = Part { begins: part.begins, ends: Vec::new(), is_empty: true };
        }
        loop {
            let (repeats, may_lack) = match self.rest.chars().next() {
                Some('?') => (false, true),
                Some('*') => (true, true),
                Some('+') => (true, false),
                Some('{') => {
                    let (counts, behind) = self.rest[1..].split_once('}')?;
                    let is_count = |letter: char| letter.is_ascii_digit() || letter == ',';
                    if counts.is_empty() || !counts.chars().all(is_count) {
                        return None;
                    }
                    self.rest = behind;
                    let (begins, ends) = (part.begins.clone(), part.ends.clone());
                    self.join(&ends, &begins);
                    part.is_empty |= counts.starts_with(['0', ',']) || self.rest.starts_with('?');
                    continue;
                }
                _ => return Some(part),
            };
            self.next();
            // Lazy, or without going back: a way through it is one of the same all the same.
            if !self.take("?") {
                self.take("+");
            }
            if repeats {
                let (begins, ends) = (part.begins.clone(), part.ends.clone());
                self.join(&ends, &begins);
            }
            part.is_empty |= may_lack;
        }
    }

    fn group(&mut self, no_case: bool, depth: usize) -> Option<Part> {
        let part = self.alternatives(no_case, depth + 1)?;
        self.take(")").then_some(part)
    }

    /// The expression of what takes one character.
    fn atom(&mut self, no_case: bool) -> Option<String> {
        let begun = self.rest;
        match self.next()? {
            letter if no_case && !letter.is_ascii() => return None,
            '^' | '$' | '?' | '*' | '+' | '{' | '}' | ')' | ']' | '|' => return None,
            '[' => {
                self.class()?;
                // Without regard to case letters that are not of ASCII may be as two.
                let class = &begun[1..begun.len() - self.rest.len()];
                if no_case && !class[..class.len() - 1].bytes().all(|byte| byte.is_ascii_alphanumeric()) {
                    return None;
                }
            }
            '\\' => self.escape()?,
            _ => {}
        }
        Some(begun[..begun.len() - self.rest.len()].to_owned())
    }

    /// Reads a class or a character after a backslash.
    fn escape(&mut self) -> Option<()> {
        match self.next()? {
            'p' | 'P' => {
                let (name, behind) = self.rest.strip_prefix('{')?.split_once('}')?;
                self.rest = behind;
                let is_name =
                    |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '^' | ' ' | '-');
                (!name.is_empty() && name.chars().all(is_name)).then_some(())
            }
            's' | 'S' | 'd' | 'D' | 'w' | 'W' | 'r' | 'n' | 't' | 'f' => Some(()),
            // Places, in some syntaxes.
            '<' | '>' | '`' | '\'' => None,
            letter => letter.is_ascii_punctuation().then_some(()),
        }
    }

    /// The rest of a class of characters, which may have others in it.
    fn class(&mut self) -> Option<()> {
        let mut depth = 1;
        let mut is_begun = true;
        while depth > 0 {
            if is_begun {
                self.take("^");
                // A bracket here would be a character, and a colon a class with a name.
                if self.rest.starts_with([']', ':']) {
                    return None;
                }
            }
            is_begun = false;
            match self.next()? {
                '\\' => self.escape()?,
                '[' => {
                    depth += 1;
                    is_begun = depth <= DEPTH_MAX;
                    if !is_begun {
                        return None;
                    }
                }
                ']' => depth -= 1,
                _ => {}
            }
        }
        Some(())
    }
}
