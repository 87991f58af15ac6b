//! The modules of a crate: their files, what each defines, and what a path in one of them leads to.

use std::collections::{BTreeMap, BTreeSet};

use super::super::tree::is_test;
use super::tokens::{Token, tokens};

/// A crate's files by path.
pub(super) type Sources = BTreeMap<String, String>;

/// A `use` of one name: `use super::b::C as D;` is the path `super, b, C` under the name `D`.
pub(super) struct Import {
    pub(super) name: String,
    pub(super) path: Vec<String>,
    /// It hands the name on to others (`pub use`, `pub(crate) use`).
    pub(super) is_public: bool,
}

/// One module: a file, or an inline `mod a { .. }` of a file.
#[derive(Default)]
pub(super) struct Module {
    pub(super) file: String,
    pub(super) parent: Option<usize>,
    children: BTreeMap<String, usize>,
    items: BTreeSet<String>,
    pub(super) imports: Vec<Import>,
    /// The paths of `use a::b::*`.
    pub(super) globs: Vec<Vec<String>>,
    /// Every path in code; those of one word too.
    pub(super) paths: Vec<Vec<String>>,
}

/// What a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    Module(usize),
    /// An item that this module defines.
    Item(usize),
}

/// Every module of a crate; the first is the root.
pub(super) struct Modules<'a> {
    sources: &'a Sources,
    pub(super) all: Vec<Module>,
}

/// Words that begin an item whose name follows.
const ITEMS: [&str; 8] = ["fn", "struct", "enum", "trait", "type", "const", "static", "union"];

