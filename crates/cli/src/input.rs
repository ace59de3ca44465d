//! Reading files and standard input within bounds.

use crate::error::CliError;
use serde::de::DeserializeOwned;
use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};

/// Largest body of one conversion, in bytes (architecture: request body).
pub const MAX_BODY_BYTES: usize = 32 * 1024 * 1024;
/// Largest line of a batch: a body, escaped as JSON text, and its options.
pub const MAX_LINE_BYTES: usize = 2 * MAX_BODY_BYTES;
/// Largest option file.
const MAX_OPTION_FILE_BYTES: usize = 1024 * 1024;

/// Where a command reads from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Standard input.
    Stdin,
    /// A file.
    File(PathBuf),
}

impl Source {
    /// `-` is standard input, as everywhere.
    pub fn parse(argument: &Path) -> Self {
        if argument.as_os_str() == "-" {
            Self::Stdin
        } else {
            Self::File(argument.to_owned())
        }
    }

    /// Reads all of it, at most [`MAX_BODY_BYTES`].
    ///
    /// # Errors
    /// `invalid-request.usage` when the file cannot be read, `too-large.body` beyond the bound.
    pub fn read(&self) -> Result<Vec<u8>, CliError> {
        match self {
            Self::Stdin => read_bounded(std::io::stdin().lock(), MAX_BODY_BYTES, "standard input"),
            Self::File(path) => read_bounded(open(path)?, MAX_BODY_BYTES, "the file"),
        }
    }

    /// Opens it for reading line by line.
    ///
    /// # Errors
    /// `invalid-request.usage` when the file cannot be opened.
    pub fn open(&self) -> Result<Box<dyn BufRead>, CliError> {
        match self {
            Self::Stdin => Ok(Box::new(std::io::stdin().lock())),
            Self::File(path) => Ok(Box::new(std::io::BufReader::new(open(path)?))),
        }
    }
}

/// Reads a JSON file that an option names.
///
/// # Errors
/// `invalid-request.*` with the option's name in the message.
pub fn option_file<T: DeserializeOwned>(option: &str, path: &Path) -> Result<T, CliError> {
    let bytes = read_bounded(open(path)?, MAX_OPTION_FILE_BYTES, option)?;
    throughline_format::json::decode_slice(&bytes).map_err(|e| {
        let mut error = CliError::from(e);
        error.message = format!("{option}: {}", error.message);
        error
    })
}

/// What a line-by-line reader got.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// A line without its end.
    Text(Vec<u8>),
    /// A line beyond the bound; it was read to its end and dropped.
    TooLong,
    /// Nothing more.
    End,
}

/// Reads one line of at most `max_bytes`.
///
/// # Errors
/// Those of the reader.
pub fn read_line(reader: &mut dyn BufRead, max_bytes: usize) -> std::io::Result<Line> {
    let mut line = Vec::new();
    let limit = u64::try_from(max_bytes).unwrap_or(u64::MAX).saturating_add(1);
    let read = Read::take(&mut *reader, limit).read_until(b'\n', &mut line)?;
    if read == 0 {
        return Ok(Line::End);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if line.len() > max_bytes {
        skip_line(reader)?;
        return Ok(Line::TooLong);
    }
    Ok(Line::Text(line))
}

fn skip_line(reader: &mut dyn BufRead) -> std::io::Result<()> {
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok(());
        }
        let (used, done) = match buffer.iter().position(|b| *b == b'\n') {
            Some(at) => (at + 1, true),
            None => (buffer.len(), false),
        };
        reader.consume(used);
        if done {
            return Ok(());
        }
    }
}

/// Checks that a body is text, so that no command has to guess an encoding.
///
/// # Errors
/// `invalid-request.json` with the offset of the first bad byte.
pub fn check_utf8(body: &[u8]) -> Result<(), CliError> {
    std::str::from_utf8(body)
        .map(|_| ())
        .map_err(|e| CliError::input("json", format!("the input is not UTF-8: bad byte at offset {}", e.valid_up_to())))
}

fn open(path: &Path) -> Result<std::fs::File, CliError> {
    std::fs::File::open(path).map_err(|e| CliError::usage(format!("cannot read {}: {e}", path.display())))
}

fn read_bounded(reader: impl Read, max_bytes: usize, what: &str) -> Result<Vec<u8>, CliError> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(max_bytes).unwrap_or(u64::MAX).saturating_add(1);
    reader
        .take(limit)
        .read_to_end(&mut bytes)
        .map_err(|e| CliError::usage(format!("cannot read {what}: {e}")))?;
    if bytes.len() > max_bytes {
        return Err(CliError::too_large(what, max_bytes));
    }
    Ok(bytes)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_bounded_and_an_overlong_one_does_not_stop_the_next() {
        let mut input: &[u8] = b"ab\nabcdef\n\nabcd\nxy";
        let mut got = Vec::new();
        loop {
            match read_line(&mut input, 4).unwrap() {
                Line::End => break,
                line => got.push(line),
            }
        }
        let text = |t: &[u8]| Line::Text(t.to_vec());
        assert_eq!(got, [text(b"ab"), Line::TooLong, text(b""), text(b"abcd"), text(b"xy")]);
    }
}
