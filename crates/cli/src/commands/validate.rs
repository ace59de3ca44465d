//! `throughline validate`: everything that is wrong with records.

use crate::args::ValidateArguments;
use crate::error::{CliError, EXIT_BAD_INPUT};
use crate::input::Source;
use crate::output::print_json;
use serde::Serialize;
use throughline_format::validate::{Violation, validate_document};

/// What the command prints.
#[derive(Debug, Serialize)]
struct ValidationReport<'a> {
    valid: bool,
    record: &'static str,
    violations: Vec<ViolationEntry<'a>>,
}

#[derive(Debug, Serialize)]
struct ViolationEntry<'a> {
    code: &'a str,
    path: &'a str,
    message: &'a str,
}

impl<'a> From<&'a Violation> for ViolationEntry<'a> {
    fn from(violation: &'a Violation) -> Self {
        Self {
            code: violation.code,
            path: &violation.path,
            message: &violation.message,
        }
    }
}

/// Runs the command: 0 when nothing is wrong, 2 otherwise. Either way stdout has the report.
///
/// # Errors
/// [`CliError`] with the exit code, when there is nothing to validate.
pub fn run(arguments: &ValidateArguments) -> Result<u8, CliError> {
    let input = Source::parse(&arguments.file).read()?;
    let report = validate_document(&input);
    print_json(&ValidationReport {
        valid: report.is_valid(),
        record: report.record,
        violations: report.violations.iter().map(ViolationEntry::from).collect(),
    })?;
    Ok(if report.is_valid() { 0 } else { EXIT_BAD_INPUT })
}
