//! What the keys of all families have in common.

use crate::config::findings::Findings;
use crate::config::section::Field;
use crate::config::words::one_of;

use super::super::rules::at_least_one;

/// A size that the user chooses: needed, and at least 1.
pub(super) fn size(field: &Field<usize>, findings: &mut Findings) -> Option<usize> {
    let value = field.required(findings, "the model's size is yours to choose", "add it");
    at_least_one(field, value, findings)
}

/// Reports a key that says nothing to the family of this model, whatever its value.
pub(super) fn not_of_family<T: Clone>(
    field: &Field<T>,
    family: &str,
    owners: &'static [&'static str],
    findings: &mut Findings,
) -> Option<()> {
    if field.given().is_some() {
        let rule = format!("it belongs to family {}, not to \"{family}\"", one_of(owners));
        findings.broken(&field.place, field.place.written(), rule, "remove it");
    }
    (!field.is_written()).then_some(())
}
