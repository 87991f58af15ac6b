//! What is found while a file is read and resolved: mistakes and notices, each at its place.

use std::cell::RefCell;
use std::fmt::Display;
use std::rc::Rc;

use super::error::{ConfigError, Problem};
use super::notice::{Notice, NoticeKind};
use super::place::Place;

/// Characters of a number that a message shows digit by digit: as many as the largest whole number has.
const LONGEST_NUMBER: usize = 20;

/// Errors and notices about a file, collected while it is read and resolved. Every key and section of the file shares
/// them, so that a rule can be reported by the key that breaks it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    pub(crate) errors: Rc<RefCell<Vec<ConfigError>>>,
    pub(crate) notices: Rc<RefCell<Vec<Notice>>>,
}

impl Findings {
    /// Whether more mistakes are known than are shown: of those that follow no repair is sought, since each search takes long.
    pub(crate) fn has_many_errors(&self) -> bool {
        self.errors.borrow().len() > MANY_ERRORS
    }
}

/// Mistakes for which a repair is sought at most; fewer are shown.
pub(crate) const MANY_ERRORS: usize = 1000;

/// Where a key or a section stands, and what is found there.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    pub(crate) place: Place,
    pub(crate) findings: Findings,
}

impl Site {
    /// Adds an error. `None`, as the value that was asked for cannot be had.
    pub(crate) fn error<T>(&self, problem: Problem) -> Option<T> {
        self.findings.errors.borrow_mut().push(ConfigError::new(self.place.clone(), problem));
        None
    }

    /// Adds "`path` is `value`, but `rule`; `repair`".
    pub(crate) fn broken<T>(
        &self,
        value: impl ToString,
        rule: impl Into<String>,
        repair: impl Into<String>,
    ) -> Option<T> {
        let mut value = value.to_string();
        // The decimal digits of 1e300 would fill lines; such a number is repeated as it was written.
        if value.len() > LONGEST_NUMBER && value.parse::<f64>().is_ok() {
            value = self.place.written();
        }
        self.error(Problem::Rule { value, rule: rule.into(), repair: repair.into() })
    }

    /// Adds "`path` is missing: `rule`; `repair`".
    pub(crate) fn missing<T>(&self, rule: &str, repair: &str) -> Option<T> {
        self.error(Problem::Missing { rule: rule.to_owned(), repair: repair.to_owned() })
    }

    /// Adds what became of `"auto"`.
    pub(crate) fn auto(&self, value: impl Display) {
        self.notice(NoticeKind::Auto, value.to_string());
    }

    /// Adds which default stands for a key that is not written.
    pub(crate) fn default(&self, message: impl Into<String>) {
        self.notice(NoticeKind::Default, message.into());
    }

    /// Adds a line about a key that is accepted and has no effect.
    pub(crate) fn hint(&self, message: impl Into<String>) {
        self.notice(NoticeKind::Hint, message.into());
    }

    /// Adds a line about a form that is read as the usual one, and the text of that for this place, if it can be written there.
    pub(crate) fn read_as(&self, message: String, usual: Option<String>) {
        let notice = Notice::new(NoticeKind::Hint, &self.place, message).usually(usual);
        self.findings.notices.borrow_mut().push(notice);
    }

    /// Adds a line about a run that is allowed and probably not what was wanted.
    pub(crate) fn warn(&self, message: impl Into<String>) {
        self.notice(NoticeKind::Warning, message.into());
    }

    fn notice(&self, kind: NoticeKind, message: String) {
        self.findings.notices.borrow_mut().push(Notice::new(kind, &self.place, message));
    }
}
