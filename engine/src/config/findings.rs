//! What is found while a file is read and resolved: mistakes and notices, each at its place.

use super::error::{ConfigError, Problem};
use super::notice::Notice;
use super::place::Place;

/// Characters of a number that a message shows digit by digit: as many as the largest whole number has.
const LONGEST_NUMBER: usize = 20;

/// Errors and notices about a file, collected while it is read and resolved.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) errors: Vec<ConfigError>,
    pub(crate) notices: Vec<Notice>,
}

impl Findings {
    /// Adds an error about the value at `place`.
    pub(crate) fn error(&mut self, place: &Place, problem: Problem) {
        self.errors.push(ConfigError::new(place.clone(), problem));
    }

    /// Adds "`path` is `value`, but `rule`; `repair`".
    pub(crate) fn broken(
        &mut self,
        place: &Place,
        value: impl ToString,
        rule: impl Into<String>,
        repair: impl Into<String>,
    ) {
        let mut value = value.to_string();
        // The decimal digits of 1e300 would fill lines; such a number is repeated as it was written.
        if value.len() > LONGEST_NUMBER && value.parse::<f64>().is_ok() {
            value = place.written();
        }
        let problem = Problem::Rule { value, rule: rule.into(), repair: repair.into() };
        self.error(place, problem);
    }

    /// Adds "`path` is missing: `rule`; `repair`".
    pub(crate) fn missing(&mut self, place: &Place, rule: &str, repair: &str) {
        self.error(place, Problem::Missing { rule: rule.to_owned(), repair: repair.to_owned() });
    }

    /// Adds "`path` is `value`, but `what` is not offered; `repair`".
    pub(crate) fn not_offered(
        &mut self,
        place: &Place,
        value: impl ToString,
        what: impl Into<String>,
        repair: impl Into<String>,
    ) {
        let problem =
            Problem::NotOffered { value: value.to_string(), what: what.into(), repair: repair.into() };
        self.error(place, problem);
    }

    /// Adds "`path` is `value`, but `what` is not offered yet; `repair`".
    pub(crate) fn not_yet(
        &mut self,
        place: &Place,
        value: impl ToString,
        what: impl Into<String>,
        repair: impl Into<String>,
    ) {
        let problem =
            Problem::NotOfferedYet { value: value.to_string(), what: what.into(), repair: repair.into() };
        self.error(place, problem);
    }
}
