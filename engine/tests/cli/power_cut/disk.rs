//! A disk that keeps contents and names through a power cut only if they were forced onto it: POSIX promises no more. The contents of a file are forced by an
//! `fsync` of the file, its name by one of its folder.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::trace::Call;

/// The paths in a folder: files with their contents, folders without.
pub(super) type State = BTreeMap<PathBuf, Option<Vec<u8>>>;

/// The part that a power cut loses of all that was not forced.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loses {
    pub(super) contents: bool,
    pub(super) names: bool,
}

/// Now, and after a power cut.
#[derive(Debug, Default)]
struct Pair<T> {
    now: T,
    kept: T,
}

#[derive(Debug)]
enum Node {
    File(Pair<Vec<u8>>),
    Folder(Pair<BTreeMap<String, usize>>),
}

#[derive(Clone, Copy, Debug)]
struct Open {
    /// The number that it shares with its duplicates.
    handle: usize,
    node: usize,
    adds: bool,
}

/// A folder on such a disk, and those of its files that a program has open.
#[derive(Debug)]
pub(super) struct Disk {
    path: PathBuf,
    /// The folder is the first.
    nodes: Vec<Node>,
    open: HashMap<i64, Open>,
    /// `[handle]`: where the next byte goes.
    positions: Vec<usize>,
}

/// Calls that change no file.
const CHANGE_NOTHING: [&str; 4] = ["close", "lseek", "fcntl", "dup"];

impl Disk {
    /// A folder that is on the disk as it is.
    pub(super) fn of(path: &Path) -> Self {
        let path = fs::canonicalize(path).unwrap();
        let mut disk = Self { path, nodes: Vec::new(), open: HashMap::new(), positions: Vec::new() };
        disk.add(&disk.path.clone());
        disk
    }

    fn add(&mut self, path: &Path) -> usize {
        let number = self.nodes.len();
        if path.is_file() {
            let [now, kept] = [(); 2].map(|()| fs::read(path).unwrap());
            self.nodes.push(Node::File(Pair { now, kept }));
            return number;
        }
        self.nodes.push(Node::Folder(Pair::default()));
        let mut names = BTreeMap::new();
        for entry in fs::read_dir(path).unwrap() {
            let entry = entry.unwrap();
            names.insert(entry.file_name().into_string().unwrap(), self.add(&entry.path()));
        }
        self.nodes[number] = Node::Folder(Pair { now: names.clone(), kept: names });
        number
    }

    /// The folder as it would be found now, or after a power cut.
    pub(super) fn state(&self, loses: Loses) -> State {
        let mut state = State::new();
        self.collect(0, Path::new(""), loses, &mut state);
        state
    }

    fn collect(&self, node: usize, path: &Path, loses: Loses, state: &mut State) {
        match &self.nodes[node] {
            Node::File(contents) => {
                let found = if loses.contents { &contents.kept } else { &contents.now };
                state.insert(path.to_owned(), Some(found.clone()));
            }
            Node::Folder(names) => {
                state.insert(path.to_owned(), None);
                for (name, node) in if loses.names { &names.kept } else { &names.now } {
                    self.collect(*node, &path.join(name), loses, state);
                }
            }
        }
    }

    fn find(&self, path: &Path) -> Option<usize> {
        let mut node = 0;
        for part in path.strip_prefix(&self.path).ok()?.components() {
            let (Component::Normal(name), Node::Folder(names)) = (part, &self.nodes[node]) else {
                return None;
            };
            node = *names.now.get(name.to_str()?)?;
        }
        Some(node)
    }

    /// The names in the folder that a path is in; the name. `None` for a path elsewhere.
    fn entry(&mut self, path: &Path) -> Option<(&mut BTreeMap<String, usize>, String)> {
        if !path.starts_with(&self.path) {
            return None;
        }
        let folder = self.find(path.parent()?).unwrap_or_else(|| panic!("{} is not known", path.display()));
        let Node::Folder(names) = &mut self.nodes[folder] else { panic!("{}", path.display()) };
        Some((&mut names.now, path.file_name()?.to_str()?.to_owned()))
    }

    fn file(&mut self, open: Open) -> &mut Pair<Vec<u8>> {
        match &mut self.nodes[open.node] {
            Node::File(contents) => contents,
            Node::Folder(_) => panic!("a folder is written to"),
        }
    }

