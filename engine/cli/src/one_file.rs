//! Two files where a command takes one.

use std::ffi::OsString;

use clap::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use pipezero_config::takes_one_file;

use super::failure::Failure;

/// Commands that take a master file.
const OF_SEVERAL: [&str; 3] = ["train", "check", "plan"];

/// The failure of a command of [`OF_SEVERAL`] that was given a second file, which is no argument that it knows.
pub(super) fn second_file(error: &Error, arguments: impl Iterator<Item = OsString>) -> Option<Failure> {
    let second = match (error.kind(), error.get(ContextKind::InvalidArg)?) {
        (ErrorKind::UnknownArgument, ContextValue::String(second)) => second,
        _ => return None,
    };
    let arguments: Vec<String> = arguments.map(|argument| argument.to_string_lossy().into_owned()).collect();
    let at = arguments.iter().position(|argument| OF_SEVERAL.contains(&argument.as_str()))?;
    let is_file = |argument: &&String| argument.ends_with(".json") && !argument.starts_with('-');
    let files: Vec<&str> = arguments[at + 1..].iter().filter(is_file).map(String::as_str).collect();
    if files.len() < 2 || !files.contains(&second.as_str()) {
        return None;
    }
    Some(Failure::Input(takes_one_file(&files).into()))
}

#[cfg(test)]
mod tests {
    use std::iter;

    use clap::Parser;

    use super::*;
    use crate::Cli;

    #[test]
    fn two_files_are_answered_with_a_master_file() {
        let two = r#"{"engines": {"a": "a.json", "b": "b.json"}, "tasks": {"all": {"train": ["a", "b"]}}}"#;
        for (command, answer) in [
            ("check a.json b.json", Some(two)),
            ("train a.json --out x b.json", Some(two)),
            ("plan a.json b.json", Some(two)),
            ("show a.json b.json", None),
            ("check a.json b.txt", None),
            ("check a.json --sett b.json", None),
            ("train a.json --set", None),
        ] {
            let arguments = || command.split(' ').map(OsString::from);
            let error = Cli::try_parse_from(iter::once("pipezero".into()).chain(arguments())).unwrap_err();
            let said = second_file(&error, arguments()).map(|failure| match failure {
                Failure::Input(error) => error.to_string(),
                other => panic!("{other:?}"),
            });
            assert_eq!(said.is_some(), answer.is_some(), "{command}: {said:?}");
            assert!(said.is_none_or(|said| answer.is_some_and(|answer| said.ends_with(answer))), "{command}");
        }
    }
}
