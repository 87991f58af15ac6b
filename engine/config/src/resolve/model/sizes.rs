//! What the keys of all families have in common.

use crate::section::Field;
use crate::words::{FamilyWord, one_of};

/// A size that the user chooses: needed, and at least 1.
pub(super) fn size(field: &Field<usize>) -> Option<usize> {
    field.at_least_one(field.required("the model's size is yours to choose", "add it"))
}

/// Reports a key that says nothing to the family of this model, whatever its value.
pub(super) fn not_of_family<T: Clone>(
    field: &Field<T>,
    family: FamilyWord,
    owners: &[FamilyWord],
) -> Option<()> {
    let owners: Vec<&str> = owners.iter().map(|owner| owner.word()).collect();
    let rule = format!("it belongs to family {}, not to \"{}\"", one_of(&owners), family.word());
    field.absent(|_| field.site.place.written(), &rule)
}

/// A number that must be positive.
pub(super) fn positive(field: &Field<f64>, default: f64) -> Option<f64> {
    let repair = format!("use a value such as {default}");
    field.keep(field.or(default), |value| value > 0.0, "it must be positive", &repair)
}

/// The standard deviation of initial weights.
pub(super) fn init_std(field: &Field<f64>, default: f64) -> Option<f64> {
    let rule = "with 0 all weights would start equal and stay equal: it must be positive";
    field.keep(field.or(default), |std| std > 0.0, rule, "use a value such as 0.02")
}
