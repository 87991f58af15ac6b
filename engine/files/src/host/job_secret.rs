//! The secret of a job: its processes prove to each other that they know it, so that nobody else can take part.
//!
//! The user sets it in a variable of the environment, or `pipezero launch` draws one and sets the variable for its processes. The system shows a
//! process's environment to nobody but its user and root, while all users see command lines.

use std::ffi::{OsStr, OsString};
use std::fmt::{self, Debug, Formatter};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::{env, io};

/// The secret of a job. It cannot be printed.
#[derive(Clone, PartialEq, Eq)]
pub struct JobSecret(Vec<u8>);

/// Random bytes in a secret that is drawn.
const DRAWN_BYTES: usize = 32;

impl JobSecret {
    /// The variable of the environment that holds it.
    pub const VARIABLE: &str = "PIPEZERO_JOB_SECRET";
    /// Bytes of a secret that is drawn: two hexadecimal digits for each random byte.
    pub const DRAWN_LEN: usize = 2 * DRAWN_BYTES;

    /// That of the environment; `None` where it is not set, or empty.
    pub fn of_environment() -> Option<Self> {
        Self::new(env::var_os(Self::VARIABLE)?.into_vec())
    }

    /// These bytes; `None` if there are none.
    pub fn new(bytes: Vec<u8>) -> Option<Self> {
        (!bytes.is_empty()).then_some(Self(bytes))
    }

    /// A new one.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn draw() -> io::Result<Self> {
        let digits = random::<DRAWN_BYTES>()?.into_iter().flat_map(|byte| format!("{byte:02x}").into_bytes());
        Ok(Self(digits.collect()))
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// As the value of the variable.
    pub fn value(&self) -> OsString {
        OsStr::from_bytes(&self.0).to_owned()
    }
}

impl Debug for JobSecret {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("JobSecret")
    }
}

/// Random bytes of the system, which nobody can guess.
///
/// # Errors
/// When it has none.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_secrets_differ_are_text_and_are_never_printed() {
        let [one, other] = [(); 2].map(|()| JobSecret::draw().unwrap());
        assert_ne!(one, other);
        let text = one.value().into_string().unwrap();
        assert_eq!(text.len(), JobSecret::DRAWN_LEN);
        assert!(text.bytes().all(|byte| byte.is_ascii_hexdigit()), "{text}");
        assert!(!format!("{one:?}").contains(&text[..4]));
        assert_eq!(JobSecret::new(text.into_bytes()), Some(one));
        assert_eq!(JobSecret::new(Vec::new()), None);
    }
}
