//! The value of `--schedule`: a generator's name, or a file.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use pipezero_plan::what_if::Generator;

/// The schedule that `--schedule` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ScheduleName {
    Generator(Generator),
    /// A file with an order in PyTorch's pipelining CSV.
    File(PathBuf),
}

impl FromStr for ScheduleName {
    type Err = String;

    /// A name that ends in `.csv`, in upper or lower case, is a file.
    fn from_str(text: &str) -> Result<Self, String> {
        if Path::new(text).extension().is_some_and(|extension| extension.eq_ignore_ascii_case("csv")) {
            return Ok(Self::File(text.into()));
        }
        let named = Generator::ALL.into_iter().find(|(_, name)| *name == text);
        named.map(|(generator, _)| Self::Generator(generator)).ok_or_else(|| {
            let names = Generator::ALL.map(|(_, name)| name).join(", ");
            format!("the schedules are {names}; a file with your own order is named *.csv")
        })
    }
}