    /// Does what a call did to the folder; whether it changed what is there, or forced it onto the disk.
    pub(super) fn apply(&mut self, call: &Call, here: &Path) -> bool {
        match call.name.as_str() {
            "openat" => return self.open(call, here),
            "close" => drop(self.open.remove(&call.file(0))),
            "fcntl" if call.has(1, "F_DUPFD") || call.has(1, "F_DUPFD_CLOEXEC") => self.duplicate(call),
            "dup" => self.duplicate(call),
            "lseek" => {
                if let Some(open) = self.open.get(&call.file(0)) {
                    self.positions[open.handle] = call.result as usize;
                }
            }
            "mkdir" => return self.make_folder(&call.path(0, here)),
            "unlink" | "rmdir" => return self.remove(&call.path(0, here)),
            "unlinkat" => return self.remove(&call.path(1, here)),
            "rename" => return self.rename(&call.path(0, here), &call.path(1, here)),
            "renameat" => return self.rename(&call.path(1, here), &call.path(3, here)),
            "mkdirat" => return self.make_folder(&call.path(1, here)),
            "write" | "ftruncate" | "fsync" | "fdatasync" => return self.of_open_file(call),
            name if CHANGE_NOTHING.contains(&name) => {}
            name => assert!(!self.names(call, here), "{name} is not known here: {call:?}"),
        }
        false
    }

    /// Whether an unknown call has to do with the folder.
    fn names(&self, call: &Call, here: &Path) -> bool {
        let words = format!("{call:?}");
        let hex = |path: &Path| -> String {
            path.to_str().unwrap().bytes().map(|byte| format!("\\\\x{byte:02x}")).collect()
        };
        words.contains(&hex(&self.path)) || words.contains(&hex(self.path.strip_prefix(here).unwrap()))
    }

    fn open(&mut self, call: &Call, here: &Path) -> bool {
        let path = call.path(1, here);
        let found = self.find(&path);
        let node = match found {
            Some(node) => node,
            None => {
                let number = self.nodes.len();
                let Some((names, name)) = self.entry(&path) else {
                    self.open.remove(&call.result);
                    return false;
                };
                names.insert(name, number);
                self.nodes.push(Node::File(Pair::default()));
                number
            }
        };
        let open = Open { handle: self.positions.len(), node, adds: call.has(2, "O_APPEND") };
        self.positions.push(0);
        self.open.insert(call.result, open);
        let empties = call.has(2, "O_TRUNC");
        if empties {
            self.file(open).now.clear();
        }
        found.is_none() || empties
    }

    fn duplicate(&mut self, call: &Call) {
        if let Some(&open) = self.open.get(&call.file(0)) {
            self.open.insert(call.result, open);
        }
    }

    fn make_folder(&mut self, path: &Path) -> bool {
        let number = self.nodes.len();
        let Some((names, name)) = self.entry(path) else { return false };
        names.insert(name, number);
        self.nodes.push(Node::Folder(Pair::default()));
        true
    }

    fn remove(&mut self, path: &Path) -> bool {
        self.entry(path).is_some_and(|(names, name)| names.remove(&name).is_some())
    }

    fn rename(&mut self, from: &Path, to: &Path) -> bool {
        let Some((names, name)) = self.entry(from) else { return false };
        let node = names.remove(&name).unwrap();
        let (names, name) = self.entry(to).unwrap();
        names.insert(name, node);
        true
    }

    fn of_open_file(&mut self, call: &Call) -> bool {
        let Some(&open) = self.open.get(&call.file(0)) else { return false };
        match (call.name.as_str(), &mut self.nodes[open.node]) {
            ("fsync" | "fdatasync", Node::File(contents)) => contents.kept.clone_from(&contents.now),
            ("fsync", Node::Folder(names)) => names.kept.clone_from(&names.now),
            ("ftruncate", _) => self.file(open).now.resize(call.number(1) as usize, 0),
            ("write", _) => {
                let bytes = call.bytes(1);
                let bytes = &bytes[..call.result as usize];
                let begin = if open.adds { self.file(open).now.len() } else { self.positions[open.handle] };
                let end = begin + bytes.len();
                let contents = &mut self.file(open).now;
                contents.resize(contents.len().max(end), 0);
                contents[begin..end].copy_from_slice(bytes);
                self.positions[open.handle] = end;
            }
            (name, _) => panic!("{name} of a folder"),
        }
        true
    }
}