impl<'a> Modules<'a> {
    /// Reads the files of the crate whose root is this file.
    pub(super) fn read(sources: &'a Sources, root: &str) -> Self {
        let mut modules = Self { sources, all: Vec::new() };
        let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder);
        modules.read_file(root, folder, None);
        modules
    }

    /// Reads a file as a module whose children are in `folder`.
    fn read_file(&mut self, file: &str, folder: &str, parent: Option<usize>) -> usize {
        let tokens = tokens(&self.sources[file]);
        self.read_module(file, folder, parent, &tokens).0
    }

    /// Reads one module's tokens up to the brace that closes it; its index, and how many tokens it has.
    fn read_module(
        &mut self,
        file: &str,
        folder: &str,
        parent: Option<usize>,
        tokens: &[Token],
    ) -> (usize, usize) {
        let module = self.all.len();
        self.all.push(Module { file: file.to_owned(), parent, ..Module::default() });
        let (mut index, mut depth) = (0, 0_usize);
        while index < tokens.len() {
            let word = tokens[index].word();
            let name = tokens.get(index + 1).map_or("", Token::word).to_owned();
            if tokens[index].is('}') && depth == 0 {
                return (module, index + 1);
            }
            if tokens[index].is('{') {
                depth += 1;
            } else if tokens[index].is('}') {
                depth -= 1;
            } else if word == "mod" && !name.is_empty() {
                index += self.read_child(module, folder, &name, &tokens[index + 2..]) + 2;
                continue;
            } else if word == "use" {
                let is_public = index > 0 && (tokens[index - 1].word() == "pub" || tokens[index - 1].is(')'));
                let (_, length) = self.read_use(module, is_public, Vec::new(), &tokens[index + 1..]);
                index += length + 1;
                continue;
            } else if ITEMS.contains(&word) && depth == 0 && !ITEMS.contains(&name.as_str()) {
                self.all[module].items.insert(name);
            } else if word == "macro_rules" && depth == 0 {
                let name = tokens.get(index + 2).map_or("", Token::word).to_owned();
                self.all[module].items.insert(name);
            }
            index += self.read_path(module, &tokens[index..], index > 0 && tokens[index - 1].is('.'));
        }
        (module, tokens.len())
    }

    /// Reads what follows `mod name`; how many tokens that was.
    fn read_child(&mut self, parent: usize, folder: &str, name: &str, tokens: &[Token]) -> usize {
        let folder = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
        let (child, length) = if tokens[0].is('{') {
            let file = self.all[parent].file.clone();
            let (child, length) = self.read_module(&file, &folder, Some(parent), &tokens[1..]);
            (child, length + 1)
        } else {
            let places = [format!("{folder}/mod.rs"), format!("{folder}.rs")];
            let Some(file) = places.iter().find(|place| self.sources.contains_key(*place)) else { return 1 };
            if is_test(file) {
                return 1;
            }
            (self.read_file(file, &folder, Some(parent)), 1)
        };
        self.all[parent].children.insert(name.to_owned(), child);
        length
    }

    /// Reads a tree of a `use` after `path`, up to its `;`, `,` or `}`; the last path, and how many tokens that was.
    fn read_use(
        &mut self,
        module: usize,
        is_public: bool,
        path: Vec<String>,
        tokens: &[Token],
    ) -> (Vec<String>, usize) {
        let (mut path, outer, mut index) = (path.clone(), path, 0);
        let (mut is_named, mut name) = (true, None);
        while index < tokens.len() {
            match &tokens[index] {
                Token::Sign('{') => {
                    is_named = false;
                    index += 1;
                    while !tokens[index].is('}') {
                        index += self.read_use(module, is_public, path.clone(), &tokens[index..]).1;
                        index += usize::from(tokens[index].is(','));
                    }
                }
                Token::Sign('*') => {
                    is_named = false;
                    self.all[module].globs.push(path.clone());
                }
                Token::Sign(';' | ',' | '}') => break,
                Token::Word(word) if word == "as" => {
                    index += 1;
                    name = Some(tokens[index].word().to_owned());
                }
                // `use a::b::{self}` is `use a::b`.
                Token::Word(word) if word == "self" && !path.is_empty() => {}
                Token::Word(word) => path.push(word.clone()),
                _ => {}
            }
            index += 1;
        }
        if is_named && path.len() > usize::from(path == outer) {
            let name = name.or_else(|| path.last().cloned()).unwrap_or_default();
            self.all[module].imports.push(Import { name, path: path.clone(), is_public });
        }
        (path, index + usize::from(tokens.get(index).is_some_and(|token| token.is(';'))))
    }

    /// Reads a path of code, if one begins here; how many tokens that was, one at least.
    fn read_path(&mut self, module: usize, tokens: &[Token], is_method: bool) -> usize {
        let mut path = Vec::new();
        let mut length = 0;
        while let Some(Token::Word(word)) = tokens.get(length) {
            path.push(word.clone());
            length += 1;
            let goes_on = matches!(tokens[length..], [Token::Path, Token::Word(_), ..]);
            if !goes_on {
                break;
            }
            length += 1;
        }
        if !path.is_empty() && !is_method {
            self.all[module].paths.push(path);
        }
        length.max(1)
    }

    /// What a path in a module leads to, re-exports followed; `None` for what other crates define.
    pub(super) fn resolve(&self, module: usize, path: &[String]) -> Option<Target> {
        self.resolve_from(module, path, &mut BTreeSet::new())
    }

    fn resolve_from(
        &self,
        module: usize,
        path: &[String],
        seen: &mut BTreeSet<(usize, String)>,
    ) -> Option<Target> {
        let (first, mut rest) = path.split_first()?;
        let start = match first.as_str() {
            "crate" => 0,
            "self" => module,
            "super" => self.all[module].parent?,
            _ => match self.look_up(module, first, !rest.is_empty(), seen)? {
                Target::Module(module) => module,
                item => return Some(item),
            },
        };
        let mut at = start;
        while let Some((name, after)) = rest.split_first() {
            rest = after;
            at = match name.as_str() {
                "super" => self.all[at].parent?,
                _ => match self.look_up(at, name, !rest.is_empty(), seen) {
                    Some(Target::Module(module)) => module,
                    Some(item) => return Some(item),
                    // A macro of this module makes it.
                    None => return Some(Target::Item(at)),
                },
            };
        }
        Some(Target::Module(at))
    }

    /// What a module means by a name; a module before an item where a path goes on.
    fn look_up(
        &self,
        module: usize,
        name: &str,
        goes_on: bool,
        seen: &mut BTreeSet<(usize, String)>,
    ) -> Option<Target> {
        let scope = &self.all[module];
        let child = scope.children.get(name).copied().map(Target::Module);
        if goes_on && child.is_some() {
            return child;
        }
        if scope.items.contains(name) {
            return Some(Target::Item(module));
        }
        if !seen.insert((module, name.to_owned())) {
            return child;
        }
        let imports = scope.imports.iter().filter(|import| import.name == name);
        let imported = imports.filter_map(|import| self.resolve_from(module, &import.path, seen));
        let found = imported.max_by_key(|target| matches!(target, Target::Module(_)) == goes_on);
        let mut from_globs =
            scope.globs.iter().filter_map(|path| match self.resolve_from(module, path, seen)? {
                Target::Module(other) if other != module => self.look_up(other, name, goes_on, seen),
                _ => None,
            });
        let found = found.or(child).or_else(|| from_globs.next());
        seen.remove(&(module, name.to_owned()));
        found
    }
}
