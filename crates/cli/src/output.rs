//! Writing results: one JSON value a line on stdout, errors on stderr. A closed pipe ends a command quietly.

use crate::error::CliError;
use serde::Serialize;
use std::io::Write;

/// Whether whoever reads the output is still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// Go on.
    There,
    /// The pipe is closed: there is nothing left to do.
    Gone,
}

/// Writes a value as one line of compact JSON to stdout.
///
/// # Errors
/// `internal.*` when the value has no JSON form or stdout fails; a closed pipe is no error.
pub fn print_json<T: Serialize + ?Sized>(value: &T) -> Result<Reader, CliError> {
    let mut text = serde_json::to_vec(value).map_err(|e| CliError::internal("output", format!("cannot write the result: {e}")))?;
    text.push(b'\n');
    print_bytes(&text)
}

/// Writes bytes to stdout.
///
/// # Errors
/// `internal.io` when stdout fails; a closed pipe is no error.
pub fn print_bytes(bytes: &[u8]) -> Result<Reader, CliError> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(Reader::There),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(Reader::Gone),
        Err(error) => Err(CliError::io("cannot write to stdout", &error)),
    }
}

/// Writes a value as one line of compact JSON to stderr. That it cannot be written is nothing that could be reported.
pub fn report<T: Serialize + ?Sized>(value: &T) {
    if let Ok(mut text) = serde_json::to_vec(value) {
        text.push(b'\n');
        let _ = std::io::stderr().lock().write_all(&text);
    }
}
