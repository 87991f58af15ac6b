//! Values of a template as JSON or text, up to a bound: a list that has itself twice, sixty times over, is short until it is written.

use std::fmt;
use std::io;

use minijinja::{Error, ErrorKind, Value};
use serde_json::Value as Json;

/// Bytes of a list or an object as JSON. The tools of a conversation, which are the largest, have some hundred thousand.
const BYTES_MAX: usize = 8 << 20;

/// A value as JSON.
///
/// # Errors
/// When it is too long, or no JSON.
pub(super) fn json_of(value: &Value) -> Result<Json, Error> {
    let mut room = Room(BYTES_MAX);
    match serde_json::to_writer(&mut room, value) {
        Err(error) if error.is_io() => Err(too_long()),
        _ => serde_json::to_value(value)
            .map_err(|error| Error::new(ErrorKind::BadSerialization, error.to_string())),
    }
}

/// A value as minijinja writes it.
///
/// # Errors
/// When it is too long.
pub(super) fn display_of(value: &Value) -> Result<String, Error> {
    let mut room = Room(BYTES_MAX);
    fmt::write(&mut room, format_args!("{value}")).map_err(|_| too_long())?;
    Ok(value.to_string())
}

/// That its text is too long to be written.
pub(super) fn is_too_long(error: &Error) -> bool {
    error.kind() == ErrorKind::OutOfFuel
}

fn too_long() -> Error {
    ErrorKind::OutOfFuel.into()
}

/// Room for so many bytes, which are counted and not kept.
struct Room(usize);

impl io::Write for Room {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Write for Room {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 = self.0.checked_sub(text.len()).ok_or(fmt::Error)?;
        Ok(())
    }
}
