//! What is wrong with a master file, collected while it is read.

use pipezero_files::json::{Entry, Node, Span, Value, join};

use crate::error::{ConfigError, Problem};
use crate::place::Place;
use crate::several::{MasterProblem, NameOf, is_name};

/// Collects what is wrong.
pub(super) struct Reader {
    pub(super) errors: Vec<ConfigError>,
}

impl Reader {
    pub(super) fn error(&mut self, path: &str, span: &Span, problem: Problem) {
        let place = Place { path: path.to_owned(), span: span.clone() };
        self.errors.push(ConfigError::new(place, problem));
    }

    pub(super) fn master_error(&mut self, path: &str, span: &Span, problem: MasterProblem) {
        self.error(path, span, Problem::Master(problem));
    }

    pub(super) fn missing<T>(&mut self, key: &str, span: &Span, rule: &str, repair: &str) -> Option<T> {
        let (rule, repair) = (rule.to_owned(), repair.to_owned());
        self.error(key, span, Problem::Missing { rule, repair });
        None
    }

    pub(super) fn wrong_type(&mut self, path: &str, node: &Node, expected: &str, repair: &str) {
        let (expected, repair) = (expected.to_owned(), repair.to_owned());
        let problem = Problem::WrongType { expected, found: node.describe(), repair, replacement: None };
        self.error(path, &node.span, problem);
    }

    /// The entries of an object that names engines or tasks, with names that can be used.
    pub(super) fn named<'a>(&mut self, entry: &'a Entry, of: NameOf) -> Option<Vec<&'a Entry>> {
        let Value::Object(entries) = &entry.node.value else {
            let repair = match of {
                NameOf::Engine => r#"write {"NAME": "its-run-file.json", ...}"#,
                NameOf::Task => r#"write {"NAME": {"train": ["ENGINE", ...]}}"#,
            };
            self.wrong_type(&entry.key, &entry.node, "an object", repair);
            return None;
        };
        if entries.is_empty() {
            self.master_error(&entry.key, &entry.node.span, MasterProblem::Empty { of });
        }
        for inner in entries.iter().filter(|inner| !is_name(&inner.key, of)) {
            let path = join(&entry.key, &inner.key);
            self.master_error(&path, &inner.key_span, MasterProblem::BadName { of });
        }
        Some(entries.iter().collect())
    }
}
