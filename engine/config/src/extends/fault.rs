//! Why a file cannot be the base of another.

use std::path::Path;

use pipezero_files::input::InputError;
use pipezero_files::json::shorten;

use super::MAX_BASES;
use crate::error::Problem;
use crate::run_text::{MAX_BYTES, MAX_VALUES};

/// A mistake in a base.
#[derive(Debug)]
pub(super) enum Fault {
    /// It is stdin.
    Stdin,
    /// It has been read already.
    Circle,
    /// It would be one base more than is allowed.
    Deep,
    /// It cannot be read, or is too large together with the others.
    Unread(InputError),
    /// All files together have too many values.
    ManyValues,
    /// It is another value than an object.
    NoObject(String),
    /// It is a master file, which describes several models.
    Master,
}

impl Fault {
    /// The problem at the `extends` that names this file, the last of the chain.
    pub(super) fn of(&self, named: &Path, chain: &str) -> Problem {
        Problem::Rule {
            value: format!("\"{}\"", shorten(&named.display().to_string())),
            rule: format!("{} ({chain})", self.rule()),
            repair: self.repair(),
        }
    }

    fn rule(&self) -> String {
        match self {
            Self::Stdin => "only the file of the command line may be stdin".to_owned(),
            Self::Circle => {
                "that file is read already, so the files extend each other in a circle".to_owned()
            }
            Self::Deep => format!("a run has at most {MAX_BASES} bases, each that of the file before it"),
            Self::Unread(error) => format!("that file cannot be read: {error}"),
            Self::ManyValues => format!("with that file the run has more than {MAX_VALUES} values"),
            Self::NoObject(found) => format!("that file is {found}, and a run file is an object"),
            Self::Master => "that is a master file, of several models, and not a run file".to_owned(),
        }
    }

    fn repair(&self) -> String {
        match self {
            Self::Stdin => "name a file".to_owned(),
            Self::Circle => "remove `extends` from one of them".to_owned(),
            Self::Deep => "join some of these files".to_owned(),
            Self::Unread(InputError::TooLarge { .. }) => {
                format!("the files of a run have at most {MAX_BYTES} bytes together")
            }
            Self::Unread(_) => {
                "relative paths start at the folder of the file in which they are written".to_owned()
            }
            Self::ManyValues => {
                "name files of data by their folder or a pattern such as \"data/*.txt\"".to_owned()
            }
            Self::NoObject(_) => "begin that file with `{` and end it with `}`".to_owned(),
            Self::Master => "name the run file of one engine".to_owned(),
        }
    }
}
