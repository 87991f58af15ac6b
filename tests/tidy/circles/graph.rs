//! Which file names what another defines, and the circles that makes.

use std::collections::{BTreeMap, BTreeSet};

use super::modules::{Modules, Sources, Target};

/// For each file the files whose names it uses, each with one such name.
type Edges = BTreeMap<String, BTreeMap<String, String>>;

/// The imports between the files of a crate.
#[derive(Default)]
pub(super) struct Graph {
    edges: Edges,
    /// `(parent, child)`: files of a module and of its own child, which may name each other.
    parents: BTreeSet<(String, String)>,
}

/// Files that name each other around, and which names.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Circle {
    pub(super) files: Vec<String>,
    /// `a -> b: Name`, between files of this circle.
    pub(super) edges: Vec<String>,
}

impl Graph {
    /// The imports of the crate whose root is this file.
    pub(super) fn new(sources: &Sources, root: &str) -> Self {
        let modules = Modules::read(sources, root);
        let mut graph = Self::default();
        for (index, module) in modules.all.iter().enumerate() {
            if let Some(parent) = module.parent {
                graph.parents.insert((modules.all[parent].file.clone(), module.file.clone()));
            }
            // A re-export introduces a name; it does not count as a use unless the code below it has the name.
            let code: BTreeSet<&String> = module.paths.iter().filter_map(|path| path.first()).collect();
            let imports = module.imports.iter().filter(|i| !i.is_public || code.contains(&i.name));
            for path in imports.map(|import| &import.path).chain(&module.paths) {
                let Some(Target::Item(defined)) = modules.resolve(index, path) else { continue };
                let (from, to) = (&module.file, &modules.all[defined].file);
                if from != to {
                    let names = graph.edges.entry(from.clone()).or_default();
                    names.entry(to.clone()).or_insert_with(|| path.join("::"));
                }
            }
        }
        graph
    }

    /// Every file that a path of imports leads to from `start`, `start` itself only if one leads back; without `skipped`.
    fn reached(edges: &Edges, start: &str, skipped: (&str, &str)) -> BTreeSet<String> {
        let mut reached = BTreeSet::new();
        let mut open = vec![start.to_owned()];
        while let Some(from) = open.pop() {
            for to in edges.get(&from).into_iter().flat_map(BTreeMap::keys) {
                if (from.as_str(), to.as_str()) != skipped && reached.insert(to.clone()) {
                    open.push(to.clone());
                }
            }
        }
        reached
    }

    /// The imports that are part of a circle: of one that is more than a parent and its own child.
    fn in_circles(&self) -> Edges {
        let mut kept = self.edges.clone();
        for (from, names) in &mut kept {
            names.retain(|to, _| {
                let (down, up) = ((from.clone(), to.clone()), (to.clone(), from.clone()));
                let is_family = self.parents.contains(&down) || self.parents.contains(&up);
                let skipped = if is_family { (to.as_str(), from.as_str()) } else { ("", "") };
                Self::reached(&self.edges, to, skipped).contains(from)
            });
        }
        kept
    }

    /// Every circle, the largest first.
    pub(super) fn circles(&self) -> Vec<Circle> {
        let edges = self.in_circles();
        let reached: BTreeMap<&String, BTreeSet<String>> =
            edges.keys().map(|file| (file, Self::reached(&edges, file, ("", "")))).collect();
        let (mut circles, mut done) = (Vec::new(), BTreeSet::new());
        for (file, others) in &reached {
            if !others.contains(*file) || done.contains(*file) {
                continue;
            }
            let is_back = |other: &&String| reached.get(other).is_some_and(|back| back.contains(*file));
            let files: Vec<String> = others.iter().filter(is_back).cloned().collect();
            done.extend(files.clone());
            let mut lines = Vec::new();
            for from in &files {
                let inside = edges[from].iter().filter(|(to, _)| files.contains(to));
                lines.extend(inside.map(|(to, name)| format!("{from} -> {to}: {name}")));
            }
            circles.push(Circle { files, edges: lines });
        }
        circles.sort_by_key(|circle| std::cmp::Reverse(circle.files.len()));
        circles
    }
}
