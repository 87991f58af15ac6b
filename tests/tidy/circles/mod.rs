//! Circles of imports: files that can only be understood together, because each names what the next one defines.
//!
//! A file is understood after the files that it names. A name that a `mod.rs` re-exports belongs to the file that defines it. A
//! module's file and its own child may name each other; any other circle is to end: move what both need into a file of its own.

mod graph; // Which file names what another defines.
mod modules; // What a path leads to.
mod tokens; // Source without comments, literals and tests.

use self::graph::{Circle, Graph};
use self::modules::Sources;
use super::tree::{files, read, report};

/// Roots of programs of more than one file that are no crates of their own.
const PROGRAMS: [&str; 2] = ["engine/examples/study/main.rs", "benches/accuracy/main.rs"];

/// The roots of the crates, and of those programs.
fn roots() -> Vec<String> {
    let libraries: Vec<String> =
        files("", "lib.rs").into_iter().filter(|path| path.contains("src/")).collect();
    assert!(libraries.len() > 15, "only {libraries:?} were found");
    libraries.into_iter().chain(PROGRAMS.map(str::to_owned)).collect()
}

/// The circles of a crate.
fn circles(root: &str) -> Vec<Circle> {
    let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder);
    let sources: Sources = files(folder, ".rs").into_iter().map(|path| (path.clone(), read(&path))).collect();
    Graph::new(&sources, root).circles()
}

#[test]
fn files_do_not_import_each_other_in_circles() {
    let found: Vec<Circle> = roots().iter().flat_map(|crate_root| circles(crate_root)).collect();
    let num_files: usize = found.iter().map(|circle| circle.files.len()).sum();
    println!("{} circles of imports, {num_files} files in them", found.len());
    let lines = found
        .iter()
        .map(|circle| format!("of {} files:\n  {}", circle.files.len(), circle.edges.join("\n  ")));
    report(&lines.collect::<Vec<_>>());
}

/// The files of the circles in a crate of these files.
fn circles_of(files: &[(&str, &str)]) -> Vec<Vec<String>> {
    let sources: Sources = files.iter().map(|&(path, text)| (path.to_owned(), text.to_owned())).collect();
    Graph::new(&sources, files[0].0).circles().into_iter().map(|circle| circle.files).collect()
}

#[test]
fn a_planted_circle_is_found() {
    let two = [
        ("a/lib.rs", "mod b; mod c;"),
        ("a/b.rs", "use crate::c::C; pub struct B(C);"),
        ("a/c.rs", "pub struct C; fn f(b: &super::b::B) {}"),
    ];
    assert_eq!(circles_of(&two), [["a/b.rs", "a/c.rs"]]);
    let three = [
        ("a/lib.rs", "mod b; mod c; mod d;"),
        ("a/b/mod.rs", "mod e; pub(crate) use self::e::{self, make as made};"),
        ("a/b/e.rs", "use crate::c::{self, C}; pub(crate) fn make() { c::f() }"),
        ("a/c.rs", "pub struct C; pub fn f() { crate::d::g() }"),
        ("a/d.rs", "use super::b; pub fn g() { b::made() }"),
    ];
    assert_eq!(circles_of(&three), [["a/b/e.rs", "a/c.rs", "a/d.rs"]]);
}

#[test]
fn a_circle_through_a_parent_is_found() {
    let files = [
        ("a/lib.rs", "mod b; mod c; pub struct A; fn f() { b::f() }"),
        ("a/b.rs", "use super::c::f; fn f() {}"),
        ("a/c.rs", "use super::A; pub fn f(a: A) {}"),
    ];
    assert_eq!(circles_of(&files), [["a/b.rs", "a/c.rs", "a/lib.rs"]]);
}

#[test]
fn a_parent_and_its_own_children_are_no_circle() {
    let files = [
        ("a/lib.rs", "mod b; pub mod c; use b::B; pub struct A(B);"),
        ("a/b.rs", "use super::A; pub struct B; impl A {}"),
        ("a/c/mod.rs", "mod d; pub struct C(d::D);"),
        ("a/c/d.rs", "pub struct D(Box<super::C>, crate::A);"),
    ];
    assert_eq!(circles_of(&files), Vec::<Vec<String>>::new());
}

#[test]
fn a_module_that_only_introduces_is_in_no_circle() {
    let files = [
        ("a/lib.rs", "pub mod b;"),
        ("a/b.rs", "mod c; mod d; pub use c::C; pub use d::*;"),
        ("a/b/c.rs", "use super::D; pub struct C(D);"),
        ("a/b/d.rs", "#[cfg(test)] use super::C; pub struct D; // super::C\n"),
    ];
    assert_eq!(circles_of(&files), Vec::<Vec<String>>::new());
}

#[test]
fn names_from_a_glob_are_resolved() {
    let files = [
        ("a/lib.rs", "mod b; mod c; mod d;"),
        ("a/b.rs", "use super::d::*; pub struct B(C);"),
        ("a/c.rs", "use crate::b::*; pub struct C(Box<B>);"),
        ("a/d.rs", "pub use super::c::C;"),
    ];
    assert_eq!(circles_of(&files), [["a/b.rs", "a/c.rs"]]);
}
