//! The tree against its own rules: what `docs/ARCHITECTURE.md` and `docs/STYLE.md` say is compared with the files.
//!
//! The tables of ARCHITECTURE.md *are* the expectation, so the page cannot lag behind the code. That every file of
//! `engine/configs/` loads is held by `every_example_loads` in `engine/config/src/tests/documents.rs`.

mod arrows; // Crates, modules and dependencies use what the architecture's tables say.
mod circles; // Files do not import each other in circles.
mod documents; // Pages are linked, and what they name exists.
mod source; // Lengths and constructs of every source file.
mod tree; // Reading the repository.
mod words; // One word for one thing.
